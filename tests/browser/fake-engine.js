// An engine that does what a test tells it: the worker's script is replaced by one that passes on what the
// page asks, and says what the test has it say. For tests of the page alone.
import { expect } from "@playwright/test";

/** The script of the worker. */
const RELAY = `
  const channel = new BroadcastChannel("fake-engine");
  channel.onmessage = ({ data }) => data.events.forEach((event) => self.postMessage(event));
  self.onmessage = ({ data }) => {
    const files = (data.files ?? []).map((file) => ({ name: file.name, size: file.size }));
    channel.postMessage({ asked: { ...data, files } });
  };
  self.postMessage({ type: "ready" });
`;

const GPU = { kind: "gpu", adapter: { name: "an invented GPU", software: false, maxBinding: 134_217_728, maxBuffer: 268_435_456 } };
export const STORAGE = { used: 1_900_000_000, quota: 22_400_000_000, persistent: true };

/** What a check finds; the figures of the design, unless told otherwise. */
export function preflight(more) {
  return {
    name: "AgenticML 8B",
    label: "safetensors, BF16 as q4",
    licence: { name: "Llama 3.1 Community License", link: "https://example.org/licence", attribution: "Built with Llama" },
    parameters: 8_030_261_248,
    downloadBytes: 16_060_000_000,
    keptBytes: 0,
    storageBytes: 4_700_000_000,
    weightBytes: 4_700_000_000,
    cacheBytes: 540_000_000,
    workspaceBytes: 400_000_000,
    otherBytes: 0,
    context: 2048,
    modelContext: 131_072,
    largest: { name: "token_embd.weight", bytes: 296_000_000, parts: 3, maxBinding: 134_217_728 },
    memory: 8_000_000_000,
    storage: { Ok: STORAGE },
    findings: [],
    offers: [],
    ...more,
  };
}

/** A loaded model. */
export function model(more) {
  return {
    name: "AgenticML 8B",
    label: "safetensors, BF16 as q4",
    licence: { name: "Llama 3.1 Community License", link: "https://example.org/licence", attribution: "Built with Llama" },
    key: "one",
    parameters: 8_030_261_248,
    types: [["Q4_0", 225], ["F32", 65]],
    vocabulary: 128_256,
    context: 2048,
    tensorBytes: 4_700_000_000,
    weightBytes: 4_700_000_000,
    cacheBytesPerToken: 131_072,
    halfCache: false,
    chatTemplate: true,
    seconds: 61,
    wasmBytes: 90_000_000,
    processor: GPU,
    ...more,
  };
}

/** A kept model. */
export function kept(more) {
  return {
    key: "one",
    name: "SmolLM2-135M",
    label: "GGUF, Q8_0",
    origin: "https://example.org/smol.gguf",
    bytes: 145_000_000,
    totalBytes: 145_000_000,
    pieces: 3,
    totalPieces: 3,
    lastUsed: Date.now(),
    trouble: null,
    ...more,
  };
}

/** How the pieces of a load are doing. */
export function pieces(more) {
  return {
    type: "pieces",
    pieces: { total: 75, verified: 0, hashing: null, arriving: null, kept: 0, damaged: 0, discarded: null, notKept: null, fetched: 0, ...more },
  };
}

export class FakeEngine {
  constructor(page) {
    this.page = page;
    this.read = 0;
  }

  /** Replaces the engine of the pages that are opened from now on. */
  async install() {
    await this.page.route(/\/assets\/(no-engine|worker-[^/]*)\.js/, (route) =>
      route.fulfill({ contentType: "text/javascript", body: RELAY }),
    );
    await this.page.addInitScript(() => {
      window.asked = [];
      window.engineChannel = new BroadcastChannel("fake-engine");
      window.engineChannel.onmessage = ({ data }) => data.asked && window.asked.push(data.asked);
    });
  }

  /** What the page asks next; it must be of this type. */
  async next(type) {
    const at = this.read++;
    await expect.poll(() => this.page.evaluate((at) => window.asked[at]?.type, at), { message: `the page asks: ${type}` }).toBe(type);
    return await this.page.evaluate((at) => window.asked[at], at);
  }

  /** Checks that the page asks nothing more. */
  async quiet() {
    await this.page.waitForTimeout(150);
    expect(await this.page.evaluate((from) => window.asked.slice(from).map(({ type }) => type), this.read)).toEqual([]);
  }

