// A model for each side: both in memory where they fit, taking turns where they do not.
import { readFileSync } from "node:fs";
import { good } from "../tools/gguf.js";
import { expect, test } from "./test.js";

// The smaller of the two, and so coarse that it writes something else.
const coarse = readFileSync(new URL("../fixtures/nano/nano-q2_k.gguf", import.meta.url));

/**
 * Loads a model on each side, has A, B and A write, and returns what was told. `share` is what both may
 * take together, measured in what B takes alone; without, there is no limit.
 */
async function turns(page, query, addresses, share) {
  return await page.evaluate(
    async ({ query, addresses, share }) => {
      const engine = await window.Engine.start(query);
      const told = [];
      const heard = (event) => {
        if (event.type === "residence") told.push(`${event.a} ${event.b}`);
      };
      const source = (url) => ({ type: "url", url: new URL(url, document.baseURI).href, token: null });
      const options = { recipe: null, context: 256, halfCache: false, keep: false, memoryLimit: null };
      const write = async (side) => {
        const ids = [];
        const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0 };
        const prompt = { type: "ids", ids: [1, 2, 3, 4] };
        const request = { type: "generate", job: 1, side, prompt, sampling, maxTokens: 8, alternatives: 0 };
        await engine.ask(request, "finished", (event) => {
          heard(event);
          if (event.type === "token") ids.push(event.id);
        });
        return ids.join(" ");
      };
      try {
        const load = (side, url) => engine.ask({ type: "load", source: source(url), sides: side, options }, "loaded", heard);
        await load("a", addresses[0]);
        const a = await write("a");
        if (share) {
          const check = { type: "check", source: source(addresses[1]), sides: "b", options };
          const { preflight } = await engine.ask(check, "checked");
          options.memoryLimit = share * (preflight.weightBytes + preflight.cacheBytes + preflight.workspaceBytes);
        }
        await load("b", addresses[1]);
        const after = told.at(-1);
        const b = await write("b");
        const again = await write("a");
        return { a, b, again, after, last: told.at(-1) };
      } finally {
        engine.end();
      }
    },
    { query, addresses, share },
  );
}

for (const processor of ["cpu", "gpu"]) {
  test.describe(`two models on the ${processor.toUpperCase()}`, { tag: "@engine" }, () => {
    test.setTimeout(180_000);

    test("stay together, or take turns and lose nothing", async ({ page, server, site }) => {
      const host = server.host({ "a.gguf": coarse, "b.gguf": good() });
      const addresses = ["a.gguf", "b.gguf"].map((name) => host.address(name));
      await page.goto(new URL("bench.html", site).href);
      const together = await turns(page, { processor }, addresses);
      expect(together.after).toBe("resident resident");
      expect(together.last).toBe("resident resident");
      expect(together.again).toBe(together.a);
      expect(together.b).not.toBe(together.a);
      const apart = await turns(page, { processor }, addresses, 1);
      expect(apart).toEqual({ ...together, after: "away resident", last: "resident away" });
    });
  });
}
