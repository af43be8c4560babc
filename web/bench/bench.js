// The engine as the page runs it, for measurements and tests: fresh workers, the same requests and events.
"use strict";
{
  const workerUrl = new URL(document.currentScript.dataset.workerJs, document.baseURI);

  window.Engine = class {
    #worker;

    /**
     * Starts a worker. `query` goes into its address: `processor` is `gpu`, `cpu` (relaxed vectors where the
     * browser has them) or `simd128`.
     */
    static async start(query) {
      const engine = new Engine();
      const url = new URL(workerUrl);
      for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
      engine.#worker = new Worker(url, { type: "module" });
      await engine.ask(null, "ready");
      await engine.ask({ type: "probe" }, "processor");
      return engine;
    }

    /** Posts a request, if there is one, shows every event to `heard`, and resolves to the event of a type. */
    ask(request, type, heard = () => {}) {
      return new Promise((resolve, reject) => {
        this.#worker.onerror = (event) => {
          event.preventDefault();
          reject(new Error(event.message || "the engine's program could not be loaded"));
        };
        this.#worker.onmessage = ({ data }) => {
          heard(data);
          if (data.type === type) resolve(data);
          if (data.type !== "failed") return;
          const { kind, message, advice } = data.failure;
          reject(new Error(`${kind}: ${message} ${advice}`));
        };
        if (request) this.#worker.postMessage(request);
      });
    }

    /** Has a request answered that is about a source: the address of a model, or a source as the engine has it. */
    #about(type, source, options, answer, heard) {
      if (typeof source === "string") source = { type: "url", url: new URL(source, document.baseURI).href, token: null };
      options = { recipe: null, context: 512, halfCache: false, keep: false, memoryLimit: null, ...options };
      return this.ask({ type, source, sides: "both", options }, answer, heard);
    }

    /** What a model would take. */
    async check(source, options) {
      return (await this.#about("check", source, options, "checked")).preflight;
    }

    /** Loads a model. */
    async load(source, options, heard) {
      return (await this.#about("load", source, options, "loaded", heard)).model;
    }

    /** Continues a text greedily; returns the final event. */
    async generate(text, maxTokens, heard) {
      const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0 };
      const prompt = { type: "text", text };
      const request = { type: "generate", job: 0, side: "a", prompt, sampling, maxTokens, alternatives: 0 };
      return await this.ask(request, "finished", heard);
    }

    /** Has the loaded model measured. */
    async measure(promptTokens, decodeTokens) {
      return (await this.ask({ type: "measure", side: "a", promptTokens, decodeTokens }, "measured")).measures;
    }

    end() {
      this.#worker.terminate();
    }
  };

  /** Loads a model in a fresh worker and has the engine measure itself. */
  window.bench = async (modelUrl, options = {}) => {
    const { promptTokens = 128, decodeTokens = 64, processor = "cpu", halfCache = false } = options;
    const engine = await Engine.start({ processor });
    try {
      // Room for the prompt, the new tokens, and what the engine adds to either.
      const context = promptTokens + decodeTokens + 16;
      const model = await engine.load(modelUrl, { context, halfCache });
      const measures = await engine.measure(promptTokens, decodeTokens);
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
      engine.end();
    }
  };
}
