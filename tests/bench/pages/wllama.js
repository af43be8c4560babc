// What ../playground.js does with our engine, done with wllama.
import { Wllama } from "/wllama/index.js";

/** Continues a text greedily by so many tokens, whatever they are; no cache. Returns wllama's last chunk. */
async function complete(wllama, prompt, count, heard = () => {}) {
  let last;
  await wllama.createCompletion({
    prompt,
    max_tokens: count,
    temperature: 0,
    ignore_eos: true,
    cache_prompt: false,
    stream: true,
    onData: (chunk) => heard((last = chunk)),
  });
  return last;
}

/** `threads` is wllama's own setting; it makes threads where the page is isolated, and this one is. */
window.measure = async ({ model, prompt, warmup, decodeTokens, threads }) => {
  const began = performance.now();
  const wllama = new Wllama({ default: "/wllama/wasm/wllama.wasm" }, { suppressNativeLog: true });
  const answer = await fetch(model);
  if (!answer.ok) throw new Error(`${model}: status ${answer.status}`);
  await wllama.loadModel([await answer.blob()], {
    n_threads: threads,
    n_gpu_layers: 0,
    n_ctx: 512 * Math.ceil((prompt.length + decodeTokens) / 512),
    n_parallel: 1,
  });
  if (wllama.getNumThreads() !== threads) throw new Error(`wllama runs ${wllama.getNumThreads()} threads`);
  const loadMs = performance.now() - began;

  await complete(wllama, warmup, 4);
  await window.mark("start");
  const start = performance.now();
  let first;
  const { usage, timings } = await complete(wllama, prompt, decodeTokens, () => {
    if (first) return;
    first = performance.now();
    window.mark("prefilled");
  });
  const end = performance.now();
  await window.mark("decoded");
  return {
    loadMs,
    promptTokens: usage.prompt_tokens,
    prefillMs: first - start,
    newTokens: usage.completion_tokens,
    decodeMs: end - first,
    own: { prefillMs: timings.prompt_ms, decodeMs: timings.predicted_ms },
    version: Wllama.getLibllamaVersion(),
  };
};
