// No violation of what axe can check, in any state of the page, in both themes. To add a state, add a line.
import { AxeBuilder } from "@axe-core/playwright";
import { FakeEngine, kept, marker, outlook, text } from "./fake-engine.js";
import { SIDES } from "./pages/playground.js";
import { expect, test } from "./test.js";

const PHONE = { width: 390, height: 844 };
const MEDIUM = { width: 1100, height: 800 };

const click = (id) => async ({ page }) => page.getByTestId(id).click();
const views = (view) => async ({ playground }) => {
  for (const side of SIDES) await playground.tab(side, view).click();
};
const forging = async ({ page }) => {
  await page.getByTestId("sample").selectOption({ label: "A web page that forges markers" });
  await page.getByTestId("forged").click();
};
const phone = (pane) => [`phone, ${pane}`, click(`pane-${pane}`), PHONE];

/** States that are about the rows. */
const ROWS = ["tokens with the mask", "tokens without mask and ids", "frames and messages", "wire"];

/** A name, what brings the page there, and a size other than a desktop's. */
const STATES = [
  ["tokens with the mask", async () => {}],
  ["tokens without mask and ids", async ({ page }) => {
    for (const name of ["Mask", "Ids"]) for (const at of [0, 1]) await page.getByRole("switch", { name }).nth(at).click();
  }],
  ["frames and messages", views("units")],
  ["wire", views("wire")],
  ["live without a model", views("live")],
  ["model", click("dock-model")],
  ["costs by frame", click("costs-frames")],
  ["costs of a cache", click("costs-cache")],
  ["costs explained", click("costs-why")],
  ["a frame that is edited", async ({ playground }) => playground.card(3).dblclick()],
  ["a frame with broken JSON", async ({ playground, page }) => {
    await playground.card(3).dblclick();
    await page.getByRole("textbox", { name: /Content of frame 3/ }).fill("{");
  }],
  ["a frame is inspected", async ({ playground }) => playground.card(3).click()],
  ["a token is inspected", async ({ playground }) => playground.chips("chatml").nth(30).click()],
  ["injection report", forging],
  ["help", click("help")],
  ["about", click("about")],
  ["models", async ({ page, engine }) => {
    await page.evaluate(() => (location.hash = "models"));
    await engine.welcome([kept()]);
  }],
  ["a model is checked", async ({ page, engine }) => {
    await page.evaluate(() => (location.hash = "models"));
    await engine.welcome([kept()]);
    await page.getByTestId("preset").first().getByTestId("preset-a").click();
    await engine.next("check");
    await engine.found();
  }],
  ["import", click("import")],
  ["share", click("share")],
  ["a frame is added", async ({ page }) => page.getByRole("button", { name: "Add frame" }).first().click()],
  ["lessons", async ({ page }) => {
    await page.evaluate(() => (location.hash = "lessons"));
    await expect(page.getByTestId("lessons-list")).toContainText("What a frame is");
  }],
  ...["frames/2", "training/2", "faults/1", "study/2"].map((address) => [
    `lesson ${address}`,
    async ({ page }) => {
      await page.evaluate((address) => (location.hash = `lessons/${address}`), address);
      await expect(page.locator("main:visible h1")).toBeVisible();
    },
  ]),
  ["a model writes", async ({ playground, engine }) => {
    const live = playground.live("agenticml");
    await live.open();
    await engine.hasModel();
    await live.heat();
    await live.start();
    const script = await engine.generation();
    const thought = { outlook: outlook(0.2, [7, " Both", 0.2]) };
    await script.writes(marker("think"), ...text("One", " file").map((token) => ({ ...token, ...thought })), marker("action"), ...text('{"tool": "re'));
    await expect(live.partial).toBeVisible();
    await live.chips.nth(1).click();
  }],
  ["drawer", async ({ page }) => page.getByRole("button", { name: "Inspector", exact: true }).click(), MEDIUM],
  ...["edit", "wire", "tokens", "live", "costs", "model"].map(phone),
  ["phone, inspector", async ({ page }) => {
    await page.getByTestId("pane-tokens").click();
    await page.getByRole("button", { name: "Inspect", exact: true }).click();
  }, PHONE],
];

