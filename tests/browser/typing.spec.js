// Typing in a frame: both sides follow, and nothing that did not change is built again.
import { Playground, SIDES } from "./pages/playground.js";
import { manyTurns, openSample } from "./pages/sample.js";
import { expect, test } from "./test.js";

/** Opens a frame's content in the editor, the cursor at its end. */
async function edit(playground, frame) {
  const card = playground.card(frame);
  await card.focus();
  await playground.page.keyboard.press("Enter");
  await expect(card.locator("textarea")).toBeFocused();
  await playground.page.keyboard.press("Control+End");
}

test("both sides show what is typed, token by token as if it had always been there", async ({ playground, page, browser }) => {
  const frames = manyTurns(5);
  await openSample(playground, frames);
  const feedback = 6;
  await edit(playground, feedback);
  await page.keyboard.type("and the end");
  const typed = {};
  for (const side of SIDES) {
    await expect.poll(async () => (await playground.tokens(side)).map(({ piece }) => piece).join("")).toContain("and the end");
    typed[side] = await playground.tokens(side);
  }
  const edited = frames.map((frame, at) => (at === feedback ? { ...frame, content: `${frame.content}and the end` } : frame));
  // Another browser, in which nothing is kept.
  const other = await browser.newContext();
  const fresh = new Playground(await other.newPage(), playground.site);
  await openSample(fresh, edited);
  for (const side of SIDES) expect(await fresh.tokens(side)).toEqual(typed[side]);
  await other.close();
});

test("what was not edited stays as it was built", async ({ playground, page }) => {
  await openSample(playground, manyTurns(5));
  const mark = (frame) =>
    playground.rows("agenticml").locator(`.sp[data-frame="${frame}"]`).first().evaluate((span) => {
      span.dataset.kept = "yes";
    });
  for (const frame of [5, 8]) await mark(frame);
  await edit(playground, 6);
  await page.keyboard.type("!");
  await expect(playground.rows("agenticml").locator(".sp[data-frame='6']").first()).toContainText("!");
  for (const frame of [5, 8]) {
    await expect(playground.rows("agenticml").locator(`.sp[data-frame="${frame}"]`).first()).toHaveAttribute("data-kept", "yes");
  }
});

test("chips of a changed row know their place", async ({ playground, page }) => {
  await openSample(playground, manyTurns(3));
  await edit(playground, 2);
  await page.keyboard.type(" more words here");
  await page.keyboard.press("Escape");
  const action = playground.rows("agenticml").locator(".tk[data-frame='3']").nth(2);
  await action.click();
  await page.keyboard.press("ArrowRight");
  await expect(playground.rows("agenticml").locator(".tk[data-frame='3']").nth(3)).toBeFocused();
});
