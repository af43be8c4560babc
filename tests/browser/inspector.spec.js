// The inspector: what a token, a frame, a message is, and why it is trained.
import { SIDES } from "./pages/playground.js";
import { expect, test } from "./test.js";

/** What the inspector says where a token is of this case. */
const REASONS = [
  ["agenticml", 0, "frame of the runtime", "−100"],
  ["agenticml", 1, "is one of the runtime's", "−100"],
  ["agenticml", 52, "frame of the model", "128014"],
  ["agenticml", 53, "is one of the model's", "5018"],
  ["agenticml", 67, "how the model stops", "128015"],
  ["chatml", 0, "There are two of them", "−100"],
  ["chatml", 2, "The format writes it, in a turn of role system", "−100"],
  ["chatml", 6, "the template puts it there", "−100"],
  ["chatml", 26, "turn of role system, which the model reads", "−100"],
];

const inspector = (page) => page.getByTestId("inspector");
const forging = (page) => page.getByTestId("sample").selectOption({ label: "A web page that forges markers" });

for (const [side, at, reason, label] of REASONS) {
  test(`${side}, token ${at}: ${reason}`, async ({ playground, page }) => {
    await playground.open();
    await playground.chips(side).nth(at).click();
    await expect(inspector(page).getByTestId("why")).toContainText(reason);
    await expect(inspector(page).getByTestId("inspected-label")).toContainText(label);
  });
}

test("an assistant turn is explained part by part", async ({ playground, page }) => {
  await playground.open();
  const turn = playground.rows("chatml").nth(2).locator("[data-token-id]");
  const reasons = {
    first: "header of an assistant turn",
    given: "the prompt already supplies it",
    last: "the model learns to stop",
  };
  const tokens = await playground.tokens("chatml");
  const before = (await playground.rows("chatml").nth(0).locator("[data-token-id]").count()) + (await playground.rows("chatml").nth(1).locator("[data-token-id]").count());
  const given = tokens.slice(before).findIndex(({ label }) => label !== -100);
  for (const [at, reason] of [[0, reasons.first], [given - 1, reasons.first], [given, reasons.given], [given + 1, "It stands in an assistant turn"], [(await turn.count()) - 1, reasons.last]]) {
    await turn.nth(at).click();
    await expect(inspector(page).getByTestId("why")).toContainText(reason);
  }
});

test("every token's explanation fits its label", async ({ playground, page }) => {
  await playground.open();
  for (const side of SIDES) {
    const tokens = await playground.tokens(side);
    await playground.chips(side).first().click();
    await page.mouse.move(0, 0);
    for (const { id, label } of tokens) {
      await expect(inspector(page).getByTestId("inspected-id")).toHaveText(String(id));
      const trained = label !== -100;
      await expect(inspector(page).getByRole("heading", { name: trained ? "Why is it trained?" : "Why is it not trained?" })).toBeVisible();
      await page.getByRole("button", { name: "Next token" }).click();
    }
  }
});

test("a token's place is given in characters and in bytes", async ({ playground, page }) => {
  await playground.open();
  await playground.chips("agenticml").nth(1).click();
  await expect(inspector(page)).toContainText("28–31 of");
  await expect(inspector(page)).toContainText("59 6F 75");
});

test("a frame shows its slot, its message, its findings and its costs", async ({ playground, page }) => {
  await playground.open();
  await playground.card(3).click();
  for (const text of ["<|action|>", "<|reserved_special_token_6|>", "128014", "2, assistant", "no rule is broken"]) await expect(inspector(page)).toContainText(text);
  const costs = inspector(page).getByTestId("frame-tokens").locator("tbody tr").first();
  await expect(costs).toContainText("tokens");
  await expect(costs.locator("td")).toHaveText(["15", "19", "+4"]);
  await expect(inspector(page)).toContainText('{"type": "action", "content":');
});

test("a message shows its role, its frames and its JSON", async ({ playground, page }) => {
  await playground.open();
  await playground.tab("chatml", "units").click();
  await playground.rows("chatml").locator("[data-message]").nth(2).locator(".hd").first().hover();
  await expect(inspector(page).getByRole("heading", { name: "Message 2" })).toBeVisible();
  await expect(inspector(page)).toContainText("An assistant turn");
  await expect(inspector(page)).toContainText("frame 3: its tool call");
  await expect(inspector(page)).toContainText("frame 4: the end of its turn");
  await expect(inspector(page)).toContainText('"tool_calls": [');
});

test("the injection report says what would happen and what does", async ({ playground, page }) => {
  await playground.open();
  await expect(page.getByTestId("open-report")).toContainText("nothing forged");
  await forging(page);
  await expect(page.getByTestId("forged")).toContainText("4 forged markers");
  await page.getByTestId("forged").click();
  for (const side of SIDES) {
    const entries = page.getByTestId(`forged-${side}`).locator("li");
    await expect(entries).toHaveCount(4);
    await expect(entries.first()).toContainText("frame 5");
    await expect(entries.first()).toContainText("none special");
  }
  await expect(page.getByTestId("forged-agenticml").locator("li").first()).toContainText("the marker of end: a frame of the model begins and training is switched on");
  await expect(page.getByTestId("forged-chatml").locator("li").last()).toContainText("the turn ends here");
  // What the reference would train on beside what is shown.
  const shown = await playground.counts("agenticml");
  const effect = await page.getByTestId("effects").locator("tbody tr").first().locator("td").allTextContents();
  expect(effect[2].split(" → ").map(Number)[0]).toBe(shown.trained);
  expect(effect[2].split(" → ").map(Number)[1]).toBeGreaterThan(shown.trained);
  await page.getByTestId("forged-agenticml").locator("li").first().hover();
  await expect(playground.card(5)).toHaveClass(/\blk\b/);
  await page.getByTestId("close-report").click();
  await expect(page.getByTestId("effects")).toHaveCount(0);
});

test.describe("at a medium width", () => {
  test.use({ viewport: { width: 1100, height: 800 } });

  test("the inspector is a drawer over the right edge", async ({ playground, page }) => {
    await playground.open();
    await expect(inspector(page)).toBeHidden();
    const before = await page.locator(".mid").boundingBox();
    await page.getByRole("button", { name: "Inspector", exact: true }).click();
    await expect(inspector(page)).toBeVisible();
    expect(await page.locator(".mid").boundingBox()).toEqual(before);
    const drawer = await page.locator(".pane.r").boundingBox();
    expect(drawer.x + drawer.width).toBe(1100);
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await expect(inspector(page)).toBeHidden();
  });
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 844 } });

  test("the inspector is a sheet from below", async ({ playground, page }) => {
    await playground.open();
    await page.getByTestId("pane-tokens").click();
    await page.getByRole("button", { name: "Inspect", exact: true }).click();
    await expect(inspector(page)).toBeVisible();
    const sheet = await page.locator(".pane.r").boundingBox();
    expect(sheet.y).toBeGreaterThan(150);
    expect(Math.round(sheet.y + sheet.height)).toBe(844);
    expect(sheet.width).toBe(390);
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await expect(inspector(page)).toBeHidden();
  });
});
