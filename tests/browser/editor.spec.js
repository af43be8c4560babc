// The trajectory editor: one behaviour each.
import { Editor } from "./pages/editor.js";
import { expect, test } from "./test.js";

/** The kinds of the first sample. */
const FIRST = ["goal", "obs", "mission", "action", "end", "result", "belief", "action", "end"];

async function open(playground) {
  await playground.open();
  const editor = new Editor(playground.page);
  await editor.expectKinds(FIRST);
  return editor;
}

/** A copy of the first kinds with a change. */
function changed(change) {
  const kinds = [...FIRST];
  change(kinds);
  return kinds;
}

test("a frame is added at the end with the button below the cards", async ({ playground, page }) => {
  const editor = await open(playground);
  await page.getByTestId("add-end").click();
  await editor.choose("plan");
  await editor.expectKinds([...FIRST, "plan"]);
  await expect(editor.field(9)).toBeFocused();
  await page.keyboard.type("Count again.");
  await expect(playground.rows("agenticml").locator('[data-frame="9"]').first()).toBeAttached();
});

test("a frame is added between two cards with the mouse", async ({ playground }) => {
  const editor = await open(playground);
  await editor.card(3).getByRole("button", { name: "Add a frame before frame 3" }).click();
  await editor.choose("think");
  await editor.expectKinds(changed((kinds) => kinds.splice(3, 0, "think")));
});

test("a frame is added with the keyboard alone", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(2).focus();
  await page.keyboard.press("a");
  await expect(editor.menu).toBeVisible();
  await page.keyboard.press("t");
  await page.keyboard.press("Enter");
  await editor.expectKinds(changed((kinds) => kinds.splice(3, 0, "think")));
  await expect(editor.field(3)).toBeFocused();
});

test("a new result takes the tool of the action it answers", async ({ playground }) => {
  const editor = await open(playground);
  await editor.card(5).getByRole("button", { name: "Add a frame before frame 5" }).click();
  await editor.choose("result");
  await expect(editor.field(5)).toHaveValue('{"tool": "read_file", "value": ""}');
});

test("a frame is deleted, and undo brings it back", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(6).focus();
  await page.keyboard.press("Delete");
  await editor.expectKinds(changed((kinds) => kinds.splice(6, 1)));
  await expect(editor.card(6)).toBeFocused();
  await page.keyboard.press("Control+z");
  await editor.expectKinds(FIRST);
  await expect(editor.content(6)).toHaveText("main.py has 2 lines.");
});

test("a frame is duplicated from its menu", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.more(2);
  await page.getByTestId("do-duplicate").click();
  await editor.expectKinds(changed((kinds) => kinds.splice(3, 0, "mission")));
  await expect(editor.content(3)).toHaveText("How many lines are in main.py?");
});

test("a frame becomes one of another kind and keeps its words", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(6).focus();
  await page.keyboard.press("k");
  await editor.choose("think");
  await editor.expectKinds(changed((kinds) => kinds.splice(6, 1, "think")));
  await expect(editor.content(6)).toHaveText("main.py has 2 lines.");
});

test("Alt and an arrow move a frame, focus and pin with it, and say so", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(6).click();
  await editor.card(6).focus();
  await page.keyboard.press("Alt+ArrowUp");
  await editor.expectKinds(["goal", "obs", "mission", "action", "end", "belief", "result", "action", "end"]);
  await expect(editor.card(5)).toBeFocused();
  await expect(editor.card(5)).toHaveClass(/\bpinned\b/);
  await expect(page.locator("[aria-live]").filter({ hasText: "Moved belief to place 6 of 9" })).toBeAttached();
});

test("a frame is dragged by its rail to where the line is", async ({ playground }) => {
  const editor = await open(playground);
  await editor.drag(6, 3);
  await editor.expectKinds(["goal", "obs", "mission", "belief", "action", "end", "result", "action", "end"]);
});

test("Escape ends a drag and nothing moves", async ({ playground, page }) => {
  const editor = await open(playground);
  const from = await editor.card(6).locator(".rail").boundingBox();
  await page.mouse.move(from.x + 8, from.y + 8);
  await page.mouse.down();
  await page.mouse.move(from.x + 8, from.y - 60, { steps: 4 });
  await expect(editor.list.locator(".drop-line")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(editor.list.locator(".drop-line")).toBeHidden();
  await page.mouse.up();
  await editor.expectKinds(FIRST);
});

test("what was typed is a step back, and forth", async ({ playground, page }) => {
  const editor = await open(playground);
  await expect(editor.undo).toBeDisabled();
  await editor.write(2, "How many words?");
  await page.keyboard.press("Escape");
  await expect(editor.content(2)).toHaveText("How many words?");
  await editor.undo.click();
  await expect(editor.content(2)).toHaveText("How many lines are in main.py?");
  await editor.redo.click();
  await expect(editor.content(2)).toHaveText("How many words?");
});

test("Ctrl Z in a field is the field's own", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(6).focus();
  await page.keyboard.press("Delete");
  await editor.expectKinds(changed((kinds) => kinds.splice(6, 1)));
  await editor.card(2).focus();
  await page.keyboard.press("Enter");
  await expect(editor.field(2)).toBeFocused();
  await page.keyboard.type("x");
  await page.keyboard.press("Control+z");
  await expect(editor.field(2)).toHaveValue("How many lines are in main.py?");
  await editor.expectKinds(changed((kinds) => kinds.splice(6, 1)));
});

