// Brings the sizing worksheet to life. The numbers come from the same Python functions that wrote the page.
import { formula, make, marked } from "./elements.js";
import { call, latest } from "./python.js";

const SHOWN = 200_000; // characters that a text area lays out without a halt; more is kept aside
const LINKED = 8_000; // characters of a file that an address carries
const LARGEST = 5_000_000; // what the library reads of a file, in bytes
const SLOW = "Starting Python in this page; a few seconds, once.";
const aside = new Map(); // text area → the text that it does not show

const sheet = document.querySelector("[data-worksheet]");
const form = sheet.querySelector("form");
const fields = [...form.elements].filter((field) => field.name);
const report = sheet.querySelector(".report");
const say = speaker(sheet);
const rest = new Map(fields.map((field) => [field.name, valueOf(field)]));
let pause, typing;

// --- the form ------------------------------------------------------------------------------------------------

const work = latest(show, () => say(SLOW));
const update = () => work("worksheet", JSON.stringify(values()));

form.querySelector("fieldset").disabled = false;
say("Change a value and the numbers follow.");
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("focusin", update, { once: true });
form.addEventListener("reset", (event) => { event.preventDefault(); fill(rest); update(); });
form.addEventListener("input", ({ target }) => {
  clearTimeout(typing);
  if (target.type === "file") return read(target.files[0], target.dataset.for);
  if (target.localName !== "textarea") return update();
  put(target, target.value);
  typing = setTimeout(update, 300);
});
form.addEventListener("dragover", (event) => event.preventDefault());
form.addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) return read(file, file.name.includes("hf_quant_config") ? "quantization_file" : "own");
  put(form.elements.own, event.dataTransfer.getData("text"));
  update();
});

function valueOf(field) {
  if (field.type === "checkbox") return field.checked;
  if (field.localName === "textarea") return aside.get(field) ?? field.value;
  if (field.type !== "number") return field.value;
  return field.validity.badInput ? "no number" : field.value === "" ? null : Number(field.value);
}

function values() {
  return Object.fromEntries(fields.map((field) => [field.name, valueOf(field)]));
}

function fill(wanted) {
  for (const field of fields) {
    const value = wanted.get(field.name) ?? rest.get(field.name);
    if (field.type === "checkbox") field.checked = `${value}` === "true";
    else if (field.localName === "textarea") put(field, value); else field.value = value ?? "";
  }
}

function put(area, text) {
  const long = text.length > SHOWN;
  if (long) aside.set(area, text); else aside.delete(area);
  area.dataset.said ??= area.placeholder;
  area.placeholder = long ? `${(text.length / 1e6).toFixed(1)} million characters, read but too long to show here` : area.dataset.said;
  area.value = long ? "" : text;
  if (area.name === "own" && text) form.elements.config.value = "own";
}

async function read(file, name) {
  if (!file) return;
  if (file.size > LARGEST) return show({ ok: false, error: `${file.name} is larger than 5 MB: a config.json has a few kB.`, inputs: [name] });
  put(form.elements[name], await file.text());
  update();
}

for (const area of document.querySelectorAll("textarea")) area.addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text");
  if (text.length <= SHOWN) return;
  event.preventDefault();
  put(area, text);
  area.dispatchEvent(new Event("change", { bubbles: true }));
});
form.addEventListener("change", ({ target }) => { if (aside.has(target)) update(); });

// --- what is shown -------------------------------------------------------------------------------------------

function show(answer) {
  clearTimeout(pause); // what follows once the hand is still
  refuse(sheet, answer);
  for (const button of form.querySelectorAll("[data-copy], [data-export]")) button.disabled = !answer.ok;
  if (!answer.ok) return say(answer.error);
  const open = new Set([...report.querySelectorAll("details[open]")].map((details) => details.dataset.key));
  const warned = answer.warnings.map(({ text, link, where }) => make("li", {}, `${text} `, make("a", { href: link }, where)));
  const known = make("section", {}, make("h3", {}, "Know that"), make("ul", {}, ...warned));
  report.replaceChildren(make("h2", {}, answer.title), known, ...answer.sections.map((section) => part(section, open)));
  say("Computed in this page for the values shown.");
  pause = setTimeout(() => {
    const kept = answer.sections.flatMap(({ lines }) => lines.filter(({ keep }) => keep));
    sheet.querySelector("output").textContent = kept.map(({ label, text }) => `${label}: ${text}`).join("; ");
    history.replaceState(null, "", link().address);
  }, 700);
}

function part({ title, lines, leaves_out: left }, open) {
  const note = left ? [make("p", { className: "panel-leaves-out" }, make("span", { className: "small-label" }, "Left out"), " ", make("span", {}, left))] : [];
  return make("section", {}, make("h3", {}, title), make("dl", {}, ...lines.map((line) => row(line, open))), ...note);
}

