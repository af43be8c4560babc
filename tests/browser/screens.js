// Takes the pictures of the five main states, of which the README shows two; no test.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FakeEngine } from "./fake-engine.js";
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
  "-live": view("live", "live"),
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
        if (state === "-models") await engine.install();
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
