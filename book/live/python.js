// The page's one Python: a worker that starts at the first call and answers in order.
let worker;
let awake = false; // it has answered
let last = 0;
const waiting = new Map();

export function wake() { worker ??= start(); }

export function call(name, ...args) {
  wake();
  const id = ++last;
  worker.postMessage({ id, name, args });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

// Says that Python starts, if an answer takes long for that: clear it when the answer is there.
export const patience = (say) => setTimeout(() => awake || say("Starting Python in this page, once: seconds on a fast line, minutes on a slow one."), 300);

// Calls of which only the latest counts: one is under way, and of those that come meanwhile the last one is kept.
export function latest(show, say) {
  let busy = false, next;
  return async (...request) => {
    next = request;
    if (busy) return;
    busy = true;
    const slow = patience(say);
    while (next !== undefined) {
      const sent = next;
      next = undefined;
      try { show(await call(...sent)); } catch (error) { show({ ok: false, error: error.message }); }
      clearTimeout(slow);
    }
    busy = false;
  };
}

// How long a hand that has stopped is waited for, in ms.
export const STILL = 700;

// Shows an answer, a refusal only once the hand that writes is still or has left the field: half a number is none.
export function unhurried(form, show) {
  let held, timer, writing = false;
  form.addEventListener("input", ({ target }) => { writing = target.matches("textarea:focus, [type=number]:focus"); });
  form.addEventListener("change", release);

  function release() {
    writing = false;
    if (held) reveal(held);
  }

  function reveal(answer) {
    clearTimeout(timer);
    held = undefined;
    show(answer);
  }

  return (answer) => {
    if (answer.ok || !writing) return reveal(answer);
    clearTimeout(timer);
    held = answer;
    timer = setTimeout(release, STILL);
  };
}

function start() {
  const started = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  started.onmessage = ({ data }) => {
    if (data.started === false) return fail(data.error);
    awake = true;
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) reject(new Error(data.error)); else resolve(JSON.parse(data.value));
  };
  started.onerror = () => fail("this browser refused");
  return started;

  function fail(reason) {
    started.terminate();
    if (worker === started) { worker = undefined; awake = false; } // the next touch tries again
    for (const { reject } of waiting.values()) reject(new Error(`Python could not start (${reason}). Change a value to try again.`));
    waiting.clear();
  }
}
