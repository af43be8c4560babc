// The costs: every figure is counted from what is shown.
import { SIDES } from "./pages/playground.js";
import { expect, test } from "./test.js";

const LATE = {
  title: "late",
  frames: [
    { type: "goal", content: "You look at things." },
    { type: "obs", content: "It is noon." },
    { type: "mission", content: "Which colour is the sky?" },
    { type: "action", content: { tool: "look", at: "sky" } },
    { type: "end", content: null },
    { type: "result", content: { tool: "look", value: "blue" } },
    { type: "obs", content: "It is night now." },
    { type: "action", content: { tool: "answer", text: "Blue." } },
    { type: "end", content: null },
  ],
};

/** The cells of a table's rows as text. */
const rows = (table, part = "tbody") =>
  table.locator(`${part} tr`).evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
const number = (text) => Number(text.replace("−", "-").replace("+", ""));

/** What the chips of a side say about each frame. */
async function ofChips(playground, side) {
  const chips = await playground.chips(side).evaluateAll((all) =>
    all.map((chip) => ({ frame: chip.closest("[data-frame]")?.dataset.frame, trained: chip.dataset.label !== "-100" })),
  );
  const frames = {};
  for (const { frame, trained } of chips) {
    frames[frame] ??= { tokens: 0, trained: 0 };
    frames[frame].tokens += 1;
    frames[frame].trained += trained;
  }
  return frames;
}

test("the table by frame counts the chips", async ({ playground, page }) => {
  await playground.open();
  await page.getByTestId("costs-frames").click();
  const table = page.getByTestId("frame-costs");
  const counted = await rows(table);
  const [sum] = await rows(table, "tfoot");
  for (const [at, side] of SIDES.entries()) {
    const chips = await ofChips(playground, side);
    const first = 1 + 4 * at;
    for (const [frame, row] of counted.slice(0, -1).entries()) {
      const { tokens, trained } = chips[frame] ?? { tokens: 0, trained: 0 };
      expect([row[first], row[first + 2]].map(number), `${side}, frame ${frame}`).toEqual([tokens, trained]);
    }
    const total = await playground.counts(side);
    expect(number(sum[first])).toBe(total.tokens);
    expect(number(sum[first + 2])).toBe(total.trained);
    expect(counted.reduce((all, row) => all + number(row[first]), 0)).toBe(total.tokens);
    expect(counted.reduce((all, row) => all + number(row[first + 1]), 0)).toBe(number(sum[first + 1]));
  }
});

test("rows light their frame up, by pointer and by keys", async ({ playground, page }) => {
  await playground.open();
  await page.getByTestId("costs-frames").click();
  const row = (frame) => page.getByTestId("frame-costs").locator(`tr[data-frame="${frame}"]`);
  await row(2).hover();
  await expect(playground.card(2)).toHaveClass(/\blk\b/);
  await page.mouse.move(5, 5);
  await row(0).focus();
  await expect(playground.card(0)).toHaveClass(/\blk\b/);
  await page.keyboard.press("ArrowDown");
  await expect(row(1)).toBeFocused();
  await expect(playground.card(1)).toHaveClass(/\blk\b/);
  await row(3).click();
  await expect(playground.card(3)).toHaveClass(/pinned/);
  await expect(row(3)).toHaveClass(/\blk\b/);
});

test("the sentence and the parts add up to the difference", async ({ playground, page }) => {
  await playground.open();
  const [a, b] = await Promise.all(SIDES.map((side) => playground.counts(side)));
  await expect(page.getByTestId("cost-sentence")).toContainText(`B costs ${b.tokens - a.tokens} more`);
  await expect(page.getByTestId("cost-sentence")).toContainText(`Trained: ${a.trained} on A`);
  await page.getByTestId("costs-why").click();
  await expect(page.getByTestId("difference")).toContainText(`B needs ${b.tokens - a.tokens} tokens more than A`);
  const parts = await rows(page.getByTestId("parts"));
  const sum = (column) => parts.reduce((all, row) => all + number(row[column]), 0);
  expect([sum(1), sum(2), sum(3)]).toEqual([a.tokens, b.tokens, b.tokens - a.tokens]);
});

test("the cache keeps what is appended to", async ({ playground, page }) => {
  await playground.open();
  await page.getByTestId("costs-cache").click();
  for (const side of SIDES) {
    const turns = await rows(page.getByTestId(`cache-${side}`));
    expect(turns).toHaveLength(2);
    const [first, second] = turns.map((cells) => cells.slice(1).map(number));
    expect(first.slice(1)).toEqual([0, first[0], 0]);
    expect(second[0]).toBe(second[1] + second[2]);
    expect(second[1]).toBeGreaterThan(first[0]);
    expect(second[3]).toBe(0);
  }
  await expect(page.getByTestId("cache-sentence")).toContainText("no cache is lost");
});

test("a late observation costs side B its cache, and the sentence says so", async ({ playground, page }) => {
  await page.route(/\/samples\/index\.json$/, (route) => route.fulfill({ json: [{ file: "late.json", title: "late", domain: "d", about: "a" }] }));
  await page.route(/\/samples\/late\.json$/, (route) => route.fulfill({ json: LATE }));
  await playground.open();
  await page.getByTestId("costs-cache").click();
  await expect(page.getByTestId("sample").locator("option")).toHaveCount(2);
  await page.getByTestId("sample").selectOption("1");
  await expect(page.getByTestId("cache-sentence")).toContainText("B changes earlier text");
  const lost = async (side) => number((await rows(page.getByTestId(`cache-${side}`)))[1][4]);
  expect(await lost("agenticml")).toBe(0);
  expect(await lost("chatml")).toBeGreaterThan(0);
});

test("choosing a section moves nothing", async ({ playground, page }) => {
  await playground.open();
  const box = () => page.locator(".dock").boundingBox();
  const first = await box();
  for (const section of ["frames", "cache", "why", "kinds"]) {
    await page.getByTestId(`costs-${section}`).click();
    expect(await box(), section).toEqual(first);
  }
  await page.getByTestId("costs-kinds").focus();
  await page.keyboard.press("ArrowDown");
  await expect(page.getByTestId("costs-frames")).toBeFocused();
  await expect(page.getByTestId("frame-costs")).toBeVisible();
});

test("all sections are there on a phone", async ({ playground, page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await playground.open();
  await page.getByTestId("pane-costs").click();
  for (const section of ["frames", "cache", "why", "kinds"]) {
    await page.getByTestId(`costs-${section}`).click();
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    expect(width, section).toBeLessThanOrEqual(390);
  }
});
