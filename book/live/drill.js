// The mixed interview: its choices, one problem at a time, a summary, and what this browser keeps of it.
import { make } from "./elements.js";
import { address, ask, elsewhere, equip, pose } from "./practice.js";
import { share } from "./share.js";

const KEPT = "drill"; // in this browser's storage
const MOST = 20; // interviews that are listed
const OUTCOMES = {
  right: "right the first time", retry: "right after a wrong answer", hint: "right after a hint", shown: "working shown",
  marked: "checklist read", skipped: "skipped", unreached: "not reached",
};

const drill = document.querySelector("[data-drill]");
const form = drill.querySelector("form");
const fields = form.elements;
const boxes = [...fields.parts];
const stage = drill.querySelector("[data-stage]");
const past = drill.querySelector("[data-past]");
const paper = document.querySelector("[data-paper]");
const printed = [...paper.children];
const start = form.querySelector("[type=submit]");
const status = form.querySelector("[role=status]");
const say = teller(status);
const lengths = [...fields.n.options].map((option) => option.value);
const parts = boxes.map((box) => box.value);

let run; // the interview under way: its choices, questions, records of what was done, and the number of the current one
let tick = () => {}; // of its clock
let busy = false;
let wanted = 0; // counts the interviews asked for: the last one is given, unless the choices came back meanwhile

// --- the choices, in the form and in a link ------------------------------------------------------------------------

// what a link may hold, and how it is asked for
const RULES = {
  seed: [(text) => /^\d+$/.test(text) && Number.isSafeInteger(Number(text)), "a whole number"],
  n: [(text) => lengths.includes(text), `one of ${lengths.join(", ")}`],
  parts: [(text) => text.split("-").every((part) => parts.includes(part)), `some of ${parts.join(", ")}, joined by “-”`],
  timer: [(text) => text === "on" || text === "off", "on or off"],
};

function linkOf({ seed, n, parts: some, timer }) {
  const link = new URLSearchParams({ seed, n });
  if (some.length < parts.length) link.set("parts", some.join("-"));
  if (!timer) link.set("timer", "off");
  return `#${link}`;
}

// The choices of a link; an error that says what is wrong with it and what is wanted.
function choicesOf(link) {
  const given = new URLSearchParams(link.slice(1));
  for (const [name, text] of given) {
    if (!Object.hasOwn(RULES, name)) throw new Error(`it names “${name.slice(0, 40)}”, wanted ${Object.keys(RULES).join(", ")}`);
    const [fits, wanted] = RULES[name];
    if (!fits(text)) throw new Error(`its ${name} is “${text.slice(0, 40)}”, wanted ${wanted}`);
  }
  if (!given.has("seed")) throw new Error("it has no seed, wanted a whole number");
  return {
    seed: Number(given.get("seed")), n: Number(given.get("n") ?? lengths[1]),
    parts: given.get("parts")?.split("-") ?? parts, timer: given.get("timer") !== "off",
  };
}

// The choices of the form; nothing if one is missing, which is said and has the focus.
function chosen() {
  const some = boxes.filter((box) => box.checked).map((box) => box.value);
  const { badInput, valueMissing } = fields.seed.validity;
  if (badInput || valueMissing) {
    say(`Seed is ${badInput ? "no number" : "empty"}: wanted a whole number.`);
    return fields.seed.focus();
  }
  if (!some.length) {
    say(`No part is chosen: choose at least one of ${parts.join(", ")}.`);
    return boxes[0].focus();
  }
  return { seed: fields.seed.valueAsNumber, n: Number(fields.n.value), parts: some, timer: fields.timer.checked };
}

function fill(choices) {
  fields.seed.value = choices.seed;
  fields.n.value = choices.n;
  for (const box of boxes) box.checked = choices.parts.includes(box.value);
  fields.timer.checked = choices.timer;
}

function teller(line) { return (text) => { line.textContent = text; }; }

function role(name, element) {
  element.setAttribute("role", name);
  return element;
}

function button(text, act, className = "") {
  const made = make("button", { type: "button", className }, text);
  made.addEventListener("click", act);
  return made;
}

const another = () => Math.floor(Math.random() * 1e6);

