// The page's one Python: a worker that starts at the first call and answers in order.
let worker;
let last = 0;
const waiting = new Map();

export function call(name, ...args) {
  worker ??= start();
  const id = ++last;
  worker.postMessage({ id, name, args });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function start() {
  const started = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  started.onmessage = ({ data: { id, value, error } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(error)); else resolve(JSON.parse(value));
  };
  started.onerror = () => {
    for (const { reject } of waiting.values()) reject(new Error("Python could not start in this browser."));
    waiting.clear();
    worker = undefined; // the next touch tries again
  };
  return started;
}
