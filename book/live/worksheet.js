// Brings the sizing worksheet to life. The numbers come from the same Python functions that wrote the page.
import { formula, make, marked, numberOf } from "./elements.js";
import { call, latest, STILL, unhurried, wake } from "./python.js";
import { refuse } from "./refusal.js";
import { share } from "./share.js";

const SHOWN = 200_000; // characters that a text area lays out without a halt; more is kept aside
const PACKED = 500; // characters from which an address carries a file packed
const LINKED = 8_000; // characters of a file that it carries at all, packed
const LARGEST = 5_000_000; // what the library reads of a file, in bytes
const aside = new Map(); // text area → the text that it does not show

const sheet = document.querySelector("[data-worksheet]");
const form = sheet.querySelector("form");
const fields = [...form.elements].filter((field) => field.name);
const report = sheet.querySelector(".report");
const say = speaker(sheet);
const rest = new Map(fields.map((field) => [field.name, valueOf(field)]));
let pause, typing, news = false; // what the reader has changed is read out, once the hand is still

// --- the form ------------------------------------------------------------------------------------------------

const work = latest(unhurried(form, show), say);
function update() {
  work("worksheet", JSON.stringify(values()));
  if (logForm.elements.compare.checked && valueOf(logForm.elements.log)) explainSoon();
}

function change() {
  wait();
  update();
}

function wait() { // the numbers shown are of other values
  clearTimeout(pause);
  news = true;
  sheet.classList.add("waiting");
}

form.querySelector("fieldset").disabled = false;
say("Change a value and the numbers follow.");
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("pointerover", wake, { once: true }); // a hand on its way to a field: Python takes seconds to start
form.addEventListener("focusin", update, { once: true });
form.addEventListener("reset", (event) => { event.preventDefault(); fill(rest); change(); });
form.addEventListener("input", ({ target }) => {
  clearTimeout(typing);
  if (target.type === "file") {
    read([...target.files], target.dataset.for);
    target.value = ""; // so that the same file, edited, can be chosen again
    return;
  }
  if (target === form.elements.config) put(form.elements.quantization_file, ""); // it was another model's
  if (target.localName !== "textarea") return change();
  put(target, target.value);
  wait();
  typing = setTimeout(update, 300);
});
const filesIn = ({ dataTransfer }) => dataTransfer.types.includes("Files"); // text falls where it is dropped
form.addEventListener("dragover", (event) => { if (filesIn(event)) event.preventDefault(); });
form.addEventListener("drop", (event) => {
  if (!filesIn(event)) return;
  event.preventDefault();
  read([...event.dataTransfer.files], event.target.closest(".pasted")?.querySelector("textarea").name ?? "own");
});

function valueOf(field) {
  if (field.type === "checkbox") return field.checked;
  if (field.localName === "textarea") return aside.get(field) ?? field.value;
  if (field.type !== "number") return field.value;
  return numberOf(field);
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

async function read(files, name) {
  for (const file of files) {
    if (file.size > LARGEST) return show({ ok: false, error: `${file.name} is larger than 5 MB: a config.json has a few kB.`, inputs: [name] });
  }
  const read = await Promise.all(files.map(async (file) => ({ text: await file.text(), place: file.name.includes("hf_quant_config") ? "quantization_file" : name })));
  for (const one of read) if (quantizes(one.text)) one.place = "quantization_file";
  if (read.some(({ place }) => place === "own")) put(form.elements.quantization_file, ""); // it was another model's
  for (const { text, place } of read) put(form.elements[place], text);
  change();
}

function quantizes(text) { // whether this is a hf_quant_config.json, whatever its name
  try {
    const found = JSON.parse(text);
    return Object.hasOwn(found, "quantization") && !Object.hasOwn(found, "model_type");
  } catch { return false; }
}

for (const area of document.querySelectorAll("textarea")) area.addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text");
  if (text.length <= SHOWN) return;
  event.preventDefault();
  put(area, text);
  area.dispatchEvent(new Event("change", { bubbles: true }));
});
form.addEventListener("change", ({ target }) => { if (aside.has(target)) change(); });

// --- what is shown -------------------------------------------------------------------------------------------

let texts = new Map(); // line → all it shows
let warned = ""; // what is to be known, as it is shown

