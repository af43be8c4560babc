// Links that hold the state, and work that the browser keeps.
import { randomBytes } from "node:crypto";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { Playground, SIDES } from "./pages/playground.js";
import { Share } from "./pages/share.js";
import { complaints, expect, test } from "./test.js";

test.use({ permissions: ["clipboard-read", "clipboard-write"] });

const FRAMES = [
  { type: "goal", content: "You count things." },
  { type: "mission", content: "How many days has a leap year? <b>שלום</b>" },
  { type: "belief", content: "It has 366 days." },
  { type: "action", content: { tool: "answer", text: "366" } },
  { type: "end", content: null },
];

const payload = (state) => deflateRawSync(typeof state === "string" ? state : JSON.stringify(state)).toString("base64url");
const link = (state, version = 1) => `#s=${version}.${payload(state)}`;

/** Opens the page at an address with this fragment. */
async function openAt(playground, fragment) {
  await playground.page.goto(playground.site + fragment);
  for (const side of SIDES) await expect(playground.chips(side).first()).toBeAttached();
}

const ids = async (playground, side) => (await playground.tokens(side)).map(({ id }) => id);

test("a copied link shows the same in another browser", async ({ playground, page, browser }) => {
  const share = new Share(page);
  await openAt(playground, link({ frames: FRAMES }));
  await playground.tab("chatml", "wire").click();
  const address = await share.link();
  const context = await browser.newContext();
  const other = await context.newPage();
  const heard = complaints(other);
  await other.goto(address);
  const there = new Playground(other, playground.site);
  await expect(there.tab("chatml", "wire")).toHaveAttribute("aria-selected", "true");
  await expect(there.card(1)).toContainText("How many days has a leap year? <b>שלום</b>");
  expect(await ids(there, "agenticml")).toEqual(await ids(playground, "agenticml"));
  expect(heard).toEqual([]);
  await context.close();
});

test("a link to a sample as it came is short", async ({ playground, page }) => {
  await playground.open();
  const address = await new Share(page).link();
  expect(address.length).toBeLessThan(400);
});

test("a link holds no address and no token of a model", async ({ playground, page }) => {
  await playground.open();
  const address = await new Share(page).link();
  const text = inflateRawSync(Buffer.from(address.split("#s=1.")[1], "base64url")).toString();
  expect(Object.keys(JSON.parse(text)).sort()).toEqual(["a", "b", "pin", "readable", "sample", "sampling"]);
});

test("a state that is too long for a link is refused, with what to do", async ({ playground, page }) => {
  // Random letters hardly shrink.
  const noise = Array.from({ length: 8 }, () => ({ type: "mission", content: randomBytes(6000).toString("base64") }));
  // As work of an earlier visit, for a link cannot bring it.
  await page.addInitScript((state) => {
    localStorage.setItem("work.0123456789abcdef", JSON.stringify({ version: 1, saved: 1, writer: "x", title: "Long", state }));
  }, { frames: noise });
  await page.goto(playground.site);
  const share = new Share(page);
  await share.says("restored");
  await share.copyLink.click();
  await share.says("trouble");
  await expect(share.notice).toContainText(/would have \d+,\d+ characters.*Export/);
});

for (const [what, fragment, words] of [
  ["a link from the future", "#s=9.abc", "newer version"],
  ["a damaged link", link({ frames: FRAMES }).slice(0, -9), "damaged"],
  ["a link that swells without end", `#s=1.${deflateRawSync(Buffer.alloc(9_000_000, 97)).toString("base64url")}`, "holds more"],
  ["a link without a state", link("[1, 2"), "no state"],
  ["a link to a file elsewhere", link({ sample: "../../secret.json" }), "no state"],
]) {
  test(`${what} says so and leaves what was there`, async ({ playground, page }) => {
    await openAt(playground, fragment);
    const share = new Share(page);
    await share.says("trouble");
    await expect(share.notice).toContainText(words);
    await expect(playground.card(2)).toContainText("How many lines are in main.py?");
  });
}

test("a hostile link stays text", async ({ playground, page }) => {
  const hostile = '<img src=x onerror="window.hit=1"><script>window.hit=1</script><|eot_id|>';
  await openAt(playground, link({ title: hostile, frames: [FRAMES[0], { type: "mission", content: hostile }, ...FRAMES.slice(2)] }));
  await expect(playground.card(1)).toContainText(hostile);
  expect(await page.evaluate(() => window.hit)).toBeUndefined();
});

