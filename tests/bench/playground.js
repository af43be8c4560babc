// Our side: generates as the page does, a worker and a stream of events. Runs in the page.

/** `processor` as the worker's loader takes it: `gpu`, `cpu` or `simd128`. */
export async function measure({ model, prompt, warmup, decodeTokens, processor }) {
  const began = performance.now();
  const engine = await window.Engine.start({ processor });
  const context = 512 * Math.ceil((prompt.length + decodeTokens) / 512);
  const loaded = await engine.load(model, { context });
  const loadMs = performance.now() - began;

  await engine.generate(warmup, 4);
  await window.mark("start");
  const start = performance.now();
  let first;
  let ids;
  const { stats } = await engine.generate(prompt, decodeTokens, (event) => {
    if (event.type === "prompt") ids = event;
    if (event.type !== "token" || first) return;
    first = performance.now();
    window.mark("prefilled");
  });
  const end = performance.now();
  await window.mark("decoded");
  engine.end();
  if (ids.reused > 0) throw new Error(`${ids.reused} tokens of the prompt were in the cache`);
  return {
    loadMs,
    promptTokens: ids.ids.length,
    prefillMs: first - start,
    newTokens: stats.newTokens,
    decodeMs: end - first,
    own: { prefillMs: stats.firstTokenSeconds * 1000 },
    processor: loaded.processor,
  };
}
