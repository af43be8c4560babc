// Measures engines on models in Chromium, in turn: in every round each engine runs each model once, in a
// browser of its own, so that whatever else the machine does meets all of them alike.
//
// `node bench.js REQUEST` with a JSON request: { site, models, engines, rounds, prompt, warmup,
// decodeTokens }. Prints one JSON object a line: the machine, then a measurement each. Without a `site`
// only peers can run. `cargo xtask bench` calls this and makes tables of it.
import { availableParallelism, cpus, loadavg } from "node:os";
import { basename } from "node:path";
import { chromium } from "@playwright/test";
import { chromium as options } from "../browser/chromium.js";
import { start } from "./peers.js";
import { measure } from "./playground.js";
import { cpuSeconds, peakMB } from "./processes.js";

const { site, models, engines, rounds, prompt, warmup, decodeTokens } = JSON.parse(process.argv[2]);
const MINUTES = 60_000;
const peers = await start(models);

/** Starts a browser, which also tells what it runs on, and always ends it. */
async function withBrowser(use) {
  const server = await chromium.launchServer(options().launchOptions);
  try {
    const browser = await chromium.connect(server.wsEndpoint());
    const page = await browser.newPage();
    return await within(10 * MINUTES, use(page, server.process().pid, browser.version()));
  } finally {
    await server.close();
  }
}

async function machine() {
  return await withBrowser(async (page, _, version) => {
    await page.goto(new URL("wllama.html", peers.url).href);
    const adapter = await page.evaluate(async () => {
      const { vendor, architecture, device, description } = (await navigator.gpu?.requestAdapter())?.info ?? {};
      return [vendor, architecture, device, description].filter(Boolean).join(" ");
    });
    const cpu = cpus()[0].model;
    return {
      date: new Date().toISOString().slice(0, 10),
      cpu,
      cores: availableParallelism(),
      load: loadavg()[0],
      chromium: version,
      adapter: adapter || "none",
    };
  });
}

/** One engine, one model, one browser. */
async function run(engine, model, round) {
  return await withBrowser(async (page, pid) => {
    const seconds = {};
    await page.exposeFunction("mark", (name) => {
      seconds[name] = cpuSeconds(pid);
    });
    const request = { model: `/models/${basename(model)}`, prompt, warmup, decodeTokens };
    const threads = Number(/^wllama-(\d+)$/.exec(engine)?.[1]);
    const result = threads ? await theirs(page, request, threads) : await ours(page, request, engine);
    const measured = {
      ...result,
      prefillCpuMs: 1000 * (seconds.prefilled - seconds.start),
      decodeCpuMs: 1000 * (seconds.decoded - seconds.prefilled),
      peakMB: peakMB(pid),
    };
    // Counters do not vary from round to round.
    return threads || round > 1 ? measured : { ...measured, counters: await counters(page, request, engine) };
  });
}

async function ours(page, request, processor) {
  await page.goto(new URL("bench.html", site).href);
  return await page.evaluate(measure, { ...request, processor });
}

async function theirs(page, request, threads) {
  await page.goto(new URL("wllama.html", peers.url).href);
  await page.waitForFunction("window.measure");
  return await page.evaluate((request) => window.measure(request), { ...request, threads });
}

/** What our engine counts itself, through the page's own measurement. */
async function counters(page, { model }, processor) {
  const options = { promptTokens: 16, decodeTokens: 8, processor };
  return await page.evaluate(([model, options]) => window.bench(model, options), [model, options]);
}

/** Fails what takes longer than any engine should. */
async function within(time, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came of it in ${time / MINUTES} minutes`)), time);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const say = (line) => console.log(JSON.stringify(line));
say({ machine: await machine() });
for (let round = 1; round <= rounds; round += 1) {
  for (const model of models) {
    for (const engine of engines) {
      const name = { round, model: basename(model), engine };
      try {
        say({ ...name, ...(await run(engine, model, round)) });
      } catch (error) {
        say({ ...name, failed: error.message });
      }
    }
  }
}
peers.close();
