// Keeps the page for use without a network. `cargo xtask` fills in the version, which follows from the
// content of every file, and the files, by addresses relative to this script.
//
// It answers for the page's own files alone. Models, ranges of files, other sites and all else go to the
// network as if it were not there.
"use strict";
const VERSION = "{{version}}";
/** What the page needs, fetched when this version is installed. */
const FILES = {{files}};
/** The engine for the CPU, by what the browser's vectors can do; one of the two is fetched as well. */
const ENGINES = {{engines}};

const PREFIX = "page-";
const NAME = PREFIX + VERSION;
const SCOPE = new URL("./", self.location);
const address = (file) => new URL(file, SCOPE).href;
const known = new Set(FILES.map(address));
/** Named by their content, so that any copy is the right one. */
const hashed = (url) => url.href.startsWith(address("assets/")) && /-[0-9a-f]{16}\.[a-z]+$/.test(url.pathname);

// The same question as in web/worker/worker.js: a function with a product of relaxed vectors.
const relaxed = () =>
  WebAssembly.validate(
    new Uint8Array([
      0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x07, 0x01, 0x60, 0x02, 0x7b, 0x7b, 0x01, 0x7b, 0x03, 0x02,
      0x01, 0x00, 0x0a, 0x0b, 0x01, 0x09, 0x00, 0x20, 0x00, 0x20, 0x01, 0xfd, 0x92, 0x02, 0x0b,
    ]),
  );

/** Fetches a file into the cache, unless some version has it: a name that follows from content never changes. */
async function take(cache, file) {
  const url = new URL(file, SCOPE);
  const had = hashed(url) ? await caches.match(url.href) : undefined;
  if (had) return cache.put(url.href, had);
  // Past the browser's own cache, which may hold the last version's answer.
  const answer = await fetch(url.href, { cache: hashed(url) ? "default" : "reload" });
  if (!answer.ok) throw new Error(`${file}: ${answer.status}`);
  return cache.put(url.href, answer);
}

async function install() {
  const cache = await caches.open(NAME);
  await Promise.all([...FILES, ...(relaxed() ? ENGINES.relaxed : ENGINES.simd128)].map((file) => take(cache, file)));
}

/** The caches of this page, oldest first. */
async function versions() {
  return (await caches.keys()).filter((name) => name.startsWith(PREFIX));
}

async function activate() {
  // The one before stays: a tab may still show that version, and ask for its engine.
  const old = (await versions()).filter((name) => name !== NAME);
  await Promise.all(old.slice(0, -1).map((name) => caches.delete(name)));
  // A first visit's page is kept at once, with the engine that it may load.
  await self.clients.claim();
}

/** The page itself. A version that waits is taken into use here, by a load, and never under a page that is open. */
async function page() {
  const waiting = self.registration.waiting;
  if (waiting) {
    waiting.postMessage("use");
    const [newest] = (await versions()).slice(-1);
    const answer = await (await caches.open(newest)).match(address("./"));
    if (answer) return answer;
  }
  return (await (await caches.open(NAME)).match(address("./"))) ?? fetch(address("./"));
}

async function file(event, url) {
  const { href } = url;
  const isHashed = hashed(url);
  const cache = await caches.open(NAME);
  const any = { ignoreVary: true };
  const had = (await cache.match(href, any)) ?? (isHashed && (await caches.match(href, any)));
  if (had) return had;
  const answer = await fetch(event.request);
  // An engine that was not fetched beforehand: kept from its first use on.
  if (isHashed && answer.status === 200) event.waitUntil(cache.put(href, answer.clone()));
  return answer;
}

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("message", (event) => {
  if (event.data === "use") self.skipWaiting();
});
self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== SCOPE.origin || request.headers.has("range")) return;
  if (request.mode === "navigate") {
    if (url.pathname === SCOPE.pathname || url.pathname === new URL("index.html", SCOPE).pathname) event.respondWith(page());
    return;
  }
  url.hash = "";
  // The worker's script takes its settings behind a question mark.
  if (hashed(url)) url.search = "";
  if (known.has(url.href) || hashed(url)) event.respondWith(file(event, url));
});