function show(answer) {
  clearTimeout(pause); // what follows once the hand is still
  sheet.classList.remove("waiting", "unread");
  refuse(sheet, answer);
  for (const button of form.querySelectorAll("[data-copy], [data-export]")) button.disabled = !answer.ok;
  if (!answer.ok) { sheet.querySelector("output").textContent = ""; return say(answer.error); }
  const focused = place(document.activeElement);
  const lines = answer.sections.flatMap((section) => section.lines);
  const fresh = new Map(lines.map((line) => [line.key, JSON.stringify(line)]));
  const told = JSON.stringify(answer.warnings);
  if ([...fresh.keys()].join() === [...texts.keys()].join()) revise(answer, lines.filter(({ key }) => fresh.get(key) !== texts.get(key)), told !== warned);
  else renew(answer);
  texts = fresh;
  warned = told;
  focused?.();
  sheet.querySelector(".glance").replaceChildren(...answer.glance.map(({ label, text }) => make("span", {}, `${label} `, make("b", {}, text))));
  say("Computed in this page for the values shown.");
  pause = setTimeout(() => {
    if (news) sheet.querySelector("output").textContent = answer.glance.map(({ label, text }) => `${label}: ${text}`).join("; ");
    news = false;
    link({}).then(({ address }) => history.replaceState(null, "", address));
  }, STILL);
}

function renew(answer) {
  const open = new Set([...report.querySelectorAll("details[open]")].map((details) => details.closest("[data-line]").dataset.line));
  report.replaceChildren(make("h2", {}, answer.title), known(answer), ...answer.sections.map((section) => part(section, (key) => open.has(key))));
}

const lineOf = (key) => report.querySelector(`[data-line="${CSS.escape(key)}"]`);

function revise(answer, lines, newly) { // the lines that differ, so that reading and focus stay where they are
  report.querySelector("h2").textContent = answer.title;
  if (newly) report.querySelector("section").replaceWith(known(answer));
  for (const line of lines) {
    const before = lineOf(line.key);
    before.replaceWith(row(line, () => before.querySelector("details")?.open ?? false));
  }
  for (const [i, section] of answer.sections.entries()) {
    const left = report.querySelectorAll("section")[i + 1].querySelector(".panel-leaves-out span:last-child");
    if (left) left.textContent = section.leaves_out;
  }
}

function place(element) { // where in the report the focus is, to bring it back if its line, or what is to be known, is made anew
  const holder = report.contains(element) && element.closest("[data-line], section");
  if (!holder) return;
  const key = holder.dataset.line, which = [...holder.querySelectorAll("a, summary")].indexOf(element);
  return () => {
    if (document.activeElement === element) return;
    const again = key ? lineOf(key) : report.querySelector("section");
    again?.querySelectorAll("a, summary")[which]?.focus({ preventScroll: true });
  };
}

function known({ warnings }) {
  return make("section", {}, make("h3", {}, "Know that"), make("ul", {}, ...warnings.map(({ text, link, where }) => make("li", {}, `${text} `, make("a", { href: link }, where)))));
}

function part({ title, lines, leaves_out: left }, open) {
  const note = left ? [make("p", { className: "panel-leaves-out" }, make("span", { className: "small-label" }, "Left out"), " ", make("span", {}, left))] : [];
  return make("section", {}, make("h3", {}, title), make("dl", {}, ...lines.map((line) => row(line, open))), ...note);
}

function row({ key, label, text, kind, keep, working, note, source, url, link, where }, open) {
  const element = make("div", {}, make("dt", {}, make("a", { href: link, title: where }, label)), make("dd", {}, marked(kind, text)));
  if (keep) element.className = "keep";
  element.dataset.line = key;
  if (!working && !note && !source) return element;
  const inside = make("div", { className: "panel-working" });
  if (working) inside.append(formula("p", working));
  if (note) inside.append(make("p", { className: "note" }, note));
  if (source) inside.append(make("p", { className: "note" }, make("a", { href: url }, source)));
  const details = make("details", { open: open(key) }, make("summary", {}, "Show the working", make("span", { className: "unseen" }, `: ${label}`)), inside);
  element.append(make("dd", { className: "fold" }, details));
  return element;
}

function speaker(panel) {
  const status = panel.querySelector(".panel-status");
  return (text) => { if (status.textContent !== text) status.textContent = text; };
}

// --- to keep and to share ------------------------------------------------------------------------------------

