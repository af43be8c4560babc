// A real model in the tab, on either processor: loading, generating, stopping. One page loads it once for
// all tests of a processor.
import { readFileSync } from "node:fs";
import { longTasks } from "./tasks.js";
import { complaints, expect, MODEL, test } from "./test.js";
import { Playground } from "./pages/playground.js";

const fixture = JSON.parse(readFileSync(new URL("../fixtures/smollm2.json", import.meta.url)));
const MINUTES = 60_000;

const processors = {
  gpu: { name: "GPU", memory: 200e6 },
  // The weights are in the worker too.
  cpu: { name: "CPU", memory: 320e6 },
};

test.describe.configure({ mode: "serial", timeout: 5 * MINUTES });

for (const [processor, { name, memory }] of Object.entries(processors)) {
  test.describe(`SmolLM2-135M on the ${name}`, { tag: "@engine" }, () => {
    let playground;
    let live;
    let heard;

    const most = async (tokens) => {
      await playground.page.getByTestId("max-tokens").fill(String(tokens));
      await playground.page.getByTestId("max-tokens").blur();
    };

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
      await playground.model.runOn(processor);
      const tasks = await longTasks(playground.page, async () => {
        await playground.model.load(`/models/${MODEL}`);
        await playground.model.ready(4 * MINUTES);
      });
      console.log(`tasks of the page of 50 ms and more while loading: ${tasks.length === 0 ? "none" : tasks.join(", ")}`);
      await expect(playground.model.processor).toContainText(name);
      console.log((await playground.model.status.innerText()).replaceAll("\n", " · "));
    });

    test("needs no more of the worker's memory than it should", async () => {
      expect(await playground.model.workerMemory()).toBeLessThan(memory);
    });

    for (const { name, prompt, ids, exact } of fixture.cases) {
      test(`continues "${name}" as the reference does`, async () => {
        await live.open();
        await live.prompt(prompt);
        await most(exact.greedy.length);
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

    test("the page does not freeze meanwhile", async () => {
      await live.prompt("Once upon a time");
      await most(48);
      // Tasks are measured by the clock: on a busy machine one may have waited for a core. What the page
      // itself does too long, it does each time.
      let tasks;
      for (let round = 0; round < 3 && tasks?.length !== 0; round++) {
        tasks = await longTasks(playground.page, async () => {
          await live.start();
          await live.settled(2 * MINUTES);
        });
        console.log(`tasks of the page of 50 ms and more: ${tasks.length === 0 ? "none" : tasks.join(", ")}`);
      }
      expect(tasks).toEqual([]);
    });

    test("stops when asked, and generates again", async () => {
      await most(1000);
      await live.prompt("Once upon a time");
      await live.start();
      await expect.poll(async () => (await live.ids()).length, { timeout: MINUTES }).toBeGreaterThan(2);
      await live.stopButton.click();
      await live.settled(MINUTES);
      const stopped = await live.ids();
      expect(stopped.length).toBeLessThan(1000);
      await expect(live.reason).toHaveText("stopped");

      await most(4);
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
}
