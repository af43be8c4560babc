// What every test gets: the site behind the fault server, and a page whose complaints fail the test.
import { join } from "node:path";
import { test as base, expect } from "@playwright/test";
import { start } from "./faults.js";
import { Playground } from "./pages/playground.js";

export const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
export const MODEL_FILE = join(process.env.PLAYGROUND_MODELS, MODEL);

/** Listens to a page; the list fills with errors, failed scripts and violations of the policy. */
export function complaints(page) {
  const heard = [];
  page.on("console", (message) => {
    // Playwright says so where the configuration keeps service workers away.
    if (message.text().startsWith("Service Worker registration blocked")) return;
    if (message.type() === "error" || message.type() === "warning") heard.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => heard.push(`page error: ${error.message}`));
  return heard;
}

export const test = base.extend({
  /** Complaints that a test expects, such as a refused address. */
  tolerated: [[], { option: true }],

  server: [
    async ({}, use) => {
      const server = await start(process.env.PLAYGROUND_URL, MODEL_FILE);
      await use(server);
      server.close();
    },
    { scope: "worker" },
  ],

  site: [async ({ server }, use) => await use(server.url), { scope: "worker" }],

  playground: async ({ page, site, tolerated }, use) => {
    const heard = complaints(page);
    await use(new Playground(page, site));
    const unexpected = heard.filter((text) => !tolerated.some((pattern) => pattern.test(text)));
    expect(unexpected, "the console stays silent").toEqual([]);
  },
});

export { expect };
