// Gives the practice problems of a page an answer box. The checking is the library's own, as in a notebook.
import { formula, make } from "./elements.js";
import { call } from "./python.js";

for (const problem of document.querySelectorAll("[data-problem]:not([data-level=design])")) equip(problem);

function equip(problem) {
  const { problem: id, unit } = problem.dataset;
  const answer = make("input", {
    type: "text", id: `answer-${id.replace("/", "-")}`, autocomplete: "off", spellcheck: false,
    placeholder: unit === "B" || unit === "s" ? "a number and its unit" : unit === "x" ? "a number, or a percentage" : unit,
  });
  const fresh = make("button", { type: "button", className: "quiet", textContent: "Fresh numbers" });
  const verdict = make("output", {});
  verdict.setAttribute("aria-live", "polite");
  verdict.htmlFor = answer.id;
  const form = make("form", { className: "practice-form" },
    make("label", { htmlFor: answer.id, textContent: "Your answer" }), answer,
    make("button", { type: "submit", textContent: "Check" }), fresh, verdict);
  problem.querySelector(".practice-ask").after(form);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(["check", id, Number(problem.dataset.seed), answer.value], ({ right, message, step }) => {
      verdict.dataset.right = right;
      verdict.replaceChildren(...linked(message, step));
    });
  });

  fresh.addEventListener("click", () => {
    ask(["ask", id, Number(problem.dataset.seed) + 1], (posed) => {
      problem.dataset.seed = posed.seed;
      problem.querySelector(".practice-ask").textContent = posed.ask;
      const solution = problem.querySelector(".practice-solution");
      solution.open = false;
      solution.querySelector("ol").replaceChildren(...posed.solution.map((line) => formula("li", line)));
      answer.value = "";
      verdict.textContent = "Fresh numbers.";
      answer.focus();
    });
  });

  async function ask(request, show) {
    delete verdict.dataset.right;
    const slow = setTimeout(() => { verdict.textContent = "Starting Python in this page; a few seconds, once."; }, 300);
    try {
      const found = await call(...request);
      clearTimeout(slow);
      if (found.ok) show(found); else verdict.textContent = found.message;
    } catch (error) {
      clearTimeout(slow);
      verdict.textContent = error.message;
    }
  }
}

// The message's "Step 2" becomes a link where the page has that step: "kv_cache#step-2" is the heading "Step 2 · …".
function linked(message, step) {
  const [, anchor] = (step ?? "").split("#");
  const heading = anchor && document.querySelector(`[id="${anchor}"], [id^="${anchor}-"]`);
  const name = anchor?.replaceAll("-", " ");
  const at = heading ? message.toLowerCase().indexOf(name) : -1;
  if (at < 0) return [message];
  const end = at + name.length;
  return [message.slice(0, at), make("a", { href: `#${heading.id}`, textContent: message.slice(at, end) }), message.slice(end)];
}
