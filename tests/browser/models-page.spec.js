// The room of models, with an engine that says what the test has it say: checks, verdicts, loads, what is
// kept. What the engine itself does is tested elsewhere.
import { FakeEngine, kept, pieces } from "./fake-engine.js";
import { expect, test } from "./test.js";

const GB = 1e9;
const HOSTILE = `<img src=x onerror="window.broken = true">\u202Egnp.\u2066`;

test.describe("the room of models", () => {
  let engine;
  let room;

  const preset = (name) => room.getByTestId("preset").filter({ has: room.page().getByRole("heading", { name }) });
  const check = () => room.getByTestId("check");

  async function enter(page, site, models, storage) {
    await page.goto(new URL("#models", site).href);
    await expect(room).toBeVisible();
    await engine.welcome(models, storage);
  }

  test.beforeEach(async ({ page }) => {
    engine = new FakeEngine(page);
    await engine.install();
    room = page.getByTestId("models");
  });

  test("is a room beside the comparison, and fetches no model unasked", async ({ playground, page, site }) => {
    const asked = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(site)) asked.push(request.url());
    });
    await playground.open();
    await page.getByRole("link", { name: "Models", exact: true }).click();
    await engine.welcome();
    await expect(page).toHaveURL(/#models$/);
    await expect(page).toHaveTitle("Models · AgenticML Playground");
    await expect(page.locator("main.work")).toBeHidden();
    await expect(room.getByTestId("preset")).toHaveCount(4);
    await expect(room.getByTestId("kept-none")).toHaveText("Nothing yet.");
    await expect(room.getByTestId("storage")).toContainText("1.90 GB used of 22.40 GB");
    await engine.quiet();
    expect(asked).toEqual([]);
    await page.goBack();
    await expect(page.locator("main.work")).toBeVisible();
    await expect(room).toHaveCount(0);
  });

  test("a model is checked, loaded piece by piece, kept, and deleted", async ({ playground, page, site }) => {
    await enter(page, site);
    await preset("AgenticML 8B").getByTestId("preset-a").click();
    const asked = await engine.next("check");
    expect(asked.source).toMatchObject({ type: "hub", repository: "kosiasuzu/agenticml-llama3.1-8b-lora-merged", file: null, token: null });
    expect(asked.sides).toBe("a");
    expect(asked.options).toMatchObject({ recipe: "q4k", context: 2048, keep: true });
    await expect(check()).toContainText("Checking AgenticML 8B, 4-bit");

    await engine.found();
    await expect(check().getByTestId("verdict")).toContainText("Yes, with 2.36 GB to spare. 5.64 GB needed for 2,048 tokens of context.");
    await expect(check()).toContainText("296 MB, split in 3 (limit 134 MB)");
    await expect(check()).toContainText("16.06 GB once, 4.70 GB from this browser from then on");
    await expect(check().getByTestId("licence")).toHaveText("Llama 3.1 Community License");
    await expect(check().getByTestId("attribution")).toHaveText("Built with Llama");
    await expect(check().getByRole("link", { name: "Read it" })).toHaveAttribute("href", "https://example.org/licence");
    await expect(preset("AgenticML 8B")).toContainText("16.06 GB to fetch, 5.64 GB of memory for 2,048 tokens");

    await check().getByTestId("check-load").click();
    const load = await engine.next("load");
    expect(load.source).toEqual(asked.source);
    expect(load.options).toEqual(asked.options);
    await engine.progress(0.5 * GB, 4.7 * GB, 10);
    await engine.progress(1.7 * GB, 4.7 * GB, 20);
    await engine.say(pieces({ verified: 26, hashing: 26, arriving: { piece: 27, done: 30e6, bytes: 64e6 }, kept: 26, fetched: 5.8 * GB }));
    const panel = room.getByTestId("load-panel");
    await expect(panel.getByTestId("strip").locator("i")).toHaveCount(75);
    await expect(panel.getByTestId("strip").locator("i.v")).toHaveCount(26);
    await expect(panel.getByTestId("strip")).toHaveAttribute("aria-label", "26 of 75 pieces verified, 0 in storage, 1 being checked, 1 arriving");
    // What arrives counts before it is handed out: 27 pieces and 30 MB.
    await expect(panel).toContainText("1.76 GB of 4.70 GB, 5.80 GB over the network");
    await page.waitForTimeout(300);
    await engine.progress(1.71 * GB, 4.7 * GB, 21);
    await expect(panel).toContainText(/rate\s*[\d.]+ [MG]B\/s/);
    await expect(panel).toContainText(/left\s*[\d.]+ m?s/);
    await expect(panel.getByTestId("keeps")).toHaveText("Closing the tab keeps 26 pieces and goes on with piece 27.");
    await expect(preset("AgenticML 8B")).toContainText("37 %");

    await engine.residence("resident", "empty");
    await engine.loaded("a");
    await engine.next("list");
    await engine.keeps([kept({ key: "eight", name: "AgenticML 8B", label: "q4", bytes: 4.7 * GB, totalBytes: 4.7 * GB, pieces: 75, totalPieces: 75 })]);
    await expect(panel).toHaveCount(0);
    await expect(room.getByTestId("loaded")).toContainText("Kept in this browser.");
    await expect(room.getByTestId("loaded").getByTestId("attribution")).toHaveText("Built with Llama");
    await expect(preset("AgenticML 8B").locator(".tag.on")).toHaveText(["A"]);
    const row = room.getByTestId("kept");
    await expect(row).toContainText("75 of 75");
    await expect(row).toContainText("all pieces");

    await row.getByTestId("kept-delete").click();
    await engine.quiet();
    await page.getByRole("button", { name: "Keep it" }).click();
    await engine.quiet();
    await row.getByTestId("kept-delete").click();
    await page.getByTestId("confirm-delete").click();
    expect((await engine.next("delete")).key).toBe("eight");
    await engine.keeps([]);
    await expect(row).toHaveCount(0);
  });

  test("what is refused says why, and offers what would fit", async ({ playground, page, site }) => {
    await enter(page, site);
    await preset("ChatML 8B").getByText("8-bit").click();
    await preset("ChatML 8B").getByTestId("preset-b").click();
    expect((await engine.next("check")).options.recipe).toBe("q8");
    await engine.found({
      name: "ChatML 8B",
      weightBytes: 8.5 * GB,
      findings: [{ refuses: true, message: "It needs 9.44 GB, which is 1.44 GB more than the limit you set." }],
      offers: [{ type: "recipe", recipe: "q4k", totalBytes: 5.64 * GB }, { type: "context", context: 512, totalBytes: 7.9 * GB }, { type: "smallerModel" }],
    });
    await expect(check().getByTestId("verdict")).toContainText("No, 1.44 GB too much.");
    await expect(check().getByTestId("findings")).toContainText("1.44 GB more than the limit");
    await expect(check().getByTestId("check-load")).toBeDisabled();
    await expect(check().getByTestId("offer")).toHaveText([
      "4-bit, 5.64 GB",
      "512 tokens of context, 7.90 GB",
      "Mini agent 1B",
      "SmolLM2-135M-Instruct",
    ]);

    await check().getByTestId("offer").first().click();
    expect((await engine.next("check")).options).toMatchObject({ recipe: "q4k", context: 2048 });
    await engine.found({ name: "ChatML 8B" });
    await expect(check().getByTestId("verdict")).toContainText("Yes");
    await expect(check().getByTestId("check-load")).toBeEnabled();

    await check().locator("label", { has: page.getByTestId("context-8192") }).click();
    expect((await engine.next("check")).options.context).toBe(8192);
    // While that is checked, what was found stays, and nothing can be loaded.
    await expect(check().getByTestId("verdict")).toContainText("2,048 tokens");
    await expect(check().getByTestId("check-load")).toBeDisabled();
    await engine.found({ name: "ChatML 8B", context: 8192, cacheBytes: 2.16 * GB });
    await expect(check().getByTestId("verdict")).toContainText("with 740 MB to spare");
    await expect(page.getByTestId("context-8192")).toBeChecked();
    await check().locator("label", { has: page.getByTestId("check-for-both") }).click();
    expect((await engine.next("check")).sides).toBe("both");
  });

  test("a limit on memory goes along, and outlasts the page", async ({ playground, page, site }) => {
    await enter(page, site);
    await room.getByTestId("memory-limit").fill("6.5");
    await room.getByTestId("memory-limit").blur();
    await page.reload();
    engine.read = 0;
    await engine.welcome();
    await expect(room.getByTestId("memory-limit")).toHaveValue("6.5");
    await preset("SmolLM2").getByTestId("preset-a").click();
    const { options, source } = await engine.next("check");
    expect(options.memoryLimit).toBe(6.5 * GB);
    expect(options.recipe).toBe(null);
    expect(source.file).toBe("SmolLM2-135M-Instruct-Q8_0.gguf");
  });

  test("of several models one is chosen; a preset chooses by itself", async ({ playground, page, site }) => {
    const choices = [
      { file: "x.Q4_K_M.gguf", label: "GGUF, Q4_K_M", bytes: 808e6 },
      { file: "x.Q8_0.gguf", label: "GGUF, Q8_0", bytes: null },
    ];
    await enter(page, site);
    await room.getByTestId("own-address").fill("owner/name");
    await room.getByTestId("own-check").click();
    expect((await engine.next("check")).source).toMatchObject({ type: "hub", repository: "owner/name", file: null });
    await engine.say({ type: "choices", choices });
    await expect(check().getByTestId("choice")).toHaveText(["x.Q4_K_M.gguf", "x.Q8_0.gguf"]);
    await expect(check()).toContainText("808 MB");
    await check().getByTestId("choice").last().click();
    const chosen = await engine.next("check");
    expect(chosen.source.file).toBe("x.Q8_0.gguf");
    expect(chosen.options.recipe).toBe(null);
    await check().getByTestId("check-cancel").click();
    await engine.next("stop");
    await engine.fails("badRequest", "it was stopped");
    await expect(page.getByTestId("failure")).toHaveCount(0);

    await preset("Mini agent").getByTestId("preset-b").click();
    await engine.next("check");
    await engine.say({ type: "choices", choices });
    expect((await engine.next("check")).source.file).toBe("x.Q4_K_M.gguf");
  });

  test("a token goes with the request, and nowhere else", async ({ playground, page, site }) => {
    await enter(page, site);
    await room.locator(".token summary").click();
    await expect(room.getByTestId("token")).toHaveAttribute("type", "password");
    await room.getByTestId("token").fill("hf_secret");
    await room.getByTestId("own-address").fill("https://example.org/x.gguf");
    await room.getByTestId("own-check").click();
    expect((await engine.next("check")).source).toEqual({ type: "url", url: "https://example.org/x.gguf", token: "hf_secret" });
    await engine.fails("network", "https://example.org/x.gguf: 401 Unauthorized");
    await expect(check().getByTestId("failure")).toContainText("401");
    await expect(check().getByTestId("failure")).toContainText("Try something else.");
    await expect(room.getByTestId("own-address")).toHaveValue("https://example.org/x.gguf");
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, document.body.innerText]));
    expect(stored).not.toContain("hf_secret");
    await check().getByTestId("check-again").click();
    await engine.next("check");
  });

  test("files and folders of this machine", async ({ playground, page, site }) => {
    await enter(page, site);
    await room.getByTestId("own-file").setInputFiles({ name: "x.gguf", mimeType: "application/octet-stream", buffer: Buffer.from("GGUF") });
    const file = await engine.next("check");
    expect(file.source).toEqual({ type: "files", names: ["x.gguf"] });
    expect(file.files).toEqual([{ name: "x.gguf", size: 4 }]);
    expect(file.options.keep).toBe(false);
    await engine.found({ label: "GGUF, Q8_0", downloadBytes: 0 });
    await expect(check()).toContainText("nothing: all of it is here");

    // A folder that is dropped: browsers show it to pages as entries.
    await page.evaluate(() => {
      const file = (name, text) => ({ isFile: true, isDirectory: false, name, file: (done) => done(new File([text], name)) });
      const folder = (name, entries) => ({
        isFile: false,
        isDirectory: true,
        name,
        createReader: () => {
          const parts = [entries.slice(0, 1), entries.slice(1), []];
          return { readEntries: (done) => done(parts.shift()) };
        },
      });
      const entry = folder("model", [file("config.json", "{}"), folder("more", [file("a.safetensors", "abc")])]);
      const data = { items: { length: 1, 0: { webkitGetAsEntry: () => entry } }, files: { length: 0 } };
      const event = new DragEvent("drop", { bubbles: true, cancelable: true });
      Object.defineProperty(event, "dataTransfer", { value: data });
      document.querySelector("main.models h1").dispatchEvent(event);
    });
    const dropped = await engine.next("check");
    expect(dropped.source).toEqual({ type: "files", names: ["config.json", "more/a.safetensors"] });
    expect(dropped.files.map(({ size }) => size)).toEqual([2, 3]);
    expect(dropped.options.recipe).toBe("q4k");
  });

  test("a load is paused, goes on, breaks off, and is cancelled with what it left", async ({ playground, page, site }) => {
    await enter(page, site);
    const start = async () => {
      await room.getByTestId("own-address").fill("https://example.org/x.gguf");
      await room.getByTestId("own-check").click();
      await engine.next("check");
      await engine.found({ name: "x", label: "GGUF, Q8_0" });
      await check().getByTestId("check-load").click();
    };
    const panel = room.getByTestId("load-panel");
    await start();
    await engine.next("load");
    await engine.progress(1 * GB, 4 * GB, 5);
    await engine.say(pieces({ total: 60, verified: 15, kept: 15 }));
    await panel.getByTestId("load-pause-room").click();
    await engine.next("stop");
    await engine.fails("badRequest", "it was stopped");
    await engine.next("list");
    await engine.keeps([kept({ key: "x", pieces: 15, totalPieces: 60 })]);
    await expect(panel.getByTestId("load-stage")).toContainText("Paused");
    await expect(panel.getByTestId("strip").locator("i.v")).toHaveCount(15);
    await expect(panel.getByTestId("failure")).toHaveCount(0);

    await panel.getByTestId("load-on").click();
    expect((await engine.next("load")).source.url).toBe("https://example.org/x.gguf");
    await engine.progress(1 * GB, 4 * GB, 1);
    await engine.fails("network", "the connection broke");
    await engine.next("list");
    await engine.keeps([kept({ key: "x", pieces: 15, totalPieces: 60 })]);
    await expect(panel.getByTestId("load-stage")).toContainText("Broken off");
    await expect(panel.getByTestId("failure")).toContainText("the connection broke");

    await panel.getByTestId("load-on").click();
    await engine.next("load");
    await panel.getByTestId("load-cancel").click();
    await engine.next("stop");
    await engine.fails("badRequest", "it was stopped");
    await engine.next("list");
    const other = kept({ key: "other", lastUsed: 1 });
    await engine.keeps([kept({ key: "x", pieces: 15, totalPieces: 60, lastUsed: Date.now() + 1000 }), other]);
    expect((await engine.next("delete")).key).toBe("x");
    await engine.keeps([other]);
    await expect(panel).toHaveCount(0);
    await expect(room.getByTestId("kept")).toHaveCount(1);
  });

  test("what is kept loads at once where nothing speaks against it", async ({ playground, page, site }) => {
    await enter(page, site, [kept(), kept({ key: "half", name: "Mini agent", pieces: 12, totalPieces: 20, bytes: 911e6, totalBytes: 1.32 * GB }), kept({ key: "bad", name: "Old", trouble: "of another version" })]);
    const rows = room.getByTestId("kept");
    await expect(rows.nth(1)).toContainText("911 MB of 1.32 GB");
    await expect(rows.nth(1)).toContainText("12 of 20");
    await expect(rows.nth(1).getByTestId("kept-delete")).toHaveText("Discard");
    await expect(rows.nth(2)).toContainText("of another version");
    await expect(rows.nth(2).getByTestId("kept-a")).toHaveCount(0);
    await rows.nth(0).getByTestId("kept-b").click();
    const asked = await engine.next("check");
    expect(asked.source).toEqual({ type: "kept", key: "one" });
    await engine.found({ label: "GGUF, Q8_0", downloadBytes: 0, keptBytes: 145e6 });
    expect((await engine.next("load")).sides).toBe("b");
  });

  test("two models that take turns: the page says where each is", async ({ playground, page, site }) => {
    await enter(page, site);
    for (const [side, name, a, b] of [["a", "One", "resident", "empty"], ["b", "Two", "away", "resident"]]) {
      await room.getByTestId("own-address").fill(`https://example.org/${name}.gguf`);
      await room.getByTestId("own-check").click();
      await engine.next("check");
      await engine.found({ name, label: "GGUF, Q8_0", otherBytes: side === "b" ? 4 * GB : 0 });
      await check().locator("label", { has: page.getByTestId(`check-for-${side}`) }).click();
      await engine.next("check");
      await engine.found({ name, label: "GGUF, Q8_0", otherBytes: side === "b" ? 4 * GB : 0 });
      if (side === "b") await expect(check().getByTestId("verdict")).toContainText("not beside the other side’s model");
      await check().getByTestId("check-load").click();
      await engine.next("load");
      await engine.residence(a, b);
      await engine.loaded(side, { name });
      await engine.next("list");
      await engine.keeps([]);
    }
    await expect(room.getByTestId("residence")).toContainText("B is in memory, A is read again");
    await page.getByRole("link", { name: "Compare", exact: true }).click();
    const live = playground.live("agenticml");
    await live.open();
    await expect(live.panel.getByTestId("whereabouts")).toContainText("Generate reads it from this browser’s storage again first.");
    await live.prompt("x");
    await live.start();
    expect((await engine.next("generate")).side).toBe("a");
    await engine.progress(2 * GB, 4 * GB, 3);
    await expect(live.reason).toContainText("reading the model again: reading weights, 50 %");
    await engine.residence("resident", "away");
    await engine.loaded("a", { name: "One" });
    await engine.say({ type: "finished", job: 1, reason: "maxTokens", stats: { promptTokens: 1, newTokens: 1, firstTokenSeconds: 1, tokensPerSecond: 1 } });
    await expect(live.panel.getByTestId("whereabouts")).toHaveCount(0);
    await expect(page.getByTestId("model-status")).toContainText("Two");

    await page.getByTestId("about").click();
    await expect(page.getByTestId("about-dialog")).toContainText("One");
    await expect(page.getByTestId("about-dialog")).toContainText("MIT or Apache-2.0");
  });

  test("both in memory is said too", async ({ playground, page, site }) => {
    await enter(page, site);
    await engine.loaded("a", { name: "One" });
    await engine.loaded("b", { name: "Two" });
    await engine.residence("resident", "resident");
    await expect(room.getByTestId("residence")).toContainText("Both are in memory");
  });

  test("hostile names are text, and only web addresses are links", async ({ playground, page, site }) => {
    await enter(page, site, [kept({ name: HOSTILE, label: HOSTILE, origin: HOSTILE })]);
    await expect(room.getByTestId("kept")).toContainText("<img");
    await room.getByTestId("own-address").fill("https://example.org/x.gguf");
    await room.getByTestId("own-check").click();
    await engine.next("check");
    await engine.found({
      name: HOSTILE,
      label: `GGUF ${HOSTILE}`,
      licence: { name: HOSTILE, link: "javascript:window.broken=true", attribution: HOSTILE },
      findings: [{ refuses: false, message: HOSTILE }],
      storage: { Err: HOSTILE },
      weightBytes: Number.MAX_SAFE_INTEGER,
      otherBytes: Number.MAX_SAFE_INTEGER,
    });
    await expect(check().getByTestId("licence")).toContainText("<img");
    await expect(check().locator("a")).toHaveCount(0);
    await check().getByTestId("check-load").click();
    await engine.next("load");
    await engine.progress(Number.MAX_SAFE_INTEGER, 1, 1);
    await engine.say(pieces({ total: 4294967295, verified: 4294967295, hashing: 4294967295, notKept: HOSTILE }));
    expect(await room.getByTestId("strip").locator("i").count()).toBeLessThanOrEqual(240);
    await expect(room.getByTestId("keeps")).toContainText("What comes is not kept: <img");
    await engine.fails("badFile", HOSTILE, HOSTILE);
    await expect(room.getByTestId("load-panel").getByTestId("failure")).toContainText("<img");
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.evaluate(() => window.broken)).toBe(undefined);
  });

  test("a form of its own is taken as it is, unless another is asked for", async ({ playground, page, site }) => {
    await enter(page, site);
    await room.getByTestId("own-address").fill("owner/name");
    await room.getByTestId("own-check").click();
    expect((await engine.next("check")).options.recipe).toBe("q4k");
    await engine.found({ label: "GGUF, quantized to q4k" });
    expect((await engine.next("check")).options.recipe).toBe(null);
    await engine.found({ label: "GGUF, F16", offers: [{ type: "recipe", recipe: "q8", totalBytes: 2 * GB }] });
    await expect(page.getByTestId("weights-as-is")).toBeChecked();
    await check().getByTestId("offer").click();
    expect((await engine.next("check")).options.recipe).toBe("q8");
    await engine.found({ label: "GGUF, quantized to q8" });
    await expect(page.getByTestId("weights-q8")).toBeChecked();
    await engine.quiet();
  });

  test("no storage is said", async ({ playground, page, site }) => {
    await enter(page, site, [], { Err: "this browser has no private file system" });
    await expect(room.getByTestId("storage")).toContainText("keeps nothing here: this browser has no private file system");
  });

  test("an engine that cannot be started is said, and the list of models stays", async ({ playground, page, site }) => {
    await enter(page, site);
    await room.getByTestId("own-address").fill("owner/name");
    await room.getByTestId("own-check").click();
    await engine.next("check");
    await engine.fails("internal", "the engine broke down: of itself");
    await expect(check().getByTestId("failure")).toContainText("the engine broke down");
    await expect(room.getByTestId("failure")).toHaveCount(1);
    await expect(room.getByTestId("preset")).toHaveCount(4);
    await check().getByTestId("check-again").click();
    await engine.next("check");
    await engine.found();
    await expect(check().getByTestId("verdict")).toContainText("Yes");
  });

  test.describe("on a phone", () => {
    test.use({ viewport: { width: 390, height: 844 }, hasTouch: true });

    test("nothing is wider than the screen, and the check comes into view", async ({ playground, page, site }) => {
      await enter(page, site, [kept(), kept({ key: "half", name: "Mini agent", pieces: 12, totalPieces: 20 })]);
      await preset("AgenticML 8B").getByTestId("preset-a").click();
      await engine.next("check");
      await engine.found({ findings: [{ refuses: false, message: "It does not fit beside the other side's model." }], otherBytes: 4 * GB });
      await expect(page.locator("#check-title")).toBeInViewport();
      const width = await page.evaluate(() => Math.max(document.scrollingElement.scrollWidth, document.querySelector("main.models").scrollWidth));
      expect(width).toBeLessThanOrEqual(390);
    });
  });

  test("works by keyboard: the check takes the focus, radios and switches follow the keys", async ({ playground, page, site }) => {
    await enter(page, site);
    await preset("SmolLM2").getByTestId("preset-a").focus();
    await page.keyboard.press("Enter");
    await engine.next("check");
    await expect(page.locator("#check-title")).toBeFocused();
    await engine.found({ name: "SmolLM2", label: "GGUF, Q8_0" });
    await page.keyboard.press("Tab");
    await expect(page.getByTestId("check-for-a")).toBeFocused();
    await page.keyboard.press("ArrowRight");
    expect((await engine.next("check")).sides).toBe("b");
    await engine.found({ name: "SmolLM2", label: "GGUF, Q8_0" });
    // A new answer takes nothing away from under the keys.
    await expect(page.getByTestId("check-for-b")).toBeFocused();
    await page.keyboard.press("Escape");
    await expect(check()).toHaveCount(0);
  });
});
