// A browser that knows WebGPU on a machine without a usable GPU.
import { chromium } from "./chromium.js";
import { expect, test } from "./test.js";

test.use({ ...chromium([]), tolerated: [/No available adapters/] });

test("the page says so when a model is asked for", { tag: "@engine" }, async ({ playground }) => {
  await playground.open();
  await playground.model.open();
  await playground.model.load("/faults/good.gguf");
  await playground.model.failed("NoGpu", /WebGPU|GPU/);
  expect((await playground.tokens("chatml")).length).toBeGreaterThan(0);
});
