// A browser that offers no WebGPU: models run on the CPU, and everything else works. Browsers take WebGPU
// away from pages that come over plain http from another host, which a made-up host name for this machine
// shows.
import { chromium } from "./chromium.js";
import { continues } from "./cpu.js";
import { Playground, SIDES } from "./pages/playground.js";
import { complaints, expect, test } from "./test.js";

const HOST = "playground.test";

test.use(chromium([`--host-resolver-rules=MAP ${HOST} 127.0.0.1`]));

test("the page shows both formats", async ({ page, site }) => {
  const heard = complaints(page);
  const playground = new Playground(page, site.replace("127.0.0.1", HOST));
  await playground.open();
  expect(await page.evaluate(() => "gpu" in navigator)).toBe(false);
  for (const side of SIDES) expect((await playground.tokens(side)).length).toBeGreaterThan(0);
  expect(heard).toEqual([]);
});

test("models run on the CPU", { tag: "@engine" }, async ({ page, site }) => {
  test.setTimeout(300_000);
  const heard = complaints(page);
  const playground = new Playground(page, site.replace("127.0.0.1", HOST));
  await playground.open();
  await playground.model.open();
  await expect(playground.model.whyCpu).toContainText("https");
  await continues(playground);
  expect(heard).toEqual([]);
});

test("a browser that does not know it: models run on the CPU", { tag: "@engine" }, async ({ playground, page }) => {
  test.setTimeout(300_000);
  await page.addInitScript(() => delete Navigator.prototype.gpu);
  await playground.open();
  await playground.model.open();
  await expect(playground.model.whyCpu).toContainText("this browser offers no WebGPU");
  await continues(playground);
});
