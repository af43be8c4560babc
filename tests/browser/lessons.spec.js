// Lessons: their list, presenter mode, the way into the playground and back.
import { Lessons } from "./pages/lessons.js";
import { SIDES } from "./pages/playground.js";
import { expect, test } from "./test.js";

const SCREEN = { width: 1280, height: 720 };

test.beforeEach(async ({ page }) => await page.setViewportSize(SCREEN));

test("the list names every lesson, and a click opens its first page", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  await lessons.openList();
  const index = await lessons.index();
  expect(index).toHaveLength(8);
  for (const { id, title, about } of index) {
    await expect(lessons.entry(id)).toContainText(title);
    await expect(lessons.entry(id)).toContainText(about);
  }
  await lessons.entry(index[1].id).click();
  await lessons.at(1);
  await expect(page).toHaveURL(new RegExp(`#lessons/${index[1].id}/1$`));
});

test("every page of every lesson fits 1280 by 720", async ({ playground, page }) => {
  test.slow();
  const lessons = new Lessons(page, playground.site);
  await lessons.openList();
  const misfits = {};
  for (const { id, pages } of await lessons.index()) {
    await lessons.open(id);
    for (let number = 1; number <= pages; number++) {
      if (number > 1) await page.keyboard.press("ArrowRight");
      await lessons.at(number);
      const found = await lessons.misfits();
      if (found.length) misfits[`${id}/${number}`] = found;
      // A dash in the prose would be a count that was not made.
      await expect(lessons.body.locator(".prose .fig", { hasText: "—" })).toHaveCount(0);
    }
  }
  expect(misfits).toEqual({});
});

test("keys turn pages, to either end and not beyond the first", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  await lessons.open("training");
  const pages = (await lessons.index()).find(({ id }) => id === "training").pages;
  await page.keyboard.press("ArrowLeft");
  await lessons.at(1);
  const steps = [["ArrowRight", 2], ["PageDown", 3], ["PageUp", 2], ["ArrowLeft", 1], ["End", pages], ["Home", 1]];
  for (const [key, number] of steps) {
    await page.keyboard.press(key);
    await lessons.at(number);
    await expect(page).toHaveURL(new RegExp(`#lessons/training/${number}$`));
  }
  // Space presses Next, which has the focus.
  await expect(lessons.next).toBeFocused();
  await page.keyboard.press("Space");
  await lessons.at(2);
  await expect(lessons.next).toBeFocused();
  await expect(page.locator('.stage [aria-live="polite"]')).toContainText("Page 2 of");
});

test("the last page leads on to the next lesson", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  const index = await lessons.index();
  await lessons.open(index[0].id, index[0].pages);
  await lessons.next.click();
  await expect(page).toHaveURL(new RegExp(`#lessons/${index[1].id}/1$`));
  await lessons.at(1);
});

test("Esc opens what the page shows, with the counts it told", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  await lessons.open("training", 2);
  const told = {};
  for (const side of SIDES) told[side] = await lessons.counts(side);
  await page.keyboard.press("Escape");
  await expect(playground.card(3)).toBeVisible();
  for (const side of SIDES) {
    await expect(playground.chips(side).first()).toBeVisible();
    expect(await playground.counts(side)).toEqual(told[side]);
    await expect(playground.lit(side, 3).first()).toBeVisible();
  }
  // The browser's back button returns to the page.
  await page.goBack();
  await lessons.at(2);
});

test("what was there before a lesson can be had back", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  await playground.open();
  const before = await playground.tokens("agenticml");
  await page.goto(`${playground.site}#lessons/loop/3`);
  await lessons.at(3);
  await page.keyboard.press("Escape");
  await expect(playground.tab("agenticml", "units")).toHaveAttribute("aria-selected", "true");
  const back = page.getByTestId("lesson-return");
  await expect(back.getByRole("link", { name: "Back to the lesson" })).toHaveAttribute("href", "#lessons/loop/3");
  await page.getByTestId("lesson-restore").click();
  await expect(back).toHaveCount(0);
  await expect(playground.tab("agenticml", "tokens")).toHaveAttribute("aria-selected", "true");
  expect(await playground.tokens("agenticml")).toEqual(before);
});

test("the reference's forged markers are trained on, the playground's are not", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  await lessons.open("faults", 1);
  const trained = lessons.body.locator(".forged [data-label]:not([data-label='-100'])");
  await expect(lessons.body.locator(".forged [data-token-id]").first()).toBeVisible();
  await expect(trained).toHaveCount(0);
  await page.keyboard.press("ArrowRight");
  await lessons.at(2);
  await expect(trained.first()).toBeVisible();
  await expect(lessons.body.locator(".forged .tk.s").first()).toHaveAttribute("data-token-id", "128015");
});

test("published figures are marked as quoted, ours as not run", async ({ playground, page }) => {
  const lessons = new Lessons(page, playground.site);
  await lessons.open("study", 2);
  const rates = lessons.body.locator("figure.quoted");
  await expect(rates).toContainText("quoted");
  await expect(rates.getByRole("img", { name: "60.0 %, 95 % interval 45.5 % to 73.0 %" })).toBeVisible();
  await expect(page.getByTestId("lesson-source")).toContainText("model cards, June 2026");
  await page.keyboard.press("End");
  await expect(lessons.body.getByText("not run yet", { exact: true })).toBeVisible();
  await expect(lessons.body.locator(".ci.hole").first()).toBeVisible();
  expect(await lessons.body.locator(".not-run td").allTextContents()).not.toContain("0");
});

test.describe("a broken lesson", () => {
  test.use({ tolerated: [/404/] });

  test("says what is wrong and where", async ({ playground, page }) => {
    const lessons = new Lessons(page, playground.site);
    const lesson = await (await page.request.get(new URL("lessons/owners.json", playground.site).href)).json();
    lesson.pages[1].panels[0].side = "C";
    await page.route("**/lessons/owners.json", (route) => route.fulfill({ json: lesson }));
    await page.goto(`${playground.site}#lessons/owners/1`);
    const trouble = page.getByTestId("lesson-trouble");
    await expect(trouble).toContainText('owners.json, pages[1].panels[0].side: "A" or "B" is expected');
    await page.goto(`${playground.site}#lessons/no-such-lesson/1`);
    await expect(trouble).toContainText("no-such-lesson.json");
    await trouble.getByRole("link", { name: "All lessons" }).click();
    await expect(lessons.entry("owners")).toBeVisible();
  });
});

test("a phone shows a page without scrolling aside", async ({ playground, page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  const lessons = new Lessons(page, playground.site);
  for (const [id, number] of [["training", 2], ["frames", 4], ["study", 2], ["study", 6], ["wires", 1]]) {
    await lessons.open(id, number);
    expect(await lessons.body.evaluate((body) => body.scrollWidth - body.clientWidth)).toBe(0);
    expect(await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth)).toBe(0);
  }
});
