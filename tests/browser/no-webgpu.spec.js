// Browsers without WebGPU: models cannot run, everything else does.
import { chromium } from "./chromium.js";
import { expect, test } from "./test.js";

test.describe("a browser that knows no WebGPU", () => {
  test.use(chromium(["--disable-features=WebGPU", "--disable-blink-features=WebGPU"]));

  test("says so and shows both formats", async ({ playground, page }) => {
    await playground.open();
    expect(await page.evaluate(() => "gpu" in navigator)).toBe(false);
    for (const side of ["agenticml", "chatml"]) expect((await playground.tokens(side)).length).toBeGreaterThan(0);
    await playground.model.open();
    await expect(page.getByTestId("no-webgpu").first()).toContainText("no WebGPU");
  });
});

test.describe("a browser without a usable GPU", { tag: "@engine" }, () => {
  test.use({ ...chromium([]), tolerated: [/No available adapters/] });

  test("says so when a model is asked for", async ({ playground }) => {
    await playground.open();
    await playground.model.open();
    await playground.model.load("/faults/good.gguf");
    await playground.model.failed("NoGpu", /WebGPU|GPU/);
    expect((await playground.tokens("chatml")).length).toBeGreaterThan(0);
  });
});
