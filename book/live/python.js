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
  started.onmessage = ({ data }) => {
    if (data.started === false) return fail(data.error);
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) reject(new Error(data.error)); else resolve(JSON.parse(data.value));
  };
  started.onerror = () => fail("this browser refused");
  return started;

  function fail(reason) {
    started.terminate();
    if (worker === started) worker = undefined; // the next touch tries again
    for (const { reject } of waiting.values()) reject(new Error(`Python could not start (${reason}). Change a value to try again.`));
    waiting.clear();
  }
}
