// Chips and what holds them: long trajectories, long texts, directions, masks, keys.
import { SIDES } from "./pages/playground.js";
import { longFeedback, manyTurns, openSample, rightToLeft } from "./pages/sample.js";
import { expect, test } from "./test.js";

test.describe("a trajectory of more than 20,000 tokens", () => {
  test.beforeEach(async ({ playground }) => {
    await openSample(playground, manyTurns(230));
  });

  test("has few of its chips in the page, and counts all", async ({ playground }) => {
    for (const side of SIDES) {
      expect((await playground.counts(side)).tokens).toBeGreaterThan(20_000);
      const chips = await playground.chips(side).count();
      expect(chips).toBeGreaterThan(100);
      expect(chips).toBeLessThan(2_500);
    }
  });

  test("shows its last token at the end", async ({ playground }) => {
    const last = playground.page.locator(".turn").last();
    // Heights beyond the view are estimates, so the end may move while it is scrolled to.
    await expect(async () => {
      await playground.scroller().evaluate((rows) => rows.scrollTo(0, rows.scrollHeight));
      await expect(last.locator(".cell[data-side=chatml] .tk").last()).toBeInViewport({ timeout: 500 });
    }).toPass();
    const pieces = await last.locator(".cell[data-side=agenticml] .tk").evaluateAll((chips) => chips.map((chip) => chip.dataset.piece));
    expect(pieces.join("")).toMatch(/Part 229 was read well\.$/);
  });

  test("does not jump under the reader while it scrolls", async ({ playground, page }) => {
    const jump = await playground.scroller().evaluate(async (rows) => {
      const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const top = rows.getBoundingClientRect().top;
      let worst = 0;
      rows.scrollTo(0, rows.scrollHeight / 2);
      for (let at = 0; at < 10; at += 1) await frame();
      for (let at = 0; at < 40; at += 1) {
        const seen = [...rows.querySelectorAll(".turn")].find((turn) => turn.getBoundingClientRect().bottom > top + 40);
        const before = seen.getBoundingClientRect().top;
        rows.scrollBy(0, at % 2 ? -260 : -120);
        const wanted = seen.getBoundingClientRect().top;
        for (let wait = 0; wait < 4; wait += 1) await frame();
        worst = Math.max(worst, Math.abs(seen.getBoundingClientRect().top - wanted));
        if (wanted === before) break;
      }
      return worst;
    });
    expect(jump).toBeLessThan(2);
    expect(await page.locator(".rows .tk").count()).toBeGreaterThan(0);
  });

  test("is walked through by keys beyond what is in the page", async ({ playground, page }) => {
    await playground.chips("agenticml").first().click();
    let before = -1;
    for (let step = 0; step < 40; step += 1) {
      await page.keyboard.press("ArrowDown");
      await expect.poll(async () => (await playground.focusedChip())?.frame ?? -1).toBeGreaterThan(before);
      const chip = await playground.focusedChip();
      expect(chip.inView).toBe(true);
      before = chip.frame;
    }
    expect((await playground.focusedChip()).row).toBeGreaterThan(10);
    await page.keyboard.press("x");
    await expect.poll(async () => (await playground.focusedChip())?.side).toBe("chatml");
  });

  test("keeps the focus when its chip is scrolled away", async ({ playground }) => {
    await playground.chips("agenticml").nth(5).click();
    const { piece } = await playground.focusedChip();
    await playground.scroller().evaluate((rows) => rows.scrollTo(0, rows.scrollHeight / 2));
    await expect(playground.page.locator(".turn:nth-child(n+100) .tk").first()).toBeAttached();
    expect(await playground.focusedChip()).toMatchObject({ piece, inView: false });
  });

  test("brings a frame into view that is pinned in the editor", async ({ playground, page }) => {
    const frame = 2 + 5 * 150;
    await playground.card(frame).focus();
    await page.keyboard.press("Space");
    await expect(playground.lit("agenticml", frame).first()).toBeInViewport();
  });
});

test("a turn of thousands of tokens is built in parts, line by line", async ({ playground, page }) => {
  await openSample(playground, longFeedback(900));
  const { tokens } = await playground.counts("agenticml");
  expect(tokens).toBeGreaterThan(5_000);
  expect(await playground.chips("agenticml").count()).toBeLessThan(2_500);
  const turn = page.locator(".turn", { has: page.locator(".strip.part") });
  const middle = turn.locator(".cell[data-side=agenticml] .strip.part").nth(20);
  await middle.scrollIntoViewIfNeeded();
  await expect(middle.locator(".tk").first()).toBeVisible();
  // Walking over the border of a part.
  await middle.locator(".tk").last().click();
  await page.keyboard.press("ArrowRight");
  await expect.poll(async () => (await playground.focusedChip())?.inView).toBe(true);
  const next = turn.locator(".cell[data-side=agenticml] .strip.part").nth(21);
  await expect(next.locator(".tk").first()).toBeFocused();
});

test("a short trajectory is in the page as a whole", async ({ playground }) => {
  await openSample(playground, manyTurns(4));
  for (const side of SIDES) {
    expect(await playground.chips(side).count()).toBe((await playground.counts(side)).tokens);
  }
});

