// What models run on: what the browser offers, what was chosen, and what happens where the two disagree.
import { readFileSync } from "node:fs";
import { good } from "../tools/gguf.js";
import { expect, test } from "./test.js";

const { cases } = JSON.parse(readFileSync(new URL("../fixtures/smollm2.json", import.meta.url)));

/** Replaces the browser's answer to a page that asks for a GPU. */
async function offer(page, adapter) {
  await page.addInitScript((adapter) => {
    const gpu = { requestAdapter: async () => adapter };
    Object.defineProperty(Navigator.prototype, "gpu", { get: () => gpu, configurable: true });
  }, adapter);
}

const limits = { maxStorageBuffersPerShaderStage: 10, maxStorageBufferBindingSize: 2 ** 31 - 4 };

test.describe("the choice", { tag: "@engine" }, () => {
  test("a GPU that the CPU emulates is not chosen unasked", async ({ playground }) => {
    await playground.open();
    await playground.model.open();
    await expect(playground.model.processor).toContainText("CPU");
    await expect(playground.model.whyCpu).toContainText("slower than our CPU engine");
  });

  test("a real GPU is", async ({ playground, page }) => {
    await offer(page, { limits, info: { vendor: "acme", architecture: "anvil" } });
    const worker = page.waitForEvent("worker");
    await playground.open();
    await playground.model.open();
    expect((await worker).url()).toContain("processor=gpu");
  });

  for (const [name, adapter, reason] of [
    ["none", null, /hardware acceleration/],
    ["one that binds too few buffers", { limits: { ...limits, maxStorageBuffersPerShaderStage: 4 } }, /too small.*4 buffers/],
    ["one that binds too small buffers", { limits: { ...limits, maxStorageBufferBindingSize: 2 ** 26 } }, /too small.*64 MiB/],
  ]) {
    test(`where the browser offers ${name}, it says why the CPU is taken`, async ({ playground, page }) => {
      await offer(page, adapter);
      const worker = page.waitForEvent("worker");
      await playground.open();
      await playground.model.open();
      expect((await worker).url()).toContain("processor=cpu");
      await expect(playground.model.whyCpu).toContainText(reason);
      await playground.model.runOn("gpu");
      await playground.model.failed("NoGpu", reason);
      await playground.model.runOn("cpu");
      await expect(playground.model.failure).toHaveCount(0);
      await expect(playground.model.processor).toContainText("CPU");
    });
  }

  test("outlasts the page", async ({ playground, page }) => {
    await playground.open();
    await playground.model.open();
    await playground.model.runOn("cpu");
    await page.reload();
    await playground.model.open();
    await expect(page.getByTestId("processor-cpu")).toBeChecked();
  });

  test("can be changed with a model there: it is loaded again, and what was typed stays", async ({ playground }) => {
    const live = playground.live("chatml");
    await playground.open();
    await playground.model.open();
    await playground.model.choose("nano.gguf", good());
    await playground.model.ready(60_000);
    await live.open();
    await live.prompt("Once upon a time");
    await playground.model.runOn("gpu");
    await expect(playground.model.processor).toContainText("GPU", { timeout: 60_000 });
    await playground.model.ready(60_000);
    await live.start();
    await live.settled(60_000);
    expect(await live.panel.getByTestId("free-prompt").inputValue()).toBe("Once upon a time");
    const onGpu = await live.ids();
    await playground.model.runOn("cpu");
    await expect(playground.model.processor).toContainText("CPU", { timeout: 60_000 });
    await playground.model.ready(60_000);
    await live.start();
    await live.settled(60_000);
    expect((await live.ids())[0]).toBe(onGpu[0]);
  });
});

test.describe("a lost GPU", { tag: "@engine" }, () => {
  test.use({ tolerated: [/lost|destroyed/i] });

  test("is said, and the next Generate works again", async ({ playground, page }) => {
    // The device is the engine's own; the worker's script is served with a way to take it away.
    await page.route(/\/assets\/worker-[^/]*\.js/, async (route) => {
      const answer = await route.fetch();
      const body = `${await answer.text()}
        const channel = new BroadcastChannel("gpu");
        const request = GPUAdapter.prototype.requestDevice;
        GPUAdapter.prototype.requestDevice = async function (...asked) {
          const device = await request.apply(this, asked);
          channel.onmessage = () => device.destroy();
          return device;
        };`;
      await route.fulfill({ response: answer, body });
    });
    const live = playground.live("chatml");
    const { prompt } = cases[0];
    await playground.open();
    await playground.model.open();
    await playground.model.runOn("gpu");
    await playground.model.choose("nano.gguf", good());
    await playground.model.ready(60_000);
    await live.open();
    await live.prompt(prompt);
    await page.getByTestId("max-tokens").fill("8");
    await page.getByTestId("max-tokens").blur();
    await live.start();
    await live.settled(60_000);
    const before = await live.ids();
    expect(before).toHaveLength(8);

    await page.getByTestId("max-tokens").fill("2000");
    await page.getByTestId("max-tokens").blur();
    await live.start();
    await expect.poll(async () => (await live.ids()).length).toBeGreaterThan(2);
    await page.evaluate(() => new BroadcastChannel("gpu").postMessage("destroy"));
    await expect(live.failure).toHaveAttribute("data-kind", "Device", { timeout: 30_000 });
    await expect(page.getByTestId("gpu-lost")).toBeVisible();

    await page.getByTestId("max-tokens").fill("8");
    await page.getByTestId("max-tokens").blur();
    await live.start();
    await live.settled(60_000);
    expect(await live.ids()).toEqual(before);
    await expect(page.getByTestId("gpu-lost")).toHaveCount(0);
  });
});

test.describe("an engine that breaks down", { tag: "@engine" }, () => {
  test.use({ tolerated: [/broke on purpose/] });

  test("is started anew, with the same file", async ({ playground, page }) => {
    await page.route(/\/assets\/worker-[^/]*\.js/, async (route) => {
      const answer = await route.fetch();
      const body = `${await answer.text()}
        new BroadcastChannel("break").onmessage = () => { throw new Error("it broke on purpose"); };`;
      await route.fulfill({ response: answer, body });
    });
    await playground.open();
    await playground.model.open();
    await playground.model.choose("nano.gguf", good());
    await playground.model.ready(60_000);
    await page.evaluate(() => new BroadcastChannel("break").postMessage("now"));
    await playground.model.failed("Internal", /broke on purpose/);
    await playground.model.again.click();
    await playground.model.ready(60_000);
    await expect(playground.model.failure).toHaveCount(0);
  });
});
