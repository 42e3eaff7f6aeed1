// Call the library with the site's own Pyodide and wheel: JSON list of [function, ...arguments] in, JSON list of answers
// out. A function is "module:name"; a panel's is given to calc.panel.render.
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const live = pathToFileURL(`${process.argv[2]}/`);
const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", live));
const python = await loadPyodide();
python.unpackArchive(Uint8Array.from(readFileSync(new URL("calc.whl", live))), "wheel");
const { render } = python.pyimport("calc.panel");
const calls = JSON.parse(await text(process.stdin));
const direct = { "calc.worksheet": python.pyimport("calc.worksheet"), "calc.practice": python.pyimport("calc.practice") };
const answer = ([path, ...given]) => {
  const [module, name] = path.split(":");
  return direct[module] ? direct[module][name](...given) : render(path, ...given);
};
process.stdout.write(JSON.stringify(calls.map(answer)));
