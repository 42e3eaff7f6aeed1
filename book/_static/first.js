// The head of every page. Before the first paint: the reader's choice of light or dark, if one was made.
{
  const root = document.documentElement;
  const choose = () => {
    try {
      const mode = localStorage.getItem("mode");
      if (mode) root.dataset.mode = mode;
    } catch { /* storage is closed: the system's choice holds */ }
  };
  choose();
  addEventListener("storage", choose); // made on another page, while this one was open
  addEventListener("pageshow", choose); // or put aside

  // Sections that are not laid out have a guessed height. It must not decide where a reader lands who comes back to a
  // place, follows a link within the page, or goes to its end; and one who comes by keyboard sees focus uncut.
  const whole = () => { root.dataset.whole = ""; };
  if (location.hash || performance.getEntriesByType("navigation")[0]?.type !== "navigate") whole();
  addEventListener("hashchange", whole);
  addEventListener("keydown", ({ key }) => { if (key === "Tab" || key === "End") whole(); });

  // After it: the scripts. The text is whole without them, so they don't come in its way.
  const { src, dataset } = document.currentScript;
  const serve = () => {
    const scripts = dataset.then.split(" ").map((path) => Object.assign(document.createElement("script"), {
      src: new URL(path, src), type: path.startsWith("live/") ? "module" : "", async: false, // one after the other
    }));
    scripts.at(-1).onload = () => { root.dataset.served = ""; };
    document.head.append(...scripts);
  };
  addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => requestAnimationFrame(serve))); // in the next frame
}