function setup(text = "Choose, and press Start.") {
  run = undefined;
  wanted += 1;
  tick = () => {};
  stage.replaceChildren();
  paper.replaceChildren(...printed);
  cover(false);
  list();
  const { running } = kept();
  fields.resume.disabled = !running;
  say(running ? `${text} An unfinished interview waits at problem ${running.at + 1}; a new one replaces it.` : text);
}

// An interview takes the place of the choices, and of the printed problems: it may ask the same ones.
function cover(covered) {
  const print = paper.closest("section");
  const listed = document.querySelector(`nav.contents a[href="#${print.id}"]`);
  for (const part of [form, past.closest("details"), print, listed.closest("li")]) part.hidden = covered;
  if (covered) paper.replaceChildren();
}

function open(link) {
  try {
    const choices = choicesOf(link);
    setup(`From the link: ${choices.n} problems, seed ${choices.seed}. Press Start.`);
    fill(choices);
  } catch (error) {
    setup(`This link can't be read: ${error.message}. Choose here instead, and press Start.`);
  }
}

// --- the interview -------------------------------------------------------------------------------------------------

// One thing at a time: pressing a button twice skips no problem.
async function once(work) {
  if (busy) return;
  busy = true;
  try { await work(); } finally { busy = false; }
}

function begin(choices, tell, begun = { at: 0, records: [] }) {
  wanted += 1;
  const mine = wanted;
  return ask(["interview", choices.seed, choices.n, choices.parts.join("-")], tell, ({ questions }) => {
    if (mine !== wanted) return;
    const same = begun.at < questions.length && begun.records.every(({ id }, i) => id === questions[i].id); // the book may have changed
    run = { choices, questions, records: same ? begun.records : [] };
    history.replaceState(null, "", linkOf(choices));
    return go(same ? begun.at : 0, tell);
  });
}

const go = (at, tell, mine = run) => ask(["ask", mine.questions[at].id, mine.questions[at].seed], tell, (posed) => {
  if (run !== mine) return; // a link was opened meanwhile
  run.at = at;
  run.records[at] ??= { id: posed.id, tries: 0, hint: false, mistakes: [], seconds: 0, outcome: "", note: "", ticks: [] };
  cover(true);
  put(pose(posed), run.records[at]);
  keepRun();
});

function put(problem, record) {
  const { questions, at, choices } = run;
  const last = at + 1 === questions.length;
  const place = make("h2", { id: "drill-place" }, `Problem ${at + 1} of ${questions.length}`);
  const clock = role("timer", make("span", { className: "drill-clock", ariaLabel: "Time on this problem" })); // read on request, not every second
  const told = role("status", make("p", { className: "panel-status" }));
  const next = button("", () => once(async () => {
    settle("skipped");
    if (last) finish(); else await go(at + 1, teller(told));
  }));
  const leave = button("Stop here", () => once(() => { settle("skipped"); finish(); }), "quiet");
  const [hint, checklist, working] = ["hint", "checklist", "solution"].map((name) => problem.querySelector(`.practice-${name}`));
  const title = problem.querySelector(".practice-title");

  let before = performance.now();
  tick = () => {
    const now = performance.now();
    if (!record.outcome) record.seconds += (now - before) / 1000;
    before = now;
    clock.textContent = minutes(record.seconds);
  };

  const label = () => {
    const shut = working.hidden;
    working.hidden = !(record.outcome || (record.hint && !checklist));
    if (shut && !working.hidden && record.outcome !== "skipped") told.textContent = "The worked solution can be opened now.";
    next.textContent = record.outcome ? (last ? "Summary" : "Next problem") : last ? "Skip to the summary" : "Skip this problem";
  };
  const settle = (outcome) => {
    tick();
    record.outcome ||= outcome;
    label();
    keepRun();
  };

  const opened = (part, act) => part?.addEventListener("toggle", () => { if (part.open) act(); });
  opened(hint, () => { record.hint ||= !record.outcome; label(); keepRun(); });
  opened(working, () => settle("shown"));
  opened(checklist, () => settle("marked"));

  if (checklist) mark(problem, checklist, record);
  equip(problem, { fresh: false, checked({ right, kind, mistake }) {
    if (record.outcome) return;
    if (kind !== "unreadable") record.tries += 1;
    if (mistake && !record.mistakes.includes(mistake)) record.mistakes.push(mistake);
    if (right) settle(record.hint ? "hint" : record.tries > 1 ? "retry" : "right"); else keepRun();
  } });

  label();
  tick();
  title.tabIndex = -1;
  title.setAttribute("aria-describedby", place.id);
  stage.replaceChildren(make("div", { className: "drill-place" }, place, ...(choices.timer ? [clock] : [])), problem,
    make("p", { className: "buttons" }, next, ...(last ? [] : [leave])), told);
  title.focus({ preventScroll: true });
  stage.scrollIntoView();
}

