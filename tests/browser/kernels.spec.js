// The GPU kernels against plain arithmetic, in the browser's own WebGPU: Tint accepts what naga does not,
// and the other way round.
import { expect, test } from "./test.js";

for (const spread of ["rows", "lanes"]) {
  test(`kernels agree with plain arithmetic: ${spread}`, { tag: "@engine" }, async ({ page, site }) => {
    test.setTimeout(300_000);
    await page.goto(new URL("check.html", site).href);
    await page.waitForFunction(() => window.check);
    const cases = await page.evaluate((spread) => window.check(spread), spread);
    expect(cases.length).toBeGreaterThan(50);
    expect(cases.filter((it) => !it.holds)).toEqual([]);
  });
}
