// A browser that offers no WebGPU: models cannot run, everything else does. Browsers take WebGPU away from
// pages that come over plain http from another host, which a made-up host name for this machine shows.
import { chromium } from "./chromium.js";
import { Playground, SIDES } from "./pages/playground.js";
import { complaints, expect, test } from "./test.js";

const HOST = "playground.test";

test.use(chromium([`--host-resolver-rules=MAP ${HOST} 127.0.0.1`]));

test("the page says so and shows both formats", async ({ page, site }) => {
  const heard = complaints(page);
  const playground = new Playground(page, site.replace("127.0.0.1", HOST));
  await playground.open();
  expect(await page.evaluate(() => "gpu" in navigator)).toBe(false);
  for (const side of SIDES) expect((await playground.tokens(side)).length).toBeGreaterThan(0);
  await playground.model.open();
  await expect(page.getByTestId("no-webgpu").first()).toContainText("no WebGPU");
  expect(heard).toEqual([]);
});
