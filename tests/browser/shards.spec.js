// One model in all the forms that it comes in, with limits so low that everything is split: the same tokens.
// It has the shape of Llama 3.1 8B, scaled down; `cargo xtask test` makes its files.
import { expect, test } from "./test.js";

const NAME = "random-nano-8b";
/** Bytes that a binding holds at most: less than each matrix of weights has. */
const BINDING = 64 << 10;
/** Bytes of a piece. */
const PIECE = 100_000;
const TEXT = " the of and to in is was for";
const TOKENS = 12;
/** Tokens; the buffers of a longer one would exceed the binding. */
const CONTEXT = 128;

/** Loads a source in a fresh worker, has it write, and returns what came of it. */
async function run(page, query, source, options) {
  return await page.evaluate(
    async ({ query, source, options, text, tokens }) => {
      const engine = await window.Engine.start(query);
      try {
        const preflight = await engine.check(source, options);
        const model = await engine.load(source, options);
        const seen = [];
        const ids = [];
        await engine.generate(text, tokens, (event) => {
          if (event.type === "prompt") seen.push(...event.ids);
          if (event.type === "token") ids.push(event.id);
        });
        return { parts: preflight.largest.parts, refused: preflight.findings.filter(({ refuses }) => refuses), label: model.label, seen, ids };
      } finally {
        engine.end();
      }
    },
    { query, source, options: { context: CONTEXT, ...options }, text: TEXT, tokens: TOKENS },
  );
}

for (const processor of ["gpu", "cpu"]) {
  test.describe(`a scaled-down 8B on the ${processor.toUpperCase()}`, { tag: "@engine" }, () => {
    test.setTimeout(300_000);

    test.beforeEach(async ({ page, site }) => {
      await page.goto(new URL("bench.html", site).href);
    });

    test("GGUF, safetensors and shards of half precision write the same", async ({ page }) => {
      const whole = await run(page, { processor }, `/models/${NAME}.F16.gguf`);
      expect(whole.ids).toHaveLength(TOKENS);
      for (const source of [`/models/${NAME}.F16.gguf`, `/models/${NAME}/config.json`, `/models/${NAME}.f16/model.json`]) {
        const split = await run(page, { processor, binding: BINDING, piece: PIECE }, source);
        console.log(`${processor}: ${source}: ${split.label}, the largest tensor in ${split.parts} parts: ${split.ids.join(" ")}`);
        if (processor === "gpu") expect(split.parts, source).toBeGreaterThan(1);
        expect(split.refused, source).toEqual([]);
        expect(split.seen, source).toEqual(whole.seen);
        expect(split.ids, source).toEqual(whole.ids);
      }
    });

    test("4-bit shards write the same as safetensors that are quantized while they load", async ({ page }) => {
      const query = { processor, binding: BINDING, piece: PIECE };
      const shards = await run(page, query, `/models/${NAME}.q4/model.json`);
      const onTheWay = await run(page, query, `/models/${NAME}/config.json`, { recipe: "q4" });
      console.log(`${processor}: ${shards.label} and ${onTheWay.label}: ${shards.ids.join(" ")}`);
      if (processor === "gpu") expect(shards.parts).toBeGreaterThan(1);
      expect(shards.ids).toHaveLength(TOKENS);
      expect(onTheWay.seen).toEqual(shards.seen);
      expect(onTheWay.ids).toEqual(shards.ids);
      // Nor does it matter how the weights are split.
      const whole = await run(page, { processor }, `/models/${NAME}.q4/model.json`);
      expect(whole.ids).toEqual(shards.ids);
    });
  });
}
