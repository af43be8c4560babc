// Measures the engine as the page runs it: a fresh worker per call, the same requests and events.
"use strict";
{
  const workerUrl = new URL(document.currentScript.dataset.workerJs, document.baseURI);

  /** Posts a request, if there is one, and resolves to the event of a type. */
  function ask(worker, request, type) {
    return new Promise((resolve, reject) => {
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message || "the engine's program could not be loaded"));
      };
      worker.onmessage = ({ data }) => {
        if (data.type === type) resolve(data);
        if (data.type !== "failed") return;
        const { kind, message, advice } = data.failure;
        reject(new Error(`${kind}: ${message} ${advice}`));
      };
      if (request) worker.postMessage(request);
    });
  }

  /**
   * Loads a model in a fresh worker and has the engine measure itself.
   *
   * `processor` is `gpu`, `cpu` (relaxed vectors where the browser has them) or `simd128`.
   */
  window.bench = async (modelUrl, options = {}) => {
    const { promptTokens = 128, decodeTokens = 64, processor = "cpu", halfCache = false } = options;
    const url = new URL(workerUrl);
    url.searchParams.set("processor", processor);
    const worker = new Worker(url, { type: "module" });
    try {
      await ask(worker, null, "ready");
      await ask(worker, { type: "probe" }, "processor");
      const source = { type: "url", url: new URL(modelUrl, document.baseURI).href, token: null };
      // Room for the prompt, the new tokens, and what the engine adds to either.
      const context = promptTokens + decodeTokens + 16;
      const load = { recipe: null, context, halfCache, keep: false, memoryLimit: null };
      const { model } = await ask(worker, { type: "load", source, sides: "both", options: load }, "loaded");
      const { measures } = await ask(worker, { type: "measure", side: "a", promptTokens, decodeTokens }, "measured");
      return {
        loadMs: measures.loadMs,
        prefillTokPerSec: measures.prefillTokensPerSecond,
        decodeTokPerSec: measures.decodeTokensPerSecond,
        firstTokenMs: measures.firstTokenMs,
        dispatchesPerToken: measures.launchesPerToken,
        submitsPerToken: measures.submitsPerToken,
        bytesPerToken: measures.bytesPerToken,
        wasmPeakMB: measures.wasmBytes / 1e6,
        processor: model.processor,
        weightBytes: model.weightBytes,
        tensorBytes: model.tensorBytes,
      };
    } finally {
      worker.terminate();
    }
  };
}
