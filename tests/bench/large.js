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

/** Runs in the page: a fresh worker that loads the source and writes. It lives until the browser ends, to be
 * asked what it allocated. */
async function generate({ source, keep, tokens }) {
  let told = 0;
  const tell = (event) => {
    if (event.type === "token") window.tell(`token ${event.id}`);
    if (event.type !== "progress" || performance.now() < told + 10_000) return;
    told = performance.now();
    window.tell(`${event.stage}: ${(event.done / 1e6).toFixed(0)} of ${(event.total / 1e6).toFixed(0)} MB`);
  };
  const engine = await window.Engine.start({ processor: "gpu" });
  const began = performance.now();
  const { name, key, wasmBytes: wasmAtLoad, weightBytes } = await engine.load(source, { keep }, tell);
  const loadSeconds = (performance.now() - began) / 1000;
  const { stats } = await engine.generate(" the of and to", tokens, tell);
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
  let key;
  for (const keep of [false, true]) {
    const title = keep ? "from the address, kept" : "from the address";
    try {
      const result = await run(title, model, keep);
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
