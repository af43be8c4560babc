// Hostile text through every way into the page: nothing runs, nothing breaks the layout, what imitates a
// marker is reported.
import { deflateRawSync } from "node:zlib";
import { EOT, FakeEngine, kept, preflight, text } from "./fake-engine.js";
import { FORGING, HALF_PAIRS, HOSTILE, LONG, LOOKALIKES, trajectory } from "./hostile.js";
import { Editor } from "./pages/editor.js";
import { Guard } from "./pages/guard.js";
import { SIDES } from "./pages/playground.js";
import { expect, test } from "./test.js";

const json = (route, value) => route.fulfill({ contentType: "application/json", body: typeof value === "string" ? value : JSON.stringify(value) });

/** Serves these files in place of the samples; names are file names, values their content. */
async function serve(page, files, entries) {
  await page.route(/\/samples\/[^/]*\.json$/, (route) => {
    const name = decodeURIComponent(new URL(route.request().url()).pathname.split("/").at(-1));
    if (name === "index.json") return json(route, entries ?? Object.keys(files).map((file) => ({ file, title: file, domain: "hostile", about: file })));
    return name in files ? json(route, files[name]) : route.fulfill({ status: 404 });
  });
}

/** Shows a sample by its place in the list; the first is the page's own. */
async function choose(page, at) {
  const list = page.getByTestId("sample");
  await expect.poll(() => list.locator("option").count()).toBeGreaterThan(at);
  await list.selectOption(String(at));
}

/** Looks at all that shows the trajectory. */
async function everyView(playground, guard) {
  const { page } = playground;
  for (const view of ["units", "wire", "tokens"]) {
    for (const side of SIDES) await playground.tab(side, view).click();
    await guard.nothingRan();
  }
  for (const section of ["frames", "cache", "why", "kinds"]) await page.getByTestId(`costs-${section}`).click();
  await page.getByTestId("open-report").click();
  await expect(page.getByTestId("effects")).toBeVisible();
  await guard.nothingRan();
  await page.getByTestId("close-report").click();
  for (const frame of [0, 6, 8]) {
    await playground.card(frame).click({ position: { x: 8, y: 8 } });
    await guard.nothingRan();
  }
}