// A design question: an answer to write, and its checklist to tick.
function mark(problem, checklist, record) {
  const note = make("textarea", { id: "drill-note", rows: 8, value: record.note });
  const label = make("label", { htmlFor: note.id }, "Your answer, for yourself");
  problem.querySelector(".practice-ask").after(make("div", { className: "drill-note" }, label, note));
  note.addEventListener("input", () => { record.note = note.value; keepRun(); });
  const ticks = [...checklist.querySelectorAll("li")].map((line, i) => {
    const box = make("input", { type: "checkbox", checked: record.ticks[i] ?? false });
    line.replaceChildren(make("label", {}, box, make("span", {}, line.textContent)));
    return box;
  });
  const tally = make("output", {});
  const count = () => {
    record.ticks = ticks.map((box) => box.checked);
    tally.textContent = `You had ${points(record)}.`;
  };
  count();
  checklist.addEventListener("change", () => { count(); keepRun(); });
  checklist.querySelector("ul").before(make("p", {}, "Tick what your answer had."));
  checklist.append(tally);
}

// --- the summary ---------------------------------------------------------------------------------------------------

function finish() {
  const { choices, questions, records } = run;
  const done = questions.map((question, i) => ({ seconds: 0, mistakes: [], outcome: "unreached", ...question, ...records[i] }));
  const numbered = done.filter(({ level }) => level !== "design");
  const seconds = choices.timer ? done.reduce((sum, one) => sum + one.seconds, 0) : 0;
  const right = numbered.filter(({ outcome }) => outcome === "right").length;
  const mastered = ({ outcome, ticks }) => outcome === "right" || (outcome === "marked" && ticks.every(Boolean));
  const again = [...new Set(done.filter((one) => one.outcome !== "unreached" && !mastered(one)).map(({ step }) => step))];
  keep({ running: null, past: [{ link: linkOf(choices), ended: Date.now(), of: numbered.length, right, seconds, again }, ...kept().past].slice(0, MOST) });
  run = undefined;

  const counts = Object.keys(OUTCOMES).map((name) => [numbered.filter(({ outcome }) => outcome === name).length, OUTCOMES[name]]);
  const score = counts.filter(([count]) => count).map((pair) => pair.join(" ")).join(", ");
  const designs = done.filter(({ outcome }) => outcome === "marked").map((one) => ` In “${one.title}” you had ${points(one)}.`);
  const heads = ["Problem", "Outcome", "Classic mistake", ...(choices.timer ? ["Time"] : []), "Step"];
  const rows = done.map((one) => [
    one.title, one.outcome === "marked" ? points(one) : OUTCOMES[one.outcome], one.mistakes.join("; ") || "–",
    ...(choices.timer ? [minutes(one.seconds)] : []), stepLink(one.step, false),
  ]);

  const title = make("h2", { tabIndex: -1 }, "Summary");
  const told = role("status", make("p", { className: "panel-status" }));
  stage.replaceChildren(title,
    make("p", {}, `Of ${numbered.length} problems with a number: ${score}.${designs.join("")}${choices.timer ? ` Time: ${minutes(seconds)}.` : ""}`),
    make("h3", {}, "Read again"),
    again.length ? make("ul", {}, ...again.map((step) => make("li", {}, stepLink(step, true)))) : make("p", {}, "Nothing that was asked."),
    make("h3", {}, "Problem by problem"), make("div", { className: "scroll" }, table("Problem by problem", heads, rows)),
    make("p", { className: "buttons" },
      button("Another interview", () => begin({ ...choices, seed: another() }, teller(told))),
      button("Copy a link to this one", () => share(linkOf(choices), teller(told))),
      button("Back to the choices", () => { setup(); start.focus(); }, "quiet")), told);
  fill({ ...choices, seed: another() });
  title.focus({ preventScroll: true });
  stage.scrollIntoView();
}

