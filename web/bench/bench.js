// Measures the engine as the page runs it: a fresh worker per call, the same requests and events.
"use strict";
{
  const workerUrl = new URL(document.currentScript.dataset.workerJs, document.baseURI);

  /** Starts a worker and returns how to ask it: each request resolves to the event of the wanted type. */
  function engine(processor) {
    const url = new URL(workerUrl);
    url.searchParams.set("processor", processor);
    const worker = new Worker(url, { type: "module" });
    let settle = null;
    const heard = [];
    const next = (outcome) => (settle ? settle(outcome) : heard.push(outcome));
    worker.onmessage = ({ data }) => next(data);
    worker.onerror = (event) => {
      event.preventDefault();
      const message = event.message || "its program could not be loaded";
      next({ type: "failed", failure: { kind: "internal", message, advice: "" } });
    };
    const answer = () =>
      new Promise((done) => {
        if (heard.length > 0) return done(heard.shift());
        settle = (outcome) => {
          settle = null;
          done(outcome);
        };
      });
    const wait = async (type) => {
      for (;;) {
        const event = await answer();
        if (event.type === "failed") {
          const { kind, message, advice } = event.failure;
          throw new Error(`${kind}: ${message} ${advice}`.trim());
        }
        if (event.type === type) return event;
      }
    };
    const ask = (request, type) => {
      worker.postMessage(request);
      return wait(type);
    };
    return { ask, wait, end: () => worker.terminate() };
  }

  /**
   * Loads a model in a fresh worker and measures it.
   *
   * `processor` is `gpu`, `cpu` (relaxed vectors where the browser has them) or `simd128`.
   */
  window.bench = async (modelUrl, { promptTokens = 128, decodeTokens = 64, processor = "cpu", halfCache = false } = {}) => {
    const { ask, wait, end } = engine(processor);
    try {
      await wait("ready");
      await ask({ type: "probe" }, "processor");
      const source = { type: "url", url: new URL(modelUrl, document.baseURI).href };
      // Room for the prompt, the new tokens and the edited prompt that the engine adds.
      const context = promptTokens + decodeTokens + 16;
      const { model } = await ask({ type: "load", source, context, halfCache }, "loaded");
      const { measures } = await ask({ type: "measure", promptTokens, decodeTokens }, "measured");
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
      end();
    }
  };
}
