// The head of every page. Before the first paint: the reader's choice of light or dark, if one was made.
{
  try {
    const mode = localStorage.getItem("mode");
    if (mode) document.documentElement.dataset.mode = mode;
  } catch { /* storage is closed: the system's choice holds */ }

  // After it: the scripts. The text is whole without them, so they don't come in its way.
  const { src, dataset } = document.currentScript;
  const serve = () => {
    const scripts = dataset.then.split(" ").map((path) => Object.assign(document.createElement("script"), {
      src: new URL(path, src), type: path.startsWith("live/") ? "module" : "", async: false, // one after the other
    }));
    scripts.at(-1).onload = () => { document.documentElement.dataset.served = ""; };
    document.head.append(...scripts);
  };
  addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => requestAnimationFrame(serve))); // in the next frame
}
