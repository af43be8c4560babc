// A browser that knows WebGPU on a machine without a usable GPU: models run on the CPU.
import { chromium } from "./chromium.js";
import { continues } from "./cpu.js";
import { expect, test } from "./test.js";

test.use({ ...chromium([]), tolerated: [/No available adapters/] });

test("models run on the CPU", { tag: "@engine" }, async ({ playground }) => {
  test.setTimeout(300_000);
  await playground.open();
  await playground.model.open();
  await expect(playground.model.whyCpu).toContainText("offers no GPU");
  await continues(playground);
});

test("who insists on the GPU is told", { tag: "@engine" }, async ({ playground }) => {
  await playground.open();
  await playground.model.open();
  await playground.model.runOn("gpu");
  await playground.model.failed("NoGpu", /GPU/);
  expect((await playground.tokens("chatml")).length).toBeGreaterThan(0);
});