  /** Has the engine say something. */
  async say(...events) {
    await this.page.evaluate((events) => window.engineChannel.postMessage({ events }), events);
  }

  /** Answers what a page asks that comes into the room of models. */
  async welcome(models = [], storage = { Ok: STORAGE }) {
    await this.next("probe");
    await this.next("list");
    await this.say({ type: "processor", processor: GPU }, { type: "kept", models, storage });
  }

  async keeps(models, storage = { Ok: STORAGE }) {
    await this.say({ type: "kept", models, storage });
  }

  async found(more) {
    await this.say({ type: "checked", preflight: preflight(more) });
  }

  async fails(kind, message, advice = "Try something else.") {
    await this.say({ type: "failed", job: null, failure: { kind, message, advice } });
  }

  async loaded(sides, more) {
    await this.say({ type: "loaded", sides, model: model(more) });
  }

  /** Loads a model for both sides through the dock's panel. */
  async hasModel(more) {
    const { page } = this;
    await page.getByTestId("dock-model").click();
    await page.getByTestId("model-url").fill("https://example.org/model.gguf");
    await page.getByTestId("model-load").click();
    await this.until("load");
    // The answer to what was asked before, where the processor was.
    await this.say({ type: "processor", processor: GPU });
    await this.loaded("both", more);
    await expect(page.getByTestId("model-status")).toContainText("ready in");
  }

  /** Passes over what the page asks until it is of this type. */
  async until(type) {
    await expect
      .poll(() => this.page.evaluate(([from, type]) => window.asked.slice(from).some((asked) => asked.type === type), [this.read, type]), {
        message: `the page asks: ${type}`,
      })
      .toBe(true);
    const at = await this.page.evaluate(([from, type]) => window.asked.findIndex((asked, at) => at >= from && asked.type === type), [this.read, type]);
    this.read = at + 1;
    return await this.page.evaluate((at) => window.asked[at], at);
  }

  /** The generation that the page asks for next. */
  async generation() {
    return await new Script(this, await this.until("generate")).begins();
  }

  async residence(a, b) {
    await this.say({ type: "residence", a, b });
  }

  async progress(done, total, seconds, stage = "weights") {
    await this.say({ type: "progress", stage, done, total, seconds });
  }
}

/** Ids of Llama 3.1's special tokens that models write here. */
const MARKERS = { think: [128_013, 5], action: [128_014, 6], end: [128_015, 7], result: [128_016, 8] };

/** The marker of a frame kind as a token. */
export function marker(kind, more) {
  const [id, slot] = MARKERS[kind];
  return { id, text: `<|reserved_special_token_${slot}|>`, special: true, ...more };
}

/** Tokens of plain text, one a piece; the ids are invented. */
export function text(...pieces) {
  return pieces.map((piece, at) => ({ id: 1000 + at, text: piece, special: false }));
}

/** The end of a ChatML turn. */
export const EOT = { id: 128_009, text: "<|eot_id|>", special: true };

/** What a model thinks of a token: its probability, and other tokens as `[id, piece, probability]`. */
export function outlook(probability, ...others) {
  return {
    probability,
    entropy: 0.5,
    alternatives: others.map(([id, piece, probability, special = false]) => ({ id, piece, probability, special })),
  };
}

/** A generation as a test tells it. */
export class Script {
  constructor(engine, request) {
    this.engine = engine;
    this.job = request.job;
    this.request = request;
    this.count = 0;
    this.prompt = request.prompt.ids?.length ?? 3;
  }

  /** The prompt as the model sees it. */
  async begins() {
    const ids = this.request.prompt.ids ?? [1, 2, 3];
    await this.engine.say({ type: "prompt", job: this.job, ids, pieces: ids.map(() => "p"), reused: 0 });
    return this;
  }

  /** Tokens, one after the other. */
  async writes(...tokens) {
    this.count += tokens.length;
    await this.engine.say(
      ...tokens.map((token) => ({ type: "token", job: this.job, rate: 41.6, outlook: null, ...token })),
    );
    return this;
  }

  /** The end, for this reason. */
  async ends(reason = "stopToken") {
    const stats = { promptTokens: this.prompt, newTokens: this.count, firstTokenSeconds: 0.212, tokensPerSecond: 41.6 };
    await this.engine.say({ type: "finished", job: this.job, reason, stats });
  }

  async fails(message) {
    await this.engine.say({ type: "failed", job: this.job, failure: { kind: "memory", message, advice: "Load a smaller model." } });
  }
}
