// Python with the book's library, off the page's own thread. All of it comes from this site.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const functions = {
  render: ["calc.panel", "render"],
  check: ["calc.practice", "check_json"],
  ask: ["calc.practice", "ask_json"],
};

const python = (async () => {
  const wheel = fetch(new URL("calc.whl", import.meta.url)).then((answer) => {
    if (!answer.ok) throw new Error(`the library could not be loaded (${answer.status})`);
    return answer.arrayBuffer();
  });
  const pyodide = await loadPyodide();
  pyodide.unpackArchive(await wheel, "wheel");
  return pyodide;
})();

onmessage = async ({ data: { id, name, args } }) => {
  try {
    const [module, attribute] = functions[name];
    postMessage({ id, value: (await python).pyimport(module)[attribute](...args) });
  } catch (error) {
    postMessage({ id, error: error.message.trim().split("\n").at(-1) });
  }
};