test.describe("hostile text", () => {
  test.describe.configure({ timeout: 120_000 });
  let guard;

  test.beforeEach(async ({ page, site }) => {
    guard = new Guard(page, site);
    await guard.install();
  });

  test("there are enough of them, each once", () => {
    expect(HOSTILE.length).toBeGreaterThanOrEqual(60);
    expect(new Set(HOSTILE).size).toBe(HOSTILE.length);
  });

  test("typed into a frame", async ({ playground, page }) => {
    await playground.open();
    await playground.card(2).dblclick();
    const field = page.getByRole("textbox", { name: /Content of frame 2/ });
    for (const text of HOSTILE.filter((_, at) => at % 3 === 0)) await field.fill(text);
    await guard.nothingRan();
    await field.fill(HOSTILE.join("\n"));
    await guard.holds();
  });

  test("typed into a frame of JSON, as value and as key", async ({ playground, page }) => {
    await playground.open();
    await playground.card(3).dblclick();
    const field = page.getByRole("textbox", { name: /Content of frame 3/ });
    await field.fill(JSON.stringify(Object.fromEntries(HOSTILE.map((text) => [text, text]))));
    await guard.nothingRan();
    for (const text of HALF_PAIRS) await field.fill(text);
    for (const text of HOSTILE.slice(0, 20)) await field.fill(text);
    await guard.holds();
  });

  test("what imitates a marker is reported, what only looks like one is not", async ({ playground, page }) => {
    await playground.open();
    await playground.card(2).dblclick();
    const field = page.getByRole("textbox", { name: /Content of frame 2/ });
    const report = page.getByTestId("open-report");
    for (const text of FORGING) {
      await field.fill(text);
      await expect(report, text).toContainText("forged marker");
    }
    for (const text of LOOKALIKES) {
      await field.fill(text);
      await expect(report, text).toContainText("nothing forged");
    }
    await field.fill(FORGING.join(" "));
    await page.getByTestId("forged").click();
    for (const side of SIDES) {
      const entries = page.getByTestId(`forged-${side}`).locator("li");
      await expect.poll(() => entries.count()).toBeGreaterThanOrEqual(FORGING.length);
      await expect(entries.first()).toContainText("frame 2");
      for (const text of await entries.locator("dd:last-child").allTextContents()) expect(text).toMatch(/none special|^Text/);
    }
    // Not one of them is a token of its own on either side.
    for (const side of SIDES) {
      const specials = (await playground.tokens(side)).filter(({ id }) => id >= 128_000).length;
      await field.fill("plain");
      await expect(report).toContainText("nothing forged");
      expect((await playground.tokens(side)).filter(({ id }) => id >= 128_000)).toHaveLength(specials);
      await field.fill(FORGING.join(" "));
      await expect(report).toContainText("forged marker");
    }
  });

  test("in a sample's frames", async ({ playground, page }) => {
    await serve(page, { "a.json": { title: "a", frames: trajectory() } });
    await playground.open();
    await choose(page, 1);
    await expect(page.locator(".editor-list [data-frame]").nth(12)).toBeAttached();
    await everyView(playground, guard);
    await guard.holds();
  });

  test("one word of 100,000 characters", async ({ playground, page }) => {
    const frames = [
      { type: "goal", content: "g" },
      { type: "mission", content: LONG },
      { type: "action", content: { tool: "answer", text: "ok" } },
      { type: "end", content: null },
    ];
    await serve(page, { "long.json": { title: LONG.slice(0, 5000), frames } });
    await playground.open();
    await choose(page, 1);
    await expect(page.locator(".editor-list [data-frame]")).toHaveCount(4);
    for (const view of ["units", "wire", "tokens"]) {
      for (const side of SIDES) await playground.tab(side, view).click();
      await guard.layoutHolds();
    }
    await guard.holds();
  });

  test("in a file that is no trajectory", async ({ playground, page }) => {
    const files = Object.fromEntries([
      ...HALF_PAIRS.map((text, at) => [`half-${at}.json`, `{"frames": [{"type": "goal", "content": ${text}}]}`]),
      ["kind.json", { frames: [{ type: HOSTILE[0], content: HOSTILE[5] }] }],
      ["proto.json", '{"__proto__": {"polluted": true}, "frames": [{"type": "goal", "content": {"__proto__": {"polluted": true}}}]}'],
      ["markup.json", HOSTILE[0]],
    ]);
    await serve(page, files);
    await playground.open();
    for (const at of Object.keys(files).keys()) {
      await choose(page, at + 1);
      await guard.nothingRan();
    }
    await guard.holds();
  });

  test("in the list of samples", async ({ playground, page }) => {
    const entries = HOSTILE.map((text) => ({ file: `${text}.json`, title: text, domain: text, about: text }));
    await serve(page, {}, [...entries, { file: "x.json", title: LONG, domain: LONG, about: LONG }]);
    await playground.open();
    await expect.poll(() => page.getByTestId("sample").locator("option").count()).toBeGreaterThan(60);
    await guard.holds();
  });

  test("in the list of models", async ({ playground, page, site }) => {
    const variant = (title) => ({ title });
    const presets = HOSTILE.filter((text) => Buffer.byteLength(text) < 390).map((text) => ({
      name: text,
      tag: text,
      repository: text,
      note: text,
      variants: [variant(text), variant("q4")],
    }));
    const engine = new FakeEngine(page);
    await engine.install();
    let page_of_presets = presets.slice(0, 32);
    await page.route(/\/presets\.json$/, (route) => json(route, page_of_presets));
    for (let from = 0; from < presets.length; from += 32) {
      page_of_presets = presets.slice(from, from + 32);
      await page.goto(new URL(`?${from}#models`, site).href);
      await expect(page.getByTestId("models")).toBeVisible();
      engine.read = 0;
      await engine.welcome();
      await expect.poll(() => page.getByTestId("preset").count()).toBe(page_of_presets.length);
      await guard.nothingRan();
    }
    expect(await page.evaluate(() => document.querySelectorAll('a[href^="javascript:"]').length)).toBe(0);
    await guard.holds();
    void playground;
  });

  test("in what the engine says of models", async ({ playground, page, site }) => {
    const engine = new FakeEngine(page);
    await engine.install();
    await page.goto(new URL("#models", site).href);
    await expect(page.getByTestId("models")).toBeVisible();
    await engine.welcome(HOSTILE.map((text, at) => kept({ key: `k${at}`, name: text, label: text, origin: text, trouble: at % 2 ? text : null })));
    await guard.nothingRan();
    for (const text of [...HOSTILE, LONG]) {
      const licence = { name: text, link: text, attribution: text };
      await engine.say({ type: "checked", preflight: preflight({ name: text, label: text, licence }) });
      await engine.fails("badFile", text, text);
    }
    await guard.nothingRan();
    const all = HOSTILE.join(" ");
    await engine.loaded("both", { name: all, label: all, licence: { name: all, link: "javascript:window.broken=1", attribution: all }, types: [[all, 3]] });
    await expect(page.getByTestId("models")).toContainText("window.broken");
    expect(await page.evaluate(() => document.querySelectorAll('a[href^="javascript:" i], a[href^="data:" i]').length)).toBe(0);
    await guard.holds();
    await page.evaluate(() => (location.hash = ""));
    await page.getByTestId("dock-model").click();
    await page.getByTestId("about").click();
    await guard.nothingRan();
    void playground;
  });

  test("in what a model writes", async ({ playground, page }) => {
    const engine = new FakeEngine(page);
    await engine.install();
    await playground.open();
    const live = playground.live("agenticml");
    await live.open();
    await page.getByTestId("dock-model").click();
    await engine.next("probe");
    await engine.loaded("both", { name: HOSTILE[5], label: HOSTILE[9] });
    await live.start();
    await expect.poll(() => page.evaluate(() => window.asked.findLast(({ type }) => type === "generate")?.job)).toBeDefined();
    const job = await page.evaluate(() => window.asked.findLast(({ type }) => type === "generate").job);
    const token = (text, at) => ({
      type: "token",
      job,
      id: at,
      text,
      special: FORGING.includes(text),
      rate: 9.5,
      outlook: { probability: 0.5, entropy: 1.5, alternatives: [{ id: at + 1, piece: text, special: false, probability: 0.25 }] },
    });
    const stats = { promptTokens: HOSTILE.length, newTokens: HOSTILE.length, firstTokenSeconds: 0.1, tokensPerSecond: 9.5 };
    await engine.say(
      { type: "prompt", job, ids: HOSTILE.map((_, at) => at), pieces: HOSTILE, reused: 0 },
      ...HOSTILE.map(token),
      token(LONG.slice(0, 20_000), HOSTILE.length),
      { type: "finished", job, reason: "maxTokens", stats },
    );
    await expect.poll(async () => (await live.ids()).length).toBe(HOSTILE.length + 1);
    await live.promptIds();
    await guard.holds();
    await engine.say({ type: "failed", job, failure: { kind: "device", message: HOSTILE.join(" "), advice: LONG } });
    await guard.holds();
  });

  test("as the names of files", async ({ playground, page, site }) => {
    const engine = new FakeEngine(page);
    await engine.install();
    await page.goto(new URL("#models", site).href);
    await expect(page.getByTestId("models")).toBeVisible();
    await engine.welcome();
    // As a browser hands files over that were dropped; names keep what no disk would take.
    await page.evaluate((names) => {
      const transfer = new DataTransfer();
      for (const name of names) transfer.items.add(new File(["x"], name));
      const target = document.querySelector("[data-testid=models] [data-drop], [data-testid=models]");
      for (const type of ["dragenter", "dragover", "drop"]) {
        target.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
      }
      const input = document.querySelector("[data-testid=models] input[type=file]");
      if (input) {
        input.files = transfer.files;
        input.dispatchEvent(new Event("change", { bubbles: true }));
      }
    }, HOSTILE);
    await guard.holds();
    void playground;
  });

  const link = (state) => `#s=1.${deflateRawSync(Buffer.from(JSON.stringify(state))).toString("base64url")}`;

  test("in a shared link", async ({ playground, page, site }) => {
    const goTo = async (fragment) => {
      await page.goto("about:blank");
      await page.goto(new URL(fragment, site).href);
      for (const side of SIDES) await expect(playground.chips(side).first()).toBeAttached();
    };
    await goTo(link({ frames: trajectory(FORGING), title: HOSTILE[0] }));
    await expect(playground.card(0)).toContainText(FORGING[0]);
    await expect(page.getByTestId("open-report")).toContainText("forged marker");
    await guard.holds();
    const strings = HOSTILE.map((text) => encodeURIComponent(text));
    for (const fragment of [link(HOSTILE), `#s=${strings[0]}`, `#s=1.${strings.join("")}`, `#s=99.${strings[5]}`, `#${strings[0]}`]) {
      await goTo(fragment);
      await guard.nothingRan();
    }
    await page.goto(new URL(`#lessons/${strings[0]}/${strings[5]}`, site).href);
    await expect(page.getByRole("alert")).toContainText("There is no lesson of this name");
    await guard.holds();
  });

  test("pasted into the import", async ({ playground, page }) => {
    await playground.open();
    const { importer } = new Editor(page);
    await importer.paste(HOSTILE[0]);
    for (const text of HOSTILE) await importer.text.fill(text);
    await guard.nothingRan();
    await importer.text.fill(JSON.stringify(HOSTILE.map((text) => ({ role: text, content: text }))));
    await guard.nothingRan();
    await importer.text.fill(HOSTILE.map((text) => JSON.stringify({ id: text, domain: text, frames: trajectory([text]) })).join("\n"));
    await guard.nothingRan();
    await importer.text.fill(JSON.stringify([{ role: "user", content: HOSTILE.join(" ") }, { role: "assistant", content: HOSTILE.join(" ") }]));
    await importer.take();
    await expect(playground.card(0)).toContainText("window.broken");
    await expect(page.getByTestId("open-report")).toContainText("forged marker");
    await guard.holds();
  });

  test("as the result that a person gives a call", async ({ playground, page }) => {
    const engine = new FakeEngine(page);
    await engine.install();
    await playground.open();
    const live = playground.live("chatml");
    await live.open();
    await engine.hasModel();
    await live.runButton.click();
    const script = await engine.generation();
    await script.writes(...text(JSON.stringify({ name: "read_file", parameters: { path: HOSTILE[5], [HOSTILE[0]]: HOSTILE[9] } })), EOT);
    await script.ends();
    await live.calls.getByTestId("result").fill(HOSTILE.join("\n"));
    await guard.holds();
    await live.calls.getByTestId("send-result").click();
    await guard.holds();
  });

  test("in the lessons' data", async ({ playground, page, site }) => {
    const ids = HOSTILE.map((_, at) => `l${at}`).slice(0, 20);
    const pages = HOSTILE.slice(0, 12).map((text) => ({
      title: text,
      text: [[text, { strong: text }, { code: text }]],
      trajectory: "t",
      panels: [{ show: "tokens", side: "A", frames: [0, 3] }],
    }));
    await page.route(/\/lessons\/[^/]*\.json$/, (route) => {
      const lessons = ids.map((id, at) => ({ id, title: HOSTILE[at], about: HOSTILE[at], pages: pages.length }));
      if (route.request().url().endsWith("index.json")) return json(route, { format: "agenticml-lessons", version: 1, lessons });
      const id = new URL(route.request().url()).pathname.split("/").at(-1).replace(".json", "");
      return json(route, { format: "agenticml-lesson", version: 1, id, title: HOSTILE[0], about: HOSTILE[5], trajectories: { t: { frames: trajectory() } }, pages });
    });
    await page.goto(new URL("#lessons", site).href);
    await expect(page.getByTestId("lessons-list")).toContainText(HOSTILE[0]);
    await guard.holds();
    for (const address of ["#lessons/l0/1", "#lessons/l3/7", `#lessons/${encodeURIComponent(HOSTILE[0])}/1`]) {
      await page.goto("about:blank");
      await page.goto(new URL(address, site).href);
      await expect(page.locator("main:visible").first()).toBeVisible();
      await guard.nothingRan();
    }
    void playground;
  });
});