// The address bar holds what differs from the defaults; a link to give away holds everything.
async function link({ whole = false }) {
  const held = new URLSearchParams(), missing = [];
  for (const [name, value] of Object.entries(values())) {
    if ((value === rest.get(name) && !(whole && value !== "")) || (name === "own" && form.elements.config.value !== "own")) continue;
    const packed = value?.length > PACKED ? await pack(value) : undefined;
    if ((packed ?? "").length > LINKED) missing.push(name); else held.set(packed ? `${name}.z` : name, packed ?? value ?? "");
  }
  return { address: `${location.pathname}${location.search}${held.size ? `#${held}` : ""}`, missing };
}

const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

async function pack(text) {
  let short = text;
  try { short = JSON.stringify(JSON.parse(text)); } catch { /* it is kept as it was written */ }
  const bytes = await through(new TextEncoder().encode(short), new CompressionStream("deflate-raw"));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

form.querySelector("[data-copy]").addEventListener("click", async () => {
  clearTimeout(pause); // the address bar keeps the link that is given away
  say(""); // so that a second link is announced too
  const { address, missing } = await link({ whole: true });
  await share(address, say, missing.length ? " It leaves out the file, which is too long for an address: send that too." : "");
});

for (const button of form.querySelectorAll("[data-export]")) button.addEventListener("click", async () => {
  const kind = button.dataset.export;
  try {
    const answer = await call("worksheet_file", JSON.stringify(values()), kind);
    if (!answer.ok) return show(answer);
    const href = URL.createObjectURL(new Blob([answer.text], { type: "text/plain" }));
    const download = `worksheet.${kind === "markdown" ? "md" : kind}`;
    make("a", { href, download }).click();
    say(`${download} is downloaded.`);
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
  } catch (error) { say(error.message); }
});

async function restore() {
  const text = location.hash.slice(1);
  if (!text || document.getElementById(text)) return;
  const wanted = new Map();
  for (const [key, value] of new URLSearchParams(text)) {
    const name = key.endsWith(".z") ? key.slice(0, -2) : key;
    const field = fields.find((one) => one.name === name);
    if (!field || (name !== key && field.localName !== "textarea")) return refused(`it names “${key.slice(0, 40)}”, which the form does not have`);
    if (name === key && !fits(field, value)) return refused(`“${value.slice(0, 40)}” does not fit “${field.labels[0].textContent}”`);
    try { wanted.set(name, name === key ? value : await unpack(value.slice(0, LINKED))); } catch { return refused(`what it holds for “${field.labels[0].textContent}” is damaged`); }
  }
  fill(wanted);
  sheet.classList.add("unread");
  for (const details of form.querySelectorAll("details")) details.open = [...wanted.keys()].some((name) => details.contains(form.elements[name]) && `${wanted.get(name)}` !== `${rest.get(name) ?? ""}`);
  change();
}

function fits(field, value) {
  if (field.type === "checkbox") return value === "true" || value === "false";
  if (field.localName === "select") return [...field.options].some((option) => option.value === value);
  return field.type !== "number" || /^(-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)?$/i.test(value);
}

function refused(why) { say(`This link can't be read: ${why}. The form is as it was.`); }

addEventListener("hashchange", restore);

// --- a start-up log ------------------------------------------------------------------------------------------

const log = document.querySelector("[data-log]");
const logForm = log.querySelector("form");
const tell = speaker(log);
const explain = latest(unhurried(logForm, showLog), tell);
let later;

logForm.querySelector("fieldset").disabled = false;
logForm.addEventListener("submit", (event) => event.preventDefault());
for (const kind of ["input", "change"]) logForm.addEventListener(kind, ({ target }) => {
  if (target === logForm.elements.log && kind === "input") put(target, target.value);
  explainSoon();
});

function explainSoon() {
  clearTimeout(later);
  later = setTimeout(() => explain("log", JSON.stringify({
    log: valueOf(logForm.elements.log), form: logForm.elements.compare.checked ? values() : null,
  })), 300);
}

function showLog(answer) {
  refuse(log, answer);
  if (!answer.ok) return tell(answer.error);
  const item = (label, value, ...more) => make("div", {}, make("dt", {}, label), make("dd", {}, value), make("dd", { className: "fold" }, ...more));
  const lines = answer.lines.map(({ label, text, meaning, line, worker, link: href, where: title }) =>
    item(make("a", { href, title }, label), text, `Line ${line}${worker ? `, ${worker}` : ""}. ${meaning}`));
  const checks = answer.checks.map(({ name, printed, computed, verdict, note }) =>
    item(name, verdict, `${printed ? `${printed} printed` : "Not printed"}, ${computed ? `${computed} computed` : "not computed"}. ${note}.`));
  log.querySelector(".report").replaceChildren(make("h3", {}, "What the log says"), make("dl", {}, ...lines),
    ...(checks.length ? [make("h3", {}, "Held against the arithmetic"), make("dl", {}, ...checks)] : []));
  tell("Explained in this page.");
}

restore();
