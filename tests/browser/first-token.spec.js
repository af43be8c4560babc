// How soon a small model writes in a browser that has never run the engine.
import { good } from "../tools/gguf.js";
import { expect, test } from "./test.js";

for (const choice of ["automatic", "cpu", "gpu"]) {
  test(`the first token comes soon: ${choice}`, { tag: "@engine" }, async ({ playground, page }) => {
    const live = playground.live("chatml");
    await playground.open();
    await playground.model.open();
    await playground.model.runOn(choice);
    await live.open();
    await live.prompt("Once upon a time");
    const file = good();
    const start = performance.now();
    await playground.model.choose("nano.gguf", file);
    await playground.model.ready(60_000);
    const ready = performance.now();
    await live.start();
    await expect(live.output.locator("[data-token-id]").first()).toBeAttached({ timeout: 60_000 });
    const first = performance.now();
    const shown = await live.panel.getByTestId("first-token").textContent();
    console.log(
      `${choice}: engine fetched and model ready after ${(ready - start).toFixed(0)} ms, first token ` +
        `${(first - ready).toFixed(0)} ms after Generate as seen from outside, ${shown} as the page shows it`,
    );
    // All of it: the engine is fetched, compiled and given the model, and then asked to generate.
    if (choice === "automatic") expect(first - start).toBeLessThan(1_500);
  });
}
