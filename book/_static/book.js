// What every page does with JavaScript: switch light and dark, and let the keyboard scroll what is wider than the page.
const root = document.documentElement;
const button = document.getElementById("mode");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.mode ? root.dataset.mode === "dark" : system.matches);
const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };

button.hidden = false;
label();
system.addEventListener("change", label);
button.addEventListener("click", () => {
  root.dataset.mode = isDark() ? "light" : "dark";
  label();
  try { localStorage.setItem("mode", root.dataset.mode); } catch { /* not kept */ }
});

const boxes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const wide = target.scrollWidth > target.clientWidth + 1;
    target.classList.toggle("scrolls", wide);
    if (!wide) { target.removeAttribute("tabindex"); target.removeAttribute("role"); target.removeAttribute("aria-label"); continue; }
    target.tabIndex = 0;
    target.setAttribute("role", "group");
    target.setAttribute("aria-label", "Scrolls sideways");
  }
});
for (const box of document.querySelectorAll(".scroll, div.math, .highlight pre")) boxes.observe(box);