test("after a link was opened, a load shows the same and the address is plain", async ({ playground, page }) => {
  await openAt(playground, link({ frames: FRAMES }));
  expect(new URL(page.url()).hash).toBe("");
  await page.reload();
  await expect(playground.card(1)).toContainText("leap year");
});

test("a link does not cost the work that was there", async ({ playground, page }) => {
  const share = new Share(page);
  await openAt(playground, link({ frames: [...FRAMES.slice(0, 1), { type: "mission", content: "My own work." }, ...FRAMES.slice(2)] }));
  await page.goto(`${playground.site}?${link({ frames: FRAMES })}`);
  await expect(playground.card(1)).toContainText("leap year");
  await share.goBack.click();
  await expect(playground.card(1)).toContainText("My own work.");
});

test("changed work is there again at the next visit", async ({ playground, page, context }) => {
  await openAt(playground, link({ frames: FRAMES }));
  await playground.tab("agenticml", "wire").click();
  const share = new Share(page);
  await share.keeps("wire");
  await page.close();
  const next = await context.newPage();
  await next.goto(playground.site);
  const later = new Playground(next, playground.site);
  await new Share(next).says("restored");
  await expect(later.card(1)).toContainText("leap year");
  await expect(later.tab("agenticml", "wire")).toHaveAttribute("aria-selected", "true");
});

test("the sample can be had again, and then the work", async ({ playground, page }) => {
  await openAt(playground, link({ frames: FRAMES }));
  await page.reload();
  const share = new Share(page);
  await share.startOver.click();
  await expect(playground.card(2)).toContainText("How many lines are in main.py?");
  await share.goBack.click();
  await expect(playground.card(1)).toContainText("leap year");
});

test("two tabs keep their work apart", async ({ playground, page, context }) => {
  await openAt(playground, link({ frames: FRAMES }));
  const second = await context.newPage();
  const other = new Playground(second, playground.site);
  await openAt(other, link({ frames: [FRAMES[0], { type: "mission", content: "The second tab." }, ...FRAMES.slice(2)] }));
  await new Share(second).keeps("The second tab.");
  await page.reload();
  await expect(playground.card(1)).toContainText("leap year");
  await second.reload();
  await expect(other.card(1)).toContainText("The second tab.");
});

test("a damaged entry is reported once and costs nothing else", async ({ playground, page }) => {
  await playground.open();
  await page.evaluate(() => localStorage.setItem("work.0123456789abcdef", '{"version": 1, "state": {"frames": 7}}'));
  const share = new Share(page);
  await page.reload();
  await share.says("trouble");
  await expect(playground.card(2)).toContainText("How many lines are in main.py?");
  expect(await share.kept()).toEqual([]);
});

test("a browser that keeps nothing says so and goes on", async ({ playground, page }) => {
  await page.addInitScript(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException("full", "QuotaExceededError");
    };
  });
  await playground.open();
  await playground.tab("agenticml", "wire").click();
  const share = new Share(page);
  await share.says("trouble");
  await expect(share.notice).toContainText("not kept");
});

test("kept work can be forgotten", async ({ playground, page }) => {
  await openAt(playground, link({ frames: FRAMES }));
  const share = new Share(page);
  await share.keeps("leap year");
  await share.open();
  await page.getByTestId("forget-work").click();
  await expect(share.done).toBeVisible();
  expect(await share.kept()).toEqual([]);
});

test("the masthead of a phone has the rooms and sharing in a menu", async ({ playground, page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await playground.open();
  await page.getByTestId("rooms-menu-button").click();
  await page.getByTestId("menu-share").click();
  await expect(new Share(page).dialog).toBeVisible();
  await page.keyboard.press("Escape");
  await page.getByTestId("rooms-menu-button").click();
  await page.getByTestId("menu-models").click();
  await expect(page).toHaveURL(/#models$/);
  await expect(page.getByTestId("rooms-menu")).toBeHidden();
});

test("the sample's title is not cut", async ({ playground, page }) => {
  await playground.open();
  const select = page.getByTestId("sample");
  const titles = await select.locator("option").allTextContents();
  const widest = await select.evaluate((select, titles) => {
    const context = document.createElement("canvas").getContext("2d");
    context.font = getComputedStyle(select).font;
    return Math.max(...titles.map((title) => context.measureText(title).width));
  }, titles);
  const { width } = await select.boundingBox();
  expect(width - 16).toBeGreaterThan(widest);
});
