// Measures the engine as the page runs it: a fresh worker per call, the same requests and events.
"use strict";
{
  const workerUrl = new URL(document.currentScript.dataset.workerJs, document.baseURI);

  /** Starts a worker. `wait` takes its events up to one of the wanted type; `ask` posts a request before that. */
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
    const wait = async (type, before = () => {}) => {
      for (;;) {
        const event = await answer();
        if (event.type === "failed") {
          const { kind, message, advice } = event.failure;
          throw new Error(`${kind}: ${message} ${advice}`.trim());
        }
        if (event.type === type) return event;
        before(event);
      }
    };
    const post = (request) => worker.postMessage(request);
    const ask = (request, type) => {
      post(request);
      return wait(type);
    };
    return { post, ask, wait, end: () => worker.terminate() };
  }

  const GREEDY = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0 };

  /** Generates from token ids and takes the time of the first and of the last new token. */
  async function timed({ post, wait }, ids, maxTokens, mark) {
    await mark("start");
    const start = performance.now();
    post({ type: "generate", job: 1, prompt: { type: "ids", ids }, sampling: GREEDY, maxTokens, alternatives: 0 });
    const { reused } = await wait("prompt");
    await wait("token");
    const first = performance.now();
    mark("prefilled");
    let decodedTokens = 1;
    await wait("finished", ({ type }) => (decodedTokens += type === "token"));
    const last = performance.now();
    mark("decoded");
    return { reused, prefillMs: first - start, decodeMs: last - first, decodedTokens };
  }

  /** The ids of a text, without the token that some models want before every text. */
  async function idsOf({ post, wait }, text, length) {
    post({ type: "generate", job: 0, prompt: { type: "text", text }, sampling: GREEDY, maxTokens: 0, alternatives: 0 });
    const { ids } = await wait("prompt");
    await wait("finished");
    return ids.slice(-length);
  }

  /**
   * Loads a model in a fresh worker and measures it.
   *
   * `processor` is `gpu`, `cpu` (relaxed vectors where the browser has them) or `simd128`. With a `prompt`
   * of `promptTokens` tokens the times are those of a generation as the page asks for it, and
   * `window.mark`, where there is one, is called at `start`, `prefilled` and `decoded`; without one the
   * engine measures itself.
   */
  window.bench = async (modelUrl, options = {}) => {
    const { promptTokens = 128, decodeTokens = 64, processor = "cpu", halfCache = false, prompt } = options;
    const running = engine(processor);
    const { ask, wait, end } = running;
    try {
      await wait("ready");
      await ask({ type: "probe" }, "processor");
      const source = { type: "url", url: new URL(modelUrl, document.baseURI).href };
      // Room for the prompt, the new tokens, and what the engine adds to either when it measures itself.
      const context = promptTokens + decodeTokens + 16;
      const { model } = await ask({ type: "load", source, context, halfCache }, "loaded");
      const times = prompt === undefined ? {} : await asked(running, prompt, promptTokens, decodeTokens);
      const brief = prompt === undefined ? { promptTokens, decodeTokens } : { promptTokens: 8, decodeTokens: 8 };
      const { measures } = await ask({ type: "measure", ...brief }, "measured");
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
        ...times,
      };
    } finally {
      end();
    }
  };

  async function asked(running, prompt, promptTokens, decodeTokens) {
    const mark = async (place) => window.mark?.(place);
    const ids = await idsOf(running, prompt, promptTokens);
    // Another beginning, so that nothing of it is still in the cache afterwards.
    const other = ids[0] === 0 ? 1 : ids[0] - 1;
    await timed(running, [other, ...ids.slice(1, 16)], 4, async () => {});
    const { reused, ...times } = await timed(running, ids, decodeTokens, mark);
    if (reused > 0) throw new Error(`${reused} tokens of the prompt were in the cache`);
    return {
      promptTokens: ids.length,
      ...times,
      prefillTokPerSec: (ids.length * 1e3) / times.prefillMs,
      decodeTokPerSec: ((times.decodedTokens - 1) * 1e3) / times.decodeMs,
    };
  }
}
