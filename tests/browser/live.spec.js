// A real model in the tab: loading, generating, stopping. One page loads it once for all these tests.
import { readFileSync } from "node:fs";
import { complaints, expect, MODEL, test } from "./test.js";
import { Playground } from "./pages/playground.js";

const fixture = JSON.parse(readFileSync(new URL("../fixtures/smollm2.json", import.meta.url)));
const MINUTES = 60_000;

test.describe.configure({ mode: "serial", timeout: 5 * MINUTES });

test.describe("SmolLM2-135M", { tag: "@engine" }, () => {
  let playground;
  let live;
  let heard;

  test.beforeAll(async ({ browser, site }) => {
    const page = await browser.newPage();
    heard = complaints(page);
    playground = new Playground(page, site);
    live = playground.live("chatml");
  });

  test.afterAll(async () => {
    await playground.page.close();
  });

  test("loads from an address", async () => {
    await playground.open();
    await playground.model.open();
    await playground.model.load(`/models/${MODEL}`);
    await playground.model.ready(4 * MINUTES);
    console.log((await playground.model.status.innerText()).replaceAll("\n", " · "));
  });

  test("needs less than 200 MB of the worker's memory", async () => {
    expect(await playground.model.workerMemory()).toBeLessThan(200e6);
  });

  for (const { name, prompt, ids, exact } of fixture.cases) {
    test(`continues "${name}" as the reference does`, async () => {
      await live.open();
      await live.prompt(prompt);
      await playground.page.getByTestId("max-tokens").fill(String(exact.greedy.length));
      await playground.page.getByTestId("max-tokens").blur();
      await live.start();
      await live.settled(4 * MINUTES);
      expect(await live.promptIds()).toEqual(ids);
      const written = await live.ids();
      expect(written).toHaveLength(exact.greedy.length);
      // At a near tie either token is right, and what follows depends on it. Nowhere else may they part.
      const parting = written.findIndex((id, at) => id !== exact.greedy[at]);
      if (parting >= 0) expect(exact.margins[parting], `token ${parting}`).toBeLessThan(0.05);
      const same = parting < 0 ? "all" : `the first ${parting}`;
      console.log(`${name}: ${same} of ${written.length} ids are the reference's, ${await live.rate()} tokens/s`);
    });
  }

  test("stops when asked, and generates again", async () => {
    await playground.page.getByTestId("max-tokens").fill("1000");
    await playground.page.getByTestId("max-tokens").blur();
    await live.prompt("Once upon a time");
    await live.start();
    await expect.poll(async () => (await live.ids()).length, { timeout: MINUTES }).toBeGreaterThan(2);
    await live.stopButton.click();
    await live.settled(MINUTES);
    const stopped = await live.ids();
    expect(stopped.length).toBeLessThan(1000);
    await expect(live.reason).toHaveText("stopped");

    await playground.page.getByTestId("max-tokens").fill("4");
    await playground.page.getByTestId("max-tokens").blur();
    await live.start();
    await live.settled(MINUTES);
    expect(await live.ids()).toEqual(stopped.slice(0, 4));
  });

  test("continues the messages of side B through its own chat template", async () => {
    await live.panel.getByTestId("prompt-mode").selectOption("trajectory");
    await live.start();
    await live.settled(2 * MINUTES);
    expect((await live.ids()).length).toBeGreaterThan(0);
    await expect(live.failure).toHaveCount(0);
  });

  test("the console stayed silent", () => {
    expect(heard).toEqual([]);
  });
});
