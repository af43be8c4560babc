// Loads one large model in Chromium on WebGPU, has it write some tokens, and tells what that took: once
// without keeping it, once kept in the browser's storage, and once from there.
//
// `node large.js REQUEST` with a JSON request: { site, model, tokens, minutes }. Prints one JSON object a
// line and run. `cargo xtask bench --model` calls this and makes a table of it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "@playwright/test";
import { chromium as options } from "../browser/chromium.js";
import { allocations, watchWorkers } from "./allocations.js";
import { peaks } from "./processes.js";

const { site, model, tokens, minutes } = JSON.parse(process.argv[2]);
const profile = mkdtempSync(join(tmpdir(), "playground-bench-"));

/** Runs in the page: a fresh worker that loads the source and writes. */
async function generate({ source, keep, tokens }) {
  const loader = document.querySelector("script[data-worker-js]").dataset.workerJs;
  const address = new URL(loader, document.baseURI);
  address.searchParams.set("processor", "gpu");
  const worker = new Worker(address, { type: "module" });
  // It lives until the browser ends, to be asked what it allocated.
  window.worker = worker;
  let told = 0;
  const ask = (request, type) =>
    new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message || "the worker does not start"));
      worker.onmessage = ({ data }) => {
        if (data.type === "failed") reject(new Error(`${data.failure.message} ${data.failure.advice}`));
        if (data.type === "progress" && performance.now() > told + 10_000) {
          told = performance.now();
          window.tell(`${data.stage}: ${(data.done / 1e6).toFixed(0)} of ${(data.total / 1e6).toFixed(0)} MB`);
        }
        if (data.type === "token") window.tell(`token ${data.id}`);
        if (data.type === type) resolve(data);
      };
      if (request) worker.postMessage(request);
    });
  await ask(null, "ready");
  await ask({ type: "probe" }, "processor");
  const options = { recipe: null, context: 512, halfCache: false, keep, memoryLimit: null };
  const began = performance.now();
  const { model } = await ask({ type: "load", source, sides: "both", options }, "loaded");
  const loadSeconds = (performance.now() - began) / 1000;
  const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1 };
  const prompt = { type: "text", text: " the of and to" };
  const request = { type: "generate", job: 0, side: "a", prompt, sampling, maxTokens: tokens, alternatives: 0 };
  const { stats } = await ask(request, "finished");
  const { name, key, wasmBytes: wasmAtLoad, weightBytes } = model;
  return { name, key, loadSeconds, wasmAtLoad, weightBytes, stats };
}

/** One load in a browser of its own; browsers share the profile, and with it what is kept. */
async function run(title, source, keep) {
  const { launchOptions } = options();
  const context = await chromium.launchPersistentContext(profile, launchOptions);
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(minutes * 60_000);
    await page.exposeFunction("tell", (text) => console.error(`${title}: ${text}`));
    await watchWorkers(page);
    await page.goto(new URL("bench.html", site).href);
    const work = page.evaluate(generate, { source, keep, tokens });
    const late = new Promise((_, reject) => {
      setTimeout(() => reject(new Error(`it did not end within ${minutes} minutes`)), minutes * 60_000).unref();
    });
    const result = await Promise.race([work, late]);
    const memory = await allocations(page);
    // The browser is below this process.
    const largest = (wanted) => Math.max(0, ...peaks(process.pid).filter(({ kind }) => kind === wanted).map(({ MB }) => MB));
    return { title, ...result, ...memory, rendererMB: largest("renderer"), gpuMB: largest("gpu-process") };
  } finally {
    await context.close();
  }
}

const say = (line) => console.log(JSON.stringify(line));
try {
  const address = { type: "url", url: new URL(model, site).href, token: null };
  let key;
  for (const keep of [false, true]) {
    const title = keep ? "from the address, kept" : "from the address";
    try {
      const result = await run(title, address, keep);
      key = result.key;
      say(result);
    } catch (error) {
      say({ title, failed: error.message });
    }
  }
  const title = "from storage";
  if (key) {
    try {
      say(await run(title, { type: "kept", key }, true));
    } catch (error) {
      say({ title, failed: error.message });
    }
  } else say({ title, failed: "nothing is kept whole" });
} finally {
  rmSync(profile, { recursive: true, force: true });
}