/** What axe finds, short enough to read. Only contrast depends on the theme. */
async function violations(page, contrastOnly, rest) {
  let axe = new AxeBuilder({ page });
  if (contrastOnly) axe = axe.withRules(["color-contrast"]);
  // Hundreds of chips of a few looks: some states look at the first of them, the others at what is theirs.
  axe = axe.exclude(rest ? ".rows" : ".turn:nth-child(n+4)");
  const found = await axe.analyze();
  return found.violations.map(({ id, nodes }) => ({
    id,
    count: nodes.length,
    nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 200)} :: ${failureSummary.replace(/\s+/g, " ").slice(0, 260)}`),
  }));
}

test.describe("axe finds nothing", () => {
  test.describe.configure({ timeout: 120_000 });

  for (const [name, reach, viewport] of STATES) {
    test(name, async ({ playground, page }) => {
      const engine = new FakeEngine(page);
      await engine.install();
      if (viewport) await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
      await playground.open();
      await reach({ playground, page, engine });
      const rest = !ROWS.includes(name);
      expect(await violations(page, false, rest)).toEqual([]);
      await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
      expect(await violations(page, true, rest)).toEqual([]);
    });
  }
});

test.describe("any size, any motion", () => {
  const width = (page) => page.evaluate(() => document.scrollingElement.scrollWidth);

  test("text of 200 % at 1440 px lands in the narrow layout, nothing to the side", async ({ browser, site }) => {
    // As a browser zooms: half as many pixels of layout, each twice as dense.
    const page = await browser.newPage({ viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 });
    await page.goto(site);
    await expect(page.getByTestId("pane-tokens")).toBeVisible();
    for (const pane of ["edit", "wire", "tokens", "live", "costs", "model"]) {
      await page.getByTestId(`pane-${pane}`).click();
      expect(await width(page), pane).toBeLessThanOrEqual(720);
    }
    await page.close();
  });

  test("2560 px: all panes stand side by side", async ({ playground, page }) => {
    await page.setViewportSize({ width: 2560, height: 1440 });
    await playground.open();
    expect(await width(page)).toBe(2560);
    for (const pane of [".pane.l", ".mid", ".pane.r"]) await expect(page.locator(pane).first()).toBeVisible();
    const [left, right] = await Promise.all([".pane.l", ".pane.r"].map((pane) => page.locator(pane).boundingBox()));
    expect([left.width, right.width]).toEqual([340, 340]);
  });

  test("reduced motion: nothing is animated", async ({ playground, page }) => {
    await page.emulateMedia({ reducedMotion: "reduce" });
    await playground.open();
    for (const view of ["units", "wire", "tokens", "live"]) {
      await playground.tab("agenticml", view).click();
      expect(await page.evaluate(() => document.getAnimations().filter((it) => it.playState === "running").length), view).toBe(0);
    }
  });

  test("what has the focus shows it, all along the Tab key's way", async ({ playground, page }) => {
    await playground.open();
    await page.evaluate(() => document.activeElement.blur());
    const unseen = [];
    let first;
    for (let step = 0; step < 60; step++) {
      await page.keyboard.press("Tab");
      const found = await page.evaluate(() => {
        const it = document.activeElement;
        if (it === document.body) return null;
        const ringed = (element) => {
          const style = getComputedStyle(element);
          return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1.5;
        };
        const box = it.getBoundingClientRect();
        return {
          what: it.outerHTML.slice(0, 160),
          seen: box.width > 0 && (ringed(it) || [...document.querySelectorAll(":focus-within")].some((around) => around !== document.body && ringed(around))),
        };
      });
      if (!found || found.what === first) break;
      first ??= found.what;
      if (!found.seen) unseen.push(found.what);
    }
    expect(unseen).toEqual([]);
  });
});
