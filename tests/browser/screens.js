// Takes the pictures of the five main states, of which the README shows two; no test.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FakeEngine, marker, outlook, text } from "./fake-engine.js";
import { SIDES } from "./pages/playground.js";
import { smaller } from "./png.js";
import { expect, test } from "./test.js";

const folder = fileURLToPath(new URL("../screens/", import.meta.url));
const sizes = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

/** Shows a view on both sides, as the window's size has it. */
const view = (tab, pane) => async (playground, phone) => {
  if (phone) return playground.page.getByTestId(`pane-${pane}`).click();
  for (const side of SIDES) await playground.tab(side, tab).click();
  if (tab !== "live") await playground.card(3).click();
};

/** What ends a picture's name, and what brings the page there. The first one is what the page opens with. */
const states = {
  "": async (playground, phone) => {
    if (phone) await playground.page.getByTestId("pane-tokens").click();
    else await playground.card(3).click();
  },
  "-wire": view("wire", "wire"),
  "-frames": async (playground, phone) => {
    await view("units", "edit")(playground, phone);
    if (!phone) await playground.page.getByTestId("costs-frames").click();
  },
  // What is written here is scripted: the picture shows the looks, not a model.
  "-live": async (playground, phone, engine) => {
    await view("live", "live")(playground, phone);
    if (phone) return;
    await engine.hasModel({ name: "scripted for this picture", label: "no model" });
    const [a, b] = SIDES.map((side) => playground.live(side));
    const sure = (...pieces) => text(...pieces).map((token, at) => ({ ...token, outlook: outlook(0.99 - 0.04 * (at % 4)) }));
    for (const side of [a, b]) await side.heat();
    await b.start();
    let script = await engine.generation();
    await script.writes(...sure('{"', "name", '":', ' "', "read", "_file", '",', ' "', "parameters", '":', ' "{\\"', "path", '\\":', ' \\"', "ma"));
    await script.ends("maxTokens");
    await a.start();
    script = await engine.generation();
    const doubt = { outlook: outlook(0.22, [1000, " Read", 0.22], [7, " Both", 0.2], [8, " Open", 0.17]) };
    await script.writes({ ...marker("think"), outlook: outlook(0.97) }, ...sure("One", " file", "."), { ...text(" Read")[0], ...doubt }, ...sure(" it", "."));
    await script.writes({ ...marker("action"), outlook: outlook(0.46) }, ...sure('{"', "tool", '":', ' "', "read", "_file", '",', ' "', "path", '":', ' "', "ma"));
    await expect(a.partial).toBeVisible();
    await a.chips.nth(4).click();
  },
  "-models": async (playground, _, engine) => {
    await playground.page.evaluate(() => (location.hash = "models"));
    await engine.welcome();
    await expect(playground.page.getByTestId("preset").first()).toBeVisible();
  },
};

for (const [name, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"]) {
    for (const [state, reach] of Object.entries(states)) {
      test(`${name}, ${colorScheme}${state}`, async ({ playground, page }) => {
        const engine = new FakeEngine(page);
        if (state === "-models" || state === "-live") await engine.install();
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        await playground.open();
        await reach(playground, name === "phone", engine);
        await page.mouse.move(0, 0);
        writeFileSync(`${folder}${name}-${colorScheme}${state}.png`, smaller(await page.screenshot()));
      });
    }
  }
}
