// The two sides: tokens, masks, links, layout. No model is needed.
import { readFileSync } from "node:fs";
import { SIDES } from "./pages/playground.js";
import { expect, test } from "./test.js";

/** Ids and labels of the first sample, from the reference implementation's tokenizer and masks. */
const expected = JSON.parse(readFileSync(new URL("expected/main-py.json", import.meta.url)));

test("content is there soon", async ({ playground, page }) => {
  await page.goto(playground.site);
  await expect(playground.chips("chatml").first()).toBeVisible();
  const { paint, tokens } = await page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    tokens: performance.now(),
  }));
  console.log(`first content after ${paint.toFixed(0)} ms, tokens seen after ${tokens.toFixed(0)} ms`);
  // Far above what is measured: a busy machine must not fail the test.
  expect(paint).toBeLessThan(5_000);
});

for (const side of SIDES) {
  test(`${side} shows the reference's token ids`, async ({ playground }) => {
    await playground.open();
    const tokens = await playground.tokens(side);
    expect(tokens.map((token) => token.id)).toEqual(expected[side].ids);
  });

  test(`${side} shows the reference's mask`, async ({ playground }) => {
    await playground.open();
    const tokens = await playground.tokens(side);
    expect(tokens.map((token) => token.label)).toEqual(expected[side].labels);
  });

  test(`${side} counts what it shows`, async ({ playground }) => {
    await playground.open();
    const tokens = await playground.tokens(side);
    expect(await playground.counts(side)).toEqual({
      tokens: tokens.length,
      trained: tokens.filter((token) => token.label !== -100).length,
    });
  });

  test(`${side}: the pieces of the chips are the wire`, async ({ playground }) => {
    await playground.open();
    const pieces = (await playground.tokens(side)).map((token) => token.piece).join("");
    await playground.tab(side, "wire").click();
    const wire = playground.rows(side).locator(".wire");
    await expect(wire.first()).toBeVisible();
    const readable = playground.page.getByRole("switch", { name: "Readable" });
    if ((await readable.count()) && (await readable.getAttribute("aria-checked")) === "true") await readable.click();
    const text = (await wire.allTextContents()).join("");
    // The wire shows line ends and tabs by signs; the tokens' own text has them as they are.
    const plain = (shown) => shown.replace(/[↵⇥·\s]/g, "");
    expect(plain(text)).toBe(plain(pieces));
  });
}

test("only the model's tokens are trained on side A", async ({ playground }) => {
  await playground.open();
  for (const token of await playground.tokens("agenticml")) {
    expect(token.label !== -100).toBe(token.owner === "model");
  }
});

test("pointing at a token lights its frame up everywhere", async ({ playground }) => {
  await playground.open();
  const frame = 3;
  await playground.rows("agenticml").locator(`[data-token-id][data-frame="${frame}"]`).first().hover();
  for (const side of SIDES) await expect(playground.lit(side, frame).first()).toBeVisible();
  await expect(playground.card(frame)).toHaveClass(/\blk\b/);
  await expect(playground.card(0)).not.toHaveClass(/\blk\b/);
});

test("pointing at a card lights its tokens up on both sides", async ({ playground }) => {
  await playground.open();
  await playground.card(5).hover();
  for (const side of SIDES) await expect(playground.lit(side, 5).first()).toBeAttached();
});

test("another sample brings other tokens", async ({ playground, page }) => {
  await playground.open();
  const before = await playground.tokens("agenticml");
  const samples = page.getByTestId("sample");
  const others = await samples.locator("option").evaluateAll((options) => options.map((option) => option.value));
  await samples.selectOption(others.at(-1));
  await expect.poll(async () => (await playground.tokens("agenticml")).length).not.toBe(before.length);
  const tokens = await playground.tokens("chatml");
  expect((await playground.counts("chatml")).tokens).toBe(tokens.length);
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true });

  test("nothing is wider than the screen", async ({ playground, page }) => {
    await playground.open();
    for (const pane of ["edit", "wire", "tokens", "live", "costs", "model"]) {
      await page.getByTestId(`pane-${pane}`).click();
      const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
      expect(width, pane).toBeLessThanOrEqual(390);
    }
  });

  test("each turn shows both sides, one above the other", async ({ playground, page }) => {
    await playground.open();
    await page.getByTestId("pane-tokens").click();
    const turn = page.locator(".turn").first();
    const [above, below] = await Promise.all(
      SIDES.map((side) => turn.locator(`.cell[data-side="${side}"]`).boundingBox()),
    );
    expect(below.y).toBeGreaterThanOrEqual(above.y + above.height);
  });
});

test.describe("in the dark", () => {
  test.use({ colorScheme: "dark" });

  test("the page is dark", async ({ playground, page }) => {
    await playground.open();
    const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const [red, green, blue] = background.match(/\d+/g).map(Number);
    expect(Math.max(red, green, blue)).toBeLessThan(64);
  });
});
