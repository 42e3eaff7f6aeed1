// Keeps one whole edition of the book on the reader's device: every page and its panels work offline.
//
// EDITION, written above by textbook/offline.py, has the SHA-256 of every file of one build. A file is kept under its path
// and its hash, so an edition never answers with a file of another, and a new one fetches only what has changed.
const SCOPE = new URL(registration.scope);
const CACHE = `book ${SCOPE.pathname}`;
const AT_ONCE = 4; // files: the reader's own requests come first
let asked = false;
const key = (path) => new URL(`${path}?${EDITION[path]}`, SCOPE).href;

addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(begin()));
addEventListener("message", (event) => event.waitUntil(takeOver(event.data)));
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  const path = find(request.url);
  if (path) event.respondWith(answer(request, path));
  else if (request.mode === "navigate") event.respondWith(fetch(request).catch(missing));
});

// All of the edition or none of it: what fails is tried again at the next visit, and what has come by then is there.
async function keep() {
  const cache = await caches.open(CACHE);
  const kept = new Set((await cache.keys()).map(({ url }) => url));
  const left = Object.keys(EDITION).filter((path) => !kept.has(key(path)));
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (left.length) {
      const path = left.shift();
      const request = { integrity: `sha256-${EDITION[path]}`, cache: "no-cache", priority: "low" };
      const got = await fetch(new URL(path, SCOPE), request);
      await cache.put(key(path), new Response(got.body, got)); // a copy, for a redirected answer opens no page
    }
  }));
}

async function begin() {
  if (!registration.installing) { // a still newer edition is adding files of its own
    const cache = await caches.open(CACHE);
    const mine = new Set(Object.keys(EDITION).map(key));
    for (const request of await cache.keys()) if (!mine.has(request.url)) await cache.delete(request);
  }
  await clients.claim();
  if (asked) for (const client of await clients.matchAll()) client.postMessage("reload");
}

// A newer edition waits until no page of this one is open, or until the reader asks for it (book.js).
function takeOver(byReader) {
  asked = byReader;
  return skipWaiting();
}

function find(url) {
  const { origin, pathname } = new URL(url);
  if (origin !== SCOPE.origin || !pathname.startsWith(SCOPE.pathname)) return undefined;
  const path = pathname.slice(SCOPE.pathname.length);
  return [path, `${path}index.html`, `${path}.html`].find((name) => Object.hasOwn(EDITION, name));
}

async function answer(request, path) {
  if (request.mode === "navigate" && path.endsWith(".html") && registration.waiting && (await clients.matchAll()).length < 2) {
    registration.waiting.postMessage(false); // the only page is being left: its successor is of the newer edition
    return new Response("", { headers: { "Content-Type": "text/html", Refresh: "0" } });
  }
  const cache = await caches.open(CACHE);
  return await cache.match(key(path)) ?? fetch(request);
}

async function missing() {
  const cache = await caches.open(CACHE);
  const page = await cache.match(key("404.html"));
  return new Response(page.body, { status: 404, headers: page.headers });
}
