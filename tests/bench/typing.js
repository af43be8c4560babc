// Types into a frame in the middle of a trajectory and tells how long each character takes from its input
// event until both sides are painted.
//
// `node typing.js REQUEST` with a JSON request: { site, tokens, keys }. Prints one JSON object a line: the
// machine, then one for each wanted number of tokens. `cargo xtask bench --typing` calls this and makes a
// table of it.
import { availableParallelism, cpus, loadavg } from "node:os";
import { chromium } from "@playwright/test";
import { chromium as options } from "../browser/chromium.js";

const { site, tokens, keys } = JSON.parse(process.argv[2]);
const SIDES = ["agenticml", "chatml"];
const WORDS = "the agent reads one file and counts its lines before it answers with the number that was asked for".split(" ");

/** So many words, never twice the same text. */
function words(count, seed) {
  return Array.from({ length: count }, (_, at) => WORDS[(seed * 5 + at * 7 + ((at / WORDS.length) | 0)) % WORDS.length]).join(" ");
}

/** A trajectory of so many turns, each a belief, a call and its result. */
function trajectory(turns) {
  const turn = (_, at) => [
    { type: "belief", content: `${words(24, at)}.` },
    { type: "action", content: { tool: "read_file", path: `src/part_${at}.py`, note: words(6, at + 3) } },
    { type: "end", content: null },
    { type: "result", content: `${words(18, at + 1)}:\n${words(18, at + 2)}\n${words(18, at + 4)}` },
  ];
  const frames = [
    { type: "goal", content: "You are an agent that reads files." },
    { type: "mission", content: "How many lines do the files have?" },
    ...Array.from({ length: turns }, turn).flat(),
  ];
  return { title: "Typing", domain: "bench", about: "", frames };
}

async function count(page, side) {
  return Number(await page.getByTestId(`counts-${side}`).getByTestId("count-tokens").textContent());
}

/** Opens the page on a trajectory of so many turns. Returns the tokens of both sides. */
async function open(page, turns) {
  await page.unrouteAll();
  const list = [{ file: "typing.json", title: "Typing", domain: "bench", about: "" }];
  await page.route("**/samples/index.json", (route) => route.fulfill({ json: list }));
  await page.route("**/samples/typing.json", (route) => route.fulfill({ json: trajectory(turns) }));
  await page.goto(site);
  await page.locator(".rows .tk").first().waitFor();
  const first = await count(page, "chatml");
  await page.getByTestId("sample").selectOption({ label: "Typing" });
  await page.waitForFunction(
    (first) => Number(document.querySelector("[data-testid=counts-chatml] [data-testid=count-tokens]").textContent) !== first,
    first,
  );
  return { agenticml: await count(page, "agenticml"), chatml: await count(page, "chatml") };
}

/** Runs in the page: from now on each input event leaves a measure of what it took. */
function watch() {
  const channel = new MessageChannel();
  const heard = [];
  channel.port1.onmessage = () => heard.shift()();
  /** When the work at hand is done. */
  const after = () =>
    new Promise((done) => {
      heard.push(done);
      channel.port2.postMessage(0);
    });
  const cells = (row) => [...document.querySelectorAll(`.rows [data-turn="${row}"] .cell`)].map((cell) => cell.textContent);
  window.typing = {
    /** Both sides of the row as they read now; the next input is to change them. */
    expect(row) {
      const before = cells(row);
      this.painted = new Promise((done) => {
        const heard = (event) => {
          window.removeEventListener("input", heard, true);
          const start = event.timeStamp;
          const measure = (name) => performance.measure(name, { start, end: performance.now() }).duration;
          let script;
          after().then(() => {
            script = measure("typing: script");
          });
          requestAnimationFrame(async () => {
            await after();
            const painted = measure("typing: painted");
            const now = cells(row);
            done({ script, painted, changed: now.map((text, side) => text !== before[side]) });
          });
        };
        window.addEventListener("input", heard, true);
      });
    },
  };
}

function quantile(figures, share) {
  const sorted = [...figures].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

async function measure(page, wanted) {
  // Two tries give the number of turns for the wanted number of tokens.
  let turns = Math.ceil(wanted / 100);
  let counted = await open(page, turns);
  turns = Math.max(1, Math.round((turns * wanted) / counted.agenticml));
  counted = await open(page, turns);
  // A result: it stands on both wires.
  const frame = 2 + 4 * Math.floor(turns / 2) + 3;
  const card = page.locator(`.editor-list [data-frame="${frame}"]`).first();
  await card.focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  const field = card.locator("textarea");
  await field.waitFor();
  await page.waitForFunction((frame) => document.querySelector(`.editor-list [data-frame="${frame}"] textarea`) === document.activeElement, frame);
  const chip = page.locator(`.rows .cell[data-side=agenticml] .sp[data-frame="${frame}"]`).first();
  await chip.waitFor();
  const row = await chip.evaluate((chip) => chip.closest("[data-turn]").dataset.turn);
  await page.evaluate(watch);
  // Into the middle of the text.
  await field.evaluate((field) => field.setSelectionRange(field.value.length / 2, field.value.length / 2));
  const text = words(keys, 1).slice(0, keys);
  const script = [];
  const painted = [];
  for (const [at, key] of [...`ab${text}`].entries()) {
    await page.evaluate((row) => window.typing.expect(row), row);
    await page.keyboard.press(key === " " ? "Space" : key);
    const result = await page.evaluate(() => window.typing.painted);
    if (!result.changed.every(Boolean)) throw new Error(`after ${JSON.stringify(key)} a side shows what it showed before: ${result.changed}`);
    // The first two warm up.
    if (at < 2) continue;
    script.push(result.script);
    painted.push(result.painted);
  }
  const summary = (figures) => ({ median: quantile(figures, 0.5), p95: quantile(figures, 0.95), worst: Math.max(...figures) });
  const elements = await page.evaluate(() => document.querySelectorAll(".rows *").length);
  return { wanted, turns, tokens: counted, keys: painted.length, script: summary(script), painted: summary(painted), elements };
}

const browser = await chromium.launch(options().launchOptions);
try {
  const say = (line) => console.log(JSON.stringify(line));
  say({ machine: { cpu: cpus()[0].model, cores: availableParallelism(), load: loadavg()[0], chromium: browser.version() } });
  for (const wanted of tokens) {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, serviceWorkers: "block" });
    // Each opening begins with the page's own sample, not with what was kept of the one before.
    await page.addInitScript(() => {
      localStorage.clear();
      sessionStorage.clear();
    });
    say(await measure(page, wanted));
    await page.close();
  }
} finally {
  await browser.close();
}
