// One model in all the forms that it comes in, with limits so low that everything is split: the same tokens.
// It has the shape of Llama 3.1 8B, scaled down; `cargo xtask test` makes its files.
import { expect, test } from "./test.js";

const NAME = "random-nano-8b";
/** Bytes that a binding holds at most: less than each matrix of weights has. */
const BINDING = 64 << 10;
/** Bytes of a piece. */
const PIECE = 100_000;
const TEXT = " the of and to in is was for";
const TOKENS = 8;
/** Tokens; the buffers of a longer one would exceed the binding. */
const CONTEXT = 128;

/** Loads models in turn in a fresh worker, has each write, and returns what came of it. */
async function run(page, query, models) {
  return await page.evaluate(
    async ({ query, models, text, tokens }) => {
      const engine = await window.Engine.start(query);
      const results = [];
      try {
        for (const { source, recipe = null } of models) {
          // A cache of it fits in one of the small bindings.
          const options = { recipe, context: 128 };
          const { largest, findings } = await engine.check(source, options);
          const { label } = await engine.load(source, options);
          const seen = [];
          const ids = [];
          await engine.generate(text, tokens, (event) => {
            if (event.type === "prompt") seen.push(...event.ids);
            if (event.type === "token") ids.push(event.id);
          });
          results.push({ label, parts: largest.parts, findings: findings.map(({ message }) => message), seen, ids });
        }
      } finally {
        engine.end();
      }
      return results;
    },
    { query, models, text: TEXT, tokens: TOKENS },
  );
}

for (const processor of ["gpu", "cpu"]) {
  test.describe(`a scaled-down 8B on the ${processor.toUpperCase()}`, { tag: "@engine" }, () => {
    test.setTimeout(300_000);

    /** Runs models with the low limits, and the first of them also with the usual ones: all must agree. */
    const agree = async (page, models) => {
      const [whole] = await run(page, { processor }, models.slice(0, 1));
      expect(whole.ids).toHaveLength(TOKENS);
      for (const split of await run(page, { processor, binding: BINDING, piece: PIECE }, models)) {
        console.log(`${processor}: ${split.label}, the largest tensor in ${split.parts} parts: ${split.ids.join(" ")}`);
        if (processor === "gpu") expect(split.parts, split.label).toBeGreaterThan(1);
        expect(split.findings, split.label).toEqual([]);
        expect(split.seen, split.label).toEqual(whole.seen);
        expect(split.ids, split.label).toEqual(whole.ids);
      }
    };

    test.beforeEach(async ({ page, site }) => {
      await page.goto(new URL("bench.html", site).href);
    });

    test("GGUF, safetensors and shards of half precision write the same", async ({ page }) => {
      await agree(page, [
        { source: `/models/${NAME}.F16.gguf` },
        { source: `/models/${NAME}/config.json` },
        { source: `/models/${NAME}.f16/model.json` },
      ]);
    });

    test("4-bit shards write the same as safetensors that are quantized while they load", async ({ page }) => {
      await agree(page, [
        { source: `/models/${NAME}.q4/model.json` },
        { source: `/models/${NAME}/config.json`, recipe: "q4" },
      ]);
    });
  });
}
