// Python with the book's library, off the page's own thread. All of it comes from this site.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const functions = {
  render: ["calc.panel", "render"],
  check: ["calc.practice", "check_json"],
  ask: ["calc.practice", "ask_json"],
  interview: ["calc.practice", "interview_json"],
  worksheet: ["calc.worksheet", "worksheet_json"],
  worksheet_file: ["calc.worksheet", "export_json"],
  log: ["calc.worksheet", "log_json"],
};

// Pyodide waits for ever for a file that does not come, so every load is watched here.
let failed;
const failure = new Promise((_, reject) => { failed = reject; });
const load = self.fetch;
self.fetch = async (...request) => {
  try {
    const answer = await load(...request);
    if (!answer.ok) throw new Error(`${answer.status} for ${answer.url}`);
    return answer;
  } catch (error) {
    failed(error);
    throw error;
  }
};

async function start() {
  const wheel = fetch(new URL("calc.whl", import.meta.url)).then((answer) => answer.arrayBuffer());
  const pyodide = await loadPyodide();
  pyodide.unpackArchive(await wheel, "wheel");
  return pyodide;
}

const python = Promise.race([start(), failure]);

onmessage = async ({ data: { id, name, args } }) => {
  let started = false;
  try {
    const pyodide = await python;
    started = true;
    const [module, attribute] = functions[name];
    postMessage({ id, value: pyodide.pyimport(module)[attribute](...args) });
  } catch (error) {
    postMessage({ id, error: error.message.trim().split("\n").at(-1), started });
  }
};