test("opening a sample is a step that undo takes back, edits and all", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.write(2, "My own question");
  const samples = page.getByTestId("sample");
  const before = await samples.inputValue();
  const others = await samples.locator("option").evaluateAll((options) => options.map((option) => option.value));
  await samples.selectOption(others.find((value) => value !== before));
  await expect(editor.cards.getByText("My own question")).toHaveCount(0);
  await editor.undo.click();
  await editor.expectKinds(FIRST);
  await expect(editor.content(2)).toHaveText("My own question");
  await expect(samples).toHaveValue(before);
});

test("an error in JSON is marked where it is, and both sides keep the last good content", async ({ playground, page }) => {
  const editor = await open(playground);
  const before = await playground.tokens("agenticml");
  await editor.write(3, '{"tool": "read_file",\n "path" "main.py"}');
  await expect(editor.card(3)).toContainText("Line 2, column 9");
  await expect(editor.card(3).locator(".mirror mark")).toHaveText('"');
  await expect(editor.field(3)).toHaveAttribute("aria-invalid", "true");
  expect(await playground.tokens("agenticml")).toEqual(before);
  await page.getByTestId("go-to-error").click();
  const at = await editor.field(3).evaluate((field) => field.selectionStart);
  expect(at).toBe('{"tool": "read_file",\n "path" '.length);
});

test("an unfinished draft outlives Escape and moving, until it is right", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.write(3, '{"tool": "read_fi');
  await page.keyboard.press("Escape");
  await expect(editor.card(3)).toContainText("Unfinished draft");
  await expect(editor.content(3)).toContainText("main.py");
  await editor.card(3).focus();
  await page.keyboard.press("Alt+ArrowUp");
  await expect(editor.card(2)).toContainText("Unfinished draft");
  await editor.card(2).getByRole("button", { name: "Continue" }).click();
  await expect(editor.field(2)).toHaveValue('{"tool": "read_fi');
  await editor.field(2).fill('{"tool": "read_file"}');
  await page.keyboard.press("Escape");
  await expect(editor.card(2)).not.toContainText("Unfinished draft");
  await expect(editor.content(2)).toHaveText('{"tool": "read_file"}');
});

test("a draft is discarded when asked to", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.write(3, "{");
  await page.keyboard.press("Escape");
  await editor.card(3).getByTestId("discard").click();
  await expect(editor.card(3)).not.toContainText("Unfinished draft");
  await expect(editor.content(3)).toHaveText('{"tool": "read_file", "path": "main.py"}');
});

test("JSON is indented and put back on one line", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(3).focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("reformat").click();
  await expect(editor.field(3)).toHaveValue('{\n  "tool": "read_file",\n  "path": "main.py"\n}');
  await page.getByTestId("reformat").click();
  await expect(editor.field(3)).toHaveValue('{"tool": "read_file", "path": "main.py"}');
});

test("a reward takes numbers only, and a zero is explained", async ({ playground, page }) => {
  const editor = await open(playground);
  await page.getByTestId("add-end").click();
  await editor.choose("reward");
  await expect(editor.field(9)).toHaveValue("1.0");
  await editor.field(9).fill("good");
  await expect(editor.card(9)).toContainText("Not a number");
  await editor.field(9).fill("0");
  await expect(editor.card(9).locator("details.finding")).toContainText("a reward of 0");
});

test("a finding stands at its frame with its rule explained", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(5).focus();
  await page.keyboard.press("Delete");
  const finding = editor.card(3).locator('details.finding[data-rule="unresolved_action"]').first();
  await expect(finding).toBeVisible();
  await finding.locator("summary").click();
  await expect(finding.getByText("Mend")).toBeVisible();
});

test("the list of findings leads to their frames", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.card(0).focus();
  await page.keyboard.press("Delete");
  await page.getByTestId("found").locator("summary").click();
  await page.getByTestId("found").getByRole("button", { name: "missing_goal" }).click();
  await expect(editor.card(0)).toBeFocused();
});

test("a side that cannot be written says at which frame", async ({ playground }) => {
  const editor = await open(playground);
  await editor.write(3, "null");
  await expect(editor.card(3).locator("details.finding").filter({ hasText: "side A cannot be written" })).toBeVisible();
  await editor.field(3).fill('{"tool": [1]}');
  await expect(editor.card(3).locator("details.finding").filter({ hasText: "side B cannot be written" })).toBeVisible();
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true });

  test("frames are added, moved, deleted and brought back", async ({ playground, page }) => {
    const editor = await open(playground);
    await page.getByTestId("pane-edit").click();
    await page.getByTestId("add-frame").click();
    await editor.choose("think");
    await expect(editor.cards).toHaveCount(10);
    await page.getByTestId("done").click();
    await editor.more(2);
    await page.getByTestId("do-up").click();
    await expect.poll(async () => (await editor.kinds()).slice(0, 3)).toEqual(["goal", "mission", "obs"]);
    await editor.more(0);
    await page.getByTestId("do-delete").click();
    await expect(editor.cards).toHaveCount(9);
    for (let step = 0; step < 3; step += 1) await editor.undo.click();
    await editor.expectKinds(FIRST);
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    expect(width).toBeLessThanOrEqual(390);
  });
});
