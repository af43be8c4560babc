// Takes the pictures of the README; no test.
import { fileURLToPath } from "node:url";
import { test } from "./test.js";

const folder = fileURLToPath(new URL("../screens/", import.meta.url));
const sizes = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

for (const [name, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name}, ${colorScheme}`, async ({ playground, page }) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await playground.open();
      if (name === "phone") await page.getByTestId("pane-tokens").click();
      else await playground.card(3).click();
      await page.mouse.move(0, 0);
      await page.screenshot({ path: `${folder}${name}-${colorScheme}.png` });
    });
  }
}
