// What every page does with JavaScript: switch light and dark, let the keyboard scroll what is wider than the page, and
// keep the book for reading offline.
const root = document.documentElement;
const button = document.getElementById("mode");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.mode ? root.dataset.mode === "dark" : system.matches);
const tell = () => button.setAttribute("aria-pressed", isDark());

button.hidden = false;
tell();
system.addEventListener("change", tell);
for (const event of ["storage", "pageshow"]) addEventListener(event, tell); // after first.js has read the choice again
button.addEventListener("click", () => {
  root.dataset.mode = isDark() ? "light" : "dark";
  tell();
  try { localStorage.setItem("mode", root.dataset.mode); } catch { /* not kept */ }
});

// Once the reader moves, what was not laid out yet is, part by part in the browser's idle moments: then every height is
// right, and who comes back finds the place again.
addEventListener("scroll", () => {
  const idle = window.requestIdleCallback ?? ((next) => setTimeout(next, 50));
  const sections = document.querySelectorAll("section section").values();
  idle(function layOut() {
    const { value: section, done } = sections.next();
    if (done) { root.dataset.whole = ""; return; } // as first.js sets it where there is no time for that
    section.style.contentVisibility = "visible";
    idle(layOut);
  });
}, { once: true });

// On a phone the contents lie over the page: they go when they have led somewhere, and when the focus goes on.
const contents = document.getElementById("contents");
contents.addEventListener("click", ({ target }) => { if (target.closest("a")) contents.hidePopover(); });
contents.addEventListener("focusout", ({ relatedTarget: next }) => {
  if (next && !contents.contains(next)) contents.hidePopover();
});

const boxes = new Set(document.querySelectorAll(".scroll, div.math, .highlight pre")); // that were never measured
const counted = {};
const names = new Map([...boxes].map((box) => [box, nameOf(box)]));

// What a box holds and where it stands, as textbook/body.py names tables and closed cells.
function nameOf(box) {
  const table = box.querySelector("table");
  if (table) return table.ariaLabel ?? titleOf(table.caption);
  const kind = box.matches(".math") ? "Formula" : box.closest(".cell_output") ? "Output" : "Code";
  const place = box.closest(".formula, dl.py, section")?.querySelector("strong, .descname, h1, h2, h3, h4");
  const name = [kind, ...(place ? [titleOf(place)] : [])].join(": ");
  counted[name] = (counted[name] ?? 0) + 1;
  return counted[name] > 1 ? `${name} (${counted[name]})` : name;
}

// The words of a heading, or the first sentence of a caption.
function titleOf(heading) {
  const words = [...heading.childNodes].filter(({ className }) => className !== "headerlink").map(({ textContent }) => textContent);
  return words.join("").trim().split(/\.(?:\s|$)/)[0];
}

const measure = (targets) => {
  // all are measured before one is changed, or the page would be laid out anew for each
  const measured = targets.map((target) => [target, target.scrollWidth > target.clientWidth + 1]);
  for (const [target, wide] of measured) {
    boxes.delete(target);
    target.classList.toggle("scrolls", wide);
    if (!wide) { target.removeAttribute("tabindex"); target.removeAttribute("role"); target.removeAttribute("aria-label"); continue; }
    target.tabIndex = 0;
    target.setAttribute("role", "group");
    target.setAttribute("aria-label", `${names.get(target)}, scrolls sideways`);
  }
};
const sizes = new ResizeObserver((entries) => measure(entries.map(({ target }) => target)));
for (const box of boxes) sizes.observe(box);
// those far from the window have no size yet, and the next Tab may lead to one
addEventListener("keydown", ({ key }) => { if (key === "Tab") measure([...boxes]); });

// The copy buttons of code are all named alike, lose the focus and say their outcome to the eye only.
if (document.querySelector(".highlight")) {
  for (const copy of document.querySelectorAll(".copybtn")) {
    const name = names.get(copy.previousElementSibling);
    copy.setAttribute("aria-label", `Copy ${name[0].toLowerCase()}${name.slice(1)}`);
  }
  const said = Object.assign(document.createElement("p"), { className: "unseen", role: "status" });
  document.querySelector("main").append(said);
  document.addEventListener("click", (event) => { // the icon that was clicked is gone by now
    const copied = event.composedPath().find((element) => element.matches?.(".copybtn"));
    if (!copied) return;
    copied.focus({ preventScroll: true });
    said.textContent = copied.dataset.tooltip;
    setTimeout(() => { said.textContent = ""; }, 2000); // so that the next one is said too
  });
}

// The report of a number: what the reader selected in the text last, and the step it stands in.
const reporting = document.getElementById("report");
if (reporting) {
  const text = reporting.querySelector("textarea");
  const copy = reporting.querySelector("button");
  const issue = reporting.querySelector("[data-issue]");
  const article = document.querySelector("article");
  let selected = "", step;
  const put = (label, value) => { text.value = text.value.replace(new RegExp(`^${label}: .*$`, "m"), () => `${label}: ${value}`); };

  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    if (selection.isCollapsed || !article.contains(selection.anchorNode)) return;
    const part = selection.getRangeAt(0).cloneContents();
    for (const heard of part.querySelectorAll(".katex-mathml, .unseen")) heard.remove();
    selected = part.textContent.trim().replace(/\s+/g, " ");
    step = selection.anchorNode.parentElement.closest("section[id]");
  });
  reporting.addEventListener("toggle", () => {
    if (!reporting.open) return;
    const heading = (step ?? document.querySelector(":target"))?.closest("section[id]")?.querySelector(":is(h1, h2, h3, h4)");
    if (heading) put("Step", `${titleOf(heading)} (#${heading.closest("section").id})`);
    if (selected) put("Number shown", selected.slice(0, 200));
  });
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const copied = await navigator.clipboard?.writeText(text.value).then(() => true, () => false);
    if (!copied) text.select();
    reporting.querySelector("output").textContent = copied ? "Copied." : "Selected: copy it with the keyboard.";
  });
  issue?.addEventListener("click", () => {
    const address = new URL(issue.href);
    address.searchParams.set("body", text.value);
    issue.href = address.href;
  });
}

// The whole book is fetched ahead (sw.js) once the reader has stayed a while, unless the device asks to save data.
const STAYED = 10_000; // ms
const { serviceWorker } = navigator; // absent where the address is not a safe one
if (serviceWorker && location.protocol !== "file:" && !navigator.connection?.saveData) {
  setTimeout(keepBook, serviceWorker.controller ? 0 : STAYED);
  serviceWorker.addEventListener("message", ({ data }) => { if (data === "reload") location.reload(); });
}

async function keepBook() {
  const worker = new URL(`${root.dataset.content_root}sw.js`, document.baseURI);
  const registration = await serviceWorker.register(worker).catch(() => undefined); // then the book is read online only
  if (!registration) return;
  const offer = () => {
    const edition = document.getElementById("edition");
    edition.hidden = !registration.waiting || !serviceWorker.controller;
    edition.onclick = () => registration.waiting.postMessage(true);
  };
  offer();
  registration.addEventListener("updatefound", () => registration.installing.addEventListener("statechange", offer));
}

// A browser's own download passes the kept edition by, so a kept page hands out its own notebook.
for (const link of document.querySelectorAll("a[download]")) link.addEventListener("click", async (event) => {
  if (!serviceWorker?.controller) return;
  event.preventDefault();
  const href = URL.createObjectURL(await (await fetch(link.href)).blob());
  Object.assign(document.createElement("a"), { href, download: link.href.split("/").pop() }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
});
