// What a panel or the worksheet can't compute: the fields that are to blame say so, and no number of other values stays.
import { make } from "./elements.js";

export function refuse(panel, answer) {
  panel.classList.toggle("refused", !answer.ok); // which hides the numbers: they are of other values
  for (const field of panel.querySelector("form").elements) {
    if (!field.name) continue;
    const id = `${field.id}-error`;
    document.getElementById(id)?.remove();
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
    if (!answer.inputs?.includes(field.name)) continue;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", id);
    field.closest(".field").append(make("p", { id, className: "field-error" }, answer.error));
    const folded = field.closest("details");
    if (folded) folded.open = true;
  }
}