function row({ key, label, text, kind, keep, working, note, source, url, link }, open) {
  const element = make("div", { className: keep ? "keep" : "" }, make("dt", {}, make("a", { href: link }, label)), make("dd", {}, marked(kind, text)));
  if (!working && !note && !source) return element;
  const inside = make("div", { className: "panel-working" });
  if (working) inside.append(formula("p", working));
  if (note) inside.append(make("p", { className: "note" }, note));
  if (source) inside.append(make("p", { className: "note" }, make("a", { href: url }, source)));
  const details = make("details", { open: open.has(key) }, make("summary", {}, "Show the working", make("span", { className: "unseen" }, `: ${label}`)), inside);
  details.dataset.key = key;
  element.append(make("dd", { className: "fold" }, details));
  return element;
}

function refuse(panel, answer) {
  panel.classList.toggle("refused", !answer.ok); // which hides the numbers: they are of other values
  for (const field of panel.querySelector("form").elements) {
    if (!answer.inputs?.includes(field.name)) { field.removeAttribute("aria-invalid"); continue; }
    field.setAttribute("aria-invalid", "true");
    const folded = field.closest("details");
    if (folded) folded.open = true;
  }
}

function speaker(panel) {
  const status = panel.querySelector(".panel-status");
  return (text) => { if (status.textContent !== text) status.textContent = text; };
}

// --- to keep and to share ------------------------------------------------------------------------------------

function link() {
  const changed = new URLSearchParams(), missing = [];
  for (const [name, value] of Object.entries(values())) {
    if (value === rest.get(name) || (name === "own" && form.elements.config.value !== "own")) continue;
    if (value?.length > LINKED) missing.push(name); else changed.set(name, value ?? "");
  }
  return { address: `${location.pathname}${location.search}${changed.size ? `#${changed}` : ""}`, missing };
}

form.querySelector("[data-copy]").addEventListener("click", async () => {
  const { address, missing } = link();
  history.replaceState(null, "", address);
  const left = missing.length ? " It leaves out the file, which is too long for an address: send that too." : "";
  try {
    await navigator.clipboard.writeText(location.href);
    say(`The link is copied.${left}`);
  } catch { say(`This page may not copy: the link stands in the address bar.${left}`); }
});

for (const button of form.querySelectorAll("[data-export]")) button.addEventListener("click", async () => {
  const kind = button.dataset.export;
  try {
    const answer = await call("worksheet_file", JSON.stringify(values()), kind);
    if (!answer.ok) return show(answer);
    const href = URL.createObjectURL(new Blob([answer.text], { type: "text/plain" }));
    make("a", { href, download: `worksheet.${kind === "markdown" ? "md" : kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
  } catch (error) { say(error.message); }
});

function restore() {
  const text = location.hash.slice(1);
  if (!text || document.getElementById(text)) return;
  const wanted = new URLSearchParams(text);
  for (const [name, value] of wanted) {
    const field = fields.find((one) => one.name === name);
    if (!field) return refused(`it names “${name.slice(0, 40)}”, which the form does not have`);
    if (!fits(field, value)) return refused(`“${value.slice(0, 40)}” does not fit “${field.labels[0].textContent}”`);
  }
  fill(wanted);
  for (const details of form.querySelectorAll("details")) details.open = [...wanted.keys()].some((name) => details.contains(form.elements[name]));
  update();
}

function fits(field, value) {
  if (field.type === "checkbox") return value === "true" || value === "false";
  if (field.localName === "select") return [...field.options].some((option) => option.value === value);
  return field.type !== "number" || value === "" || Number.isFinite(Number(value));
}

function refused(why) { say(`This link can't be read: ${why}. The form is as it was.`); }

addEventListener("hashchange", restore);

// --- a start-up log ------------------------------------------------------------------------------------------

const log = document.querySelector("[data-log]");
const logForm = log.querySelector("form");
const tell = speaker(log);
const explain = latest(showLog, () => tell(SLOW));
let later;

logForm.querySelector("fieldset").disabled = false;
logForm.addEventListener("submit", (event) => event.preventDefault());
for (const kind of ["input", "change"]) logForm.addEventListener(kind, ({ target }) => {
  if (target === logForm.elements.log && kind === "input") put(target, target.value);
  clearTimeout(later);
  later = setTimeout(() => explain("log", JSON.stringify({
    log: valueOf(logForm.elements.log), form: logForm.elements.compare.checked ? values() : null,
  })), 300);
});

function showLog(answer) {
  refuse(log, answer);
  if (!answer.ok) return tell(answer.error);
  const item = (label, value, ...more) => make("div", {}, make("dt", {}, label), make("dd", {}, value), make("dd", { className: "fold" }, ...more));
  const lines = answer.lines.map(({ label, text, meaning, line, worker, link: href }) =>
    item(make("a", { href }, label), text, `Line ${line}${worker ? `, ${worker}` : ""}. ${meaning}`));
  const checks = answer.checks.map(({ name, printed, computed, verdict, note }) =>
    item(name, verdict, `${printed ? `${printed} printed` : "Not printed"}, ${computed ? `${computed} computed` : "not computed"}. ${note}.`));
  log.querySelector(".report").replaceChildren(make("h3", {}, "What the log says"), make("dl", {}, ...lines),
    ...(checks.length ? [make("h3", {}, "Held against the arithmetic"), make("dl", {}, ...checks)] : []));
  tell("Explained in this page.");
}

restore();
