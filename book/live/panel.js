// Brings the panels of a page to life. The numbers come from the same Python function that wrote the page.
import { formula, make, marked, numberOf } from "./elements.js";
import { latest, STILL, unhurried } from "./python.js";
import { refuse } from "./refusal.js";

for (const panel of document.querySelectorAll("[data-panel]")) bring(panel);

function bring(panel) {
  const form = panel.querySelector("form");
  const list = panel.querySelector("dl");
  const status = panel.querySelector(".panel-status");
  const spoken = panel.querySelector("output");
  const find = (name) => form.elements[name];
  const work = latest(unhurried(form, show), say);
  const update = () => work("render", panel.dataset.panel, read(), panel.dataset.labels);
  let pause, news = false; // what the reader has changed is read out, once the hand is still

  form.querySelector("fieldset").disabled = false;
  say("Change a value and the numbers follow.");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("focusin", update, { once: true });
  form.addEventListener("pointerdown", update, { once: true });
  form.addEventListener("reset", () => setTimeout(() => {
    for (const slider of form.querySelectorAll("[data-for]")) toSlider(find(slider.dataset.for));
    change();
  }));
  form.addEventListener("input", ({ target }) => {
    if (target.dataset.for) fromSlider(target);
    else if (target.type === "number") toSlider(target);
    change();
  });

  function change() {
    clearTimeout(pause);
    news = true;
    panel.classList.add("waiting"); // the numbers are of other values
    update();
  }

  function read() {
    const values = {};
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type === "checkbox") values[field.name] = field.checked;
      else if (field.type === "number" || "number" in field.dataset) values[field.name] = numberOf(field);
      else values[field.name] = field.value;
    }
    return JSON.stringify(values);
  }

  function show(answer) {
    clearTimeout(pause);
    panel.classList.remove("waiting");
    refuse(panel, answer);
    for (const slider of form.querySelectorAll("[data-for]")) speak(slider);
    if (!answer.ok) { spoken.textContent = ""; return say(answer.error); }
    list.replaceChildren(...answer.rows.map(row));
    panel.querySelector(".panel-working").replaceChildren(...answer.working.map((line) => formula("p", line)));
    panel.querySelector(".panel-meaning").textContent = answer.meaning;
    panel.querySelector(".panel-leaves-out span:last-child").textContent = answer.leaves_out;
    say("Computed in this page for the values shown.");
    if (news) pause = setTimeout(() => {
      spoken.textContent = answer.rows.map(({ label, text }) => `${label}: ${text}`).join("; ");
      news = false;
    }, STILL);
  }

  function say(text) { if (status.textContent !== text) status.textContent = text; }

  function row({ label, text, kind, keep }) {
    return make("div", { className: keep ? "keep" : "" }, make("dt", {}, label), make("dd", {}, marked(kind, text)));
  }

  function fromSlider(slider) {
    const { least, most } = slider.dataset;
    find(slider.dataset.for).value = least === undefined ? slider.value : Math.min(Number(most), Number(least) * 2 ** Number(slider.value));
    speak(slider);
  }

  function speak(slider) { // the number in its field, which may be none that a slider has
    const field = find(slider.dataset.for);
    const value = field.value === "" ? "no number" : `${Number(field.value).toLocaleString("en-US")} ${slider.dataset.unit}`.trim();
    slider.setAttribute("aria-valuetext", field.hasAttribute("aria-invalid") ? `${value}, refused` : value);
  }

  function toSlider(field) {
    const slider = form.querySelector(`[data-for="${field.name}"]`);
    const { least } = slider.dataset;
    const place = least === undefined ? field.valueAsNumber : Math.round(Math.log2(field.valueAsNumber / Number(least)));
    if (Number.isFinite(place)) slider.value = place;
    speak(slider);
  }
}