for (const [side, view] of [
  ["agenticml", "units"],
  ["chatml", "units"],
  ["agenticml", "wire"],
  ["chatml", "wire"],
]) {
  test(`a long text is folded on ${side} in view ${view}, and shown on request`, async ({ playground }) => {
    await openSample(playground, longFeedback(120));
    await playground.tab(side, view).click();
    const control = playground.showAll(side);
    await expect(control).toHaveText("Show all 120 lines");
    await expect(playground.rows(side).getByText("line 119 of a long text")).toHaveCount(0);
    await control.click();
    await expect(playground.rows(side).getByText("line 119 of a long text")).not.toHaveCount(0);
    await expect(control).toHaveAttribute("aria-expanded", "true");
  });
}

test("text from right to left stays inside its chip", async ({ playground }) => {
  await openSample(playground, rightToLeft());
  for (const side of SIDES) {
    const strips = await playground.rows(side).locator(".strip").evaluateAll((strips) =>
      strips.map((strip) => {
        const boxes = [...strip.querySelectorAll(".tk")].map((chip) => chip.getBoundingClientRect());
        // On a line each chip stands right of the one before it, whatever it says.
        const inOrder = boxes.every((box, at) => at === 0 || box.top > boxes[at - 1].top + 4 || box.left >= boxes[at - 1].right - 1);
        const isolated = [...strip.querySelectorAll(".tk")].every((chip) => getComputedStyle(chip).unicodeBidi === "isolate");
        return inOrder && isolated;
      }),
    );
    expect(strips.length).toBeGreaterThan(0);
    expect(strips.every(Boolean)).toBe(true);
  }
});

test("text from right to left is isolated in every other view", async ({ playground }) => {
  await openSample(playground, rightToLeft());
  const bidi = (parts) => parts.evaluateAll((all) => [...new Set(all.map((part) => getComputedStyle(part).unicodeBidi))]);
  for (const side of SIDES) {
    await playground.tab(side, "wire").click();
    await expect.poll(() => bidi(playground.rows(side).locator(".ws-sp"))).toEqual(["isolate"]);
    await playground.tab(side, "units").click();
    await expect.poll(() => bidi(playground.rows(side).locator(".bd :is(.str,.upart)"))).toEqual(["isolate"]);
  }
});

test("the mask tells trained, given and context apart, and moves nothing", async ({ playground, page }) => {
  await playground.open();
  const look = () =>
    playground.chips("chatml").evaluateAll((chips) =>
      chips.map((chip) => {
        const style = getComputedStyle(chip);
        const { x, y, width, height } = chip.getBoundingClientRect();
        const mask = chip.dataset.label === "-100" ? "context" : chip.classList.contains("gv") ? "given" : "trained";
        return { mask, special: chip.classList.contains("s"), fill: style.backgroundImage !== "none", dashed: style.borderTopStyle === "dashed", box: [x, y, width, height].join() };
      }),
    );
  const on = await look();
  expect(new Set(on.map(({ mask }) => mask))).toEqual(new Set(["context", "given", "trained"]));
  for (const { mask, special, fill, dashed } of on) {
    if (mask === "given") expect([fill, dashed]).toEqual([true, true]);
    if (mask === "trained" && !special) expect([fill, dashed]).toEqual([true, false]);
  }
  await page.keyboard.press("m");
  await expect(playground.rows("chatml").first()).not.toHaveClass(/\bmask\b/);
  const off = await look();
  expect(off.map(({ box }) => box)).toEqual(on.map(({ box }) => box));
});

test("given tokens are marked on the wire as well", async ({ playground }) => {
  await playground.open();
  await playground.tab("chatml", "wire").click();
  const given = playground.rows("chatml").locator(".ws-sp.gv").first();
  await expect(given).toHaveCSS("text-decoration-style", "dashed");
});

test("keys walk tokens and frames, cross over and pin", async ({ playground, page }) => {
  await playground.open();
  await playground.chips("agenticml").nth(3).click();
  const start = await playground.focusedChip();
  await page.keyboard.press("ArrowRight");
  await expect(playground.chips("agenticml").nth(4)).toBeFocused();
  await page.keyboard.press("Home");
  await expect.poll(async () => (await playground.focusedChip())?.frame).toBe(start.frame);
  await page.keyboard.press("ArrowDown");
  await expect.poll(async () => (await playground.focusedChip())?.frame).toBe(start.frame + 1);
  await page.keyboard.press("x");
  await expect.poll(playground.focusedChip.bind(playground)).toMatchObject({ side: "chatml", frame: start.frame + 1 });
  await page.keyboard.press("p");
  await expect(playground.card(start.frame + 1)).toHaveClass(/\bpinned\b/);
  await page.keyboard.press("Escape");
  await expect(playground.card(start.frame + 1)).not.toHaveClass(/\bpinned\b/);
});

test("single-character keys can be switched off, and stay off", async ({ playground, page }) => {
  await playground.open();
  await page.keyboard.press("?");
  await page.getByRole("switch", { name: "Single-character keys" }).click();
  await page.keyboard.press("Escape");
  await page.reload();
  await expect(playground.chips("agenticml").first()).toBeAttached();
  await page.keyboard.press("m");
  await page.keyboard.press("2");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(playground.rows("agenticml").first()).toHaveClass(/\bmask\b/);
  await expect(playground.tab("agenticml", "tokens")).toHaveAttribute("aria-selected", "true");
  // Keys that are no characters go on.
  await playground.chips("agenticml").first().click();
  await page.keyboard.press("ArrowRight");
  await expect(playground.chips("agenticml").nth(1)).toBeFocused();
});
