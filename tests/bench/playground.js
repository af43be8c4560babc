// Our side: generates as the page does, a worker and a stream of events. Runs in the page.

/** `processor` as the worker's loader takes it: `gpu`, `cpu` or `simd128`. */
export async function measure({ model, prompt, warmup, decodeTokens, processor }) {
  const loader = document.querySelector("script[data-worker-js]").dataset.workerJs;
  const address = new URL(loader, document.baseURI);
  address.searchParams.set("processor", processor);
  const worker = new Worker(address, { type: "module" });
  /** Sends a request if there is one, shows every event to `heard`, and resolves to the event of this type. */
  const ask = (request, type, heard = () => {}) =>
    new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message || "the worker does not start"));
      worker.onmessage = ({ data }) => {
        heard(data);
        if (data.type === "failed") reject(new Error(`${data.failure.message} ${data.failure.advice}`));
        if (data.type === type) resolve(data);
      };
      if (request) worker.postMessage(request);
    });
  const generate = (text, maxTokens, heard) => {
    const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n };
    const ours = { side: "a", prompt: { type: "text", text }, sampling, maxTokens, alternatives: 0 };
    return ask({ type: "generate", job: 0, ...ours }, "finished", heard);
  };

  const began = performance.now();
  await ask(null, "ready");
  await ask({ type: "probe" }, "processor");
  const source = { type: "url", url: new URL(model, document.baseURI).href, token: null };
  const context = 512 * Math.ceil((prompt.length + decodeTokens) / 512);
  const options = { recipe: null, context, halfCache: false, keep: false, memoryLimit: null };
  const loaded = await ask({ type: "load", source, sides: "both", options }, "loaded");
  const loadMs = performance.now() - began;

  await generate(warmup, 4);
  await window.mark("start");
  const start = performance.now();
  let first;
  let ids;
  const { stats } = await generate(prompt, decodeTokens, (event) => {
    if (event.type === "prompt") ids = event;
    if (event.type !== "token" || first) return;
    first = performance.now();
    window.mark("prefilled");
  });
  const end = performance.now();
  await window.mark("decoded");
  worker.terminate();
  if (ids.reused > 0) throw new Error(`${ids.reused} tokens of the prompt were in the cache`);
  return {
    loadMs,
    promptTokens: ids.ids.length,
    prefillMs: first - start,
    newTokens: stats.newTokens,
    decodeMs: end - first,
    own: { prefillMs: stats.firstTokenSeconds * 1000 },
    processor: loaded.model.processor,
  };
}