function stepLink(step, whole) {
  const { href, chapter, heading } = address(step);
  return make("a", { href }, `${chapter}, ${whole ? heading.replace(" · ", "\u00a0· ") : heading.split(" · ")[0]}`);
}

// A wide table as textbook/body.py marks it: a phone shows it in blocks.
function table(name, heads, rows) {
  const row = (...cells) => role("row", make("tr", {}, ...cells));
  const labelled = (cell, i) => {
    cell.dataset.label = heads[i];
    return cell;
  };
  const head = (content) => labelled(role("rowheader", make("th", { scope: "row" }, content)), 0);
  const cell = (content, i) => labelled(role("cell", make("td", {}, content)), i + 1);
  return role("table", make("table", { className: "blocks", ariaLabel: name },
    role("rowgroup", make("thead", {}, row(...heads.map((head) => role("columnheader", make("th", {}, head)))))),
    role("rowgroup", make("tbody", {}, ...rows.map(([first, ...rest]) => row(head(first), ...rest.map(cell)))))));
}

function points({ ticks }) { return `${ticks.filter(Boolean).length} of ${ticks.length} points`; }

function minutes(seconds) {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

// --- what this browser keeps ---------------------------------------------------------------------------------------

let memory = "{}"; // where it keeps nothing, for as long as the page is open
let closed = false;

function kept() {
  try { memory = localStorage.getItem(KEPT) ?? "{}"; } catch { closed = true; }
  try {
    const { past: ended = [], running = null } = JSON.parse(memory);
    for (const one of running ? [running, ...ended] : ended) choicesOf(one.link);
    if (running && !(running.records.length > running.at && running.at >= 0 && running.records.every(isRecord))) throw new Error();
    if (!ended.every(({ again = [] }) => Array.isArray(again))) throw new Error();
    return { past: ended, running };
  } catch { return { past: [], running: null }; } // not as this page writes it
}

function isRecord(one) { return typeof one?.id === "string" && Array.isArray(one.mistakes) && Array.isArray(one.ticks); }

function keep(change) {
  memory = JSON.stringify({ ...kept(), ...change });
  try { localStorage.setItem(KEPT, memory); } catch { closed = true; }
}

function keepRun() {
  if (run) keep({ running: { link: linkOf(run.choices), at: run.at, records: run.records } });
}

function list() {
  const line = ({ link, ended, of, right, seconds, again = [] }) => {
    const day = new Date(ended).toLocaleDateString("en-US", { dateStyle: "medium" });
    const same = make("a", { href: link }, `seed ${choicesOf(link).seed}`);
    same.addEventListener("click", () => { open(link); start.focus(); }); // the address may be this page's already
    const steps = again.filter((step) => Object.hasOwn(elsewhere, step)).flatMap((step) => [", ", stepLink(step, false)]);
    return make("li", {}, `${day}, `, same, `: ${right} of ${of} right the first time${seconds ? `, in ${minutes(seconds)}` : ""}`,
      ...(steps.length ? [". Read again: ", ...steps.slice(1)] : []));
  };
  const { past: ended } = kept();
  past.querySelector("ul").replaceChildren(...ended.map(line));
  past.querySelector("p").textContent = closed ? "This browser keeps nothing for this page: the list lasts until you leave."
    : ended.length ? "Kept in this browser and nowhere else." : "None is kept.";
}

// --- at the start --------------------------------------------------------------------------------------------------

form.querySelector("fieldset").disabled = false;
fields.seed.value = another();
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const choices = chosen();
  if (choices) begin(choices, say);
});
fields.resume.addEventListener("click", () => { const { running } = kept(); if (running) begin(choicesOf(running.link), say, running); });
fields.copy.addEventListener("click", () => {
  const choices = chosen();
  if (!choices) return;
  const link = linkOf(choices);
  try { choicesOf(link); } catch (error) { return say(`There is no link to this interview: ${error.message}.`); }
  share(link, say);
});
past.querySelector("button").addEventListener("click", () => { keep({ past: [], running: null }); setup("Forgotten. Choose, and press Start."); });
setInterval(() => tick(), 1000);
addEventListener("pagehide", () => { if (run) { tick(); keepRun(); } });
addEventListener("hashchange", openAddress);
setup();
openAddress();

function openAddress() {
  const name = location.hash.slice(1);
  if (name && !document.getElementById(name)) open(location.hash);
}
