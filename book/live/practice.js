// Gives the practice problems of a page an answer box. The checking is the library's own, as in a notebook.
import { formula, make } from "./elements.js";
import { call, patience } from "./python.js";

export const elsewhere = JSON.parse(document.querySelector("[data-steps]")?.textContent ?? "{}"); // steps of other pages

for (const problem of document.querySelectorAll("[data-problem]")) equip(problem);

// The interview is told of each verdict, and keeps to the numbers it has posed.
export function equip(problem, { checked = () => {}, fresh = true } = {}) {
  const { problem: id, unit, level } = problem.dataset;
  if (level === "design") return;
  const answer = make("input", {
    type: "text", id: `answer-${id.replace("/", "-")}`, autocomplete: "off", spellcheck: false,
    placeholder: unit === "B" || unit === "s" ? "a number and its unit" : unit === "x" ? "a number, or a percentage" : unit,
  });
  const verdict = make("output", {});
  verdict.setAttribute("aria-live", "polite");
  verdict.htmlFor = answer.id;
  const title = problem.querySelector(".practice-title").firstChild.textContent.trim(); // without its level
  const button = (type, text) => make("button", { type, textContent: text, ariaLabel: `${text}: ${title}` });
  const form = make("form", { className: "practice-form" },
    make("label", { htmlFor: answer.id, textContent: "Your answer" }), answer, button("submit", "Check"), verdict);
  problem.querySelector(".practice-ask").after(form);
  const describe = () => { // the question is heard where its answer goes
    const question = problem.querySelector(".practice-ask");
    question.id = `${answer.id}-ask`;
    answer.setAttribute("aria-describedby", question.id);
  };
  describe();
  const say = (text) => { verdict.textContent = text; };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    delete verdict.dataset.right;
    ask(["check", id, Number(problem.dataset.seed), answer.value], say, (found) => {
      verdict.dataset.right = found.right;
      verdict.replaceChildren(...linked(found.message, found.step));
      checked(found);
    });
  });

  if (!fresh) return;
  const again = button("button", "Fresh numbers");
  again.className = "quiet";
  verdict.before(again);
  again.addEventListener("click", () => {
    delete verdict.dataset.right;
    ask(["ask", id, Number(problem.dataset.seed) + 1], say, (posed) => {
      const other = pose(posed);
      problem.dataset.seed = posed.seed;
      for (const part of [".practice-ask", ".practice-solution"]) problem.querySelector(part).replaceWith(other.querySelector(part));
      describe();
      answer.value = "";
      say("Fresh numbers.");
      answer.focus();
    });
  });
}

// A problem as the library writes it, the lines of its working set like those of a page.
export function pose({ html }) {
  const problem = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
  for (const line of problem.querySelectorAll(".practice-solution li")) line.replaceWith(formula("li", line.textContent));
  return problem;
}

// Ask the library; tell what it is waiting for, and what it refused.
export async function ask(request, say, show) {
  const slow = patience(say);
  const found = await call(...request).catch(({ message }) => ({ ok: false, message }));
  clearTimeout(slow);
  if (found.ok) return show(found);
  say(found.message);
}

// The message's "Step 2" becomes a link where that step has an address.
function linked(message, step) {
  const name = step.split("#")[1].replaceAll("-", " ");
  const at = message.toLowerCase().indexOf(name);
  const found = at < 0 ? undefined : address(step);
  if (!found) return [message];
  const end = at + name.length;
  const text = message.slice(at, end) + (found.chapter ? ` of “${found.chapter}”` : "");
  return [message.slice(0, at), make("a", { href: found.href, textContent: text }), message.slice(end)];
}

// "kv_cache#step-2" is the heading "Step 2 · …" of the chapter, or of this page if it is that chapter.
export function address(step) {
  if (Object.hasOwn(elsewhere, step)) return elsewhere[step];
  const anchor = step.split("#")[1];
  const heading = document.querySelector(`[id="${anchor}"], [id^="${anchor}-"]`);
  return heading && { href: `#${heading.id}` };
}
