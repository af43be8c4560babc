// What models write, with an engine that says what the test has it say: frames as they form, runs to an
// answer, results, branches, probabilities, settings.
import { EOT, FakeEngine, marker, outlook, text } from "./fake-engine.js";
import { expect, test } from "./test.js";

const READ_MAIN = [marker("action"), ...text('{"tool":', ' "read_file"', ", ", '"path": ', '"main.py"}'), marker("end")];
const ANSWER = [marker("action"), ...text('{"tool": "answer", "text": "Three."}'), marker("end")];
/** A model whose vocabulary is not ours. */
const SMOL = { name: "SmolLM2-135M", vocabulary: 49_152 };

test.describe("live", () => {
  let engine;
  let a;
  let b;

  async function open(playground, more) {
    await playground.open();
    for (const side of [a, b]) await side.open();
    await engine.hasModel(more);
  }

  test.beforeEach(async ({ page, playground }) => {
    engine = new FakeEngine(page);
    await engine.install();
    a = playground.live("agenticml");
    b = playground.live("chatml");
  });

  test("side A becomes typed frames as they form", async ({ playground }) => {
    await open(playground);
    await a.start();
    const script = await engine.generation();
    expect(script.request).toMatchObject({ side: "a", stops: [128_015], alternatives: 0, prompt: { type: "ids" } });
    expect(script.request.prompt.ids[0]).toBe(128_002);
    await script.writes(marker("think"), ...text("Two", " files"));
    await expect.poll(() => a.kinds()).toEqual(["think open"]);
    await expect(a.frames.first()).toContainText("open");
    await script.writes(marker("action"), ...text('{"tool":', ' "read_file", "path": "ut'));
    await expect.poll(() => a.kinds()).toEqual(["think", "action open"]);
    await expect(a.frames.last()).toContainText("open, JSON incomplete");
    await expect(a.partial).toContainText('"path": "ut…');
    await expect(a.partial).toContainText('expects: string, then "}');
    await script.writes(...text('il.py"}'), marker("end"));
    await expect.poll(() => a.kinds()).toEqual(["think", "action", "end"]);
    await expect(a.partial).toHaveCount(0);
    await script.ends();
    await expect(a.verdict).toHaveText("The call waits for its result.");
    await expect(a.frames.nth(1)).toContainText("call 1 waits for you");
    // The numbers go on from the prompt's.
    await expect(a.frames.first()).toContainText(/^3/);
  });

  test("side B's turn becomes an action when it writes one, and text when it does not", async ({ playground }) => {
    await open(playground);
    await b.start();
    let script = await engine.generation();
    expect(script.request).toMatchObject({ side: "b", stops: [], prompt: { type: "ids" } });
    await script.writes(...text('{"name": "read_file", "parameters": "{\\"path\\": \\"ma'));
    await expect(b.frames.first()).toContainText("assistantbecomesaction");
    await expect(b.partial).toContainText('inside the string: {"path": "ma…');
    await expect(b.output).toContainText("guess until the turn ends");
    await script.writes(...text('in.py\\"}"}'), EOT);
    await script.ends();
    await expect(b.verdict).toHaveText("The call waits for its result.");
    await expect(b.calls).toContainText('read_file({"path": "main.py"})');

    await b.start();
    script = await engine.generation();
    await script.writes(...text("It has", " three."));
    await expect(b.frames.first()).toContainText("text: an answer, if it ends here");
    await script.writes(EOT);
    await script.ends();
    await expect(b.verdict).toHaveText("The model answered: It has three.");
  });

  test("text that spells a marker is no marker, and a vocabulary without markers is said to spell them", async ({ playground }) => {
    await open(playground);
    await a.start();
    let script = await engine.generation();
    await script.writes(...text("<|action|>", "{}"));
    await script.ends("maxTokens");
    await expect.poll(() => a.kinds()).toEqual(["none open"]);
    await expect(a.output.locator(".tk.s")).toHaveCount(0);
    await expect(a.verdict).toContainText("The turn cannot be used: expected frame marker");

    await engine.hasModel(SMOL);
    await expect(a.panel).toContainText("as spelled text");
    await a.start();
    script = await engine.generation();
    expect(script.request.prompt.text).toContain("<|goal|>");
    await script.writes(...text("<|think", "|>", "Hm"));
    await expect.poll(() => a.kinds()).toEqual(["think open"]);
    await expect(a.frames.first()).toContainText("its marker spelled");
    await expect(a.output.locator(".tk.s")).toHaveCount(0);
    await script.ends("maxTokens");
  });

  test("stops one side, keeps what it wrote, and goes on with the other", async ({ playground, page }) => {
    await open(playground);
    await page.getByTestId("run-both").click();
    const first = await engine.generation();
    expect(first.request.side).toBe("a");
    await expect(b.state).toHaveText("waits: side A runs");
    await first.writes(marker("think"), ...text("Two"), marker("action"), ...text('{"to'));
    await expect(a.chips).toHaveCount(4);
    await a.stopButton.click();
    await engine.until("stop");
    await first.ends("stopped");
    await expect(a.reason).toHaveText("stopped");
    await expect(a.verdict).toContainText("What was closed before can be kept");
    await expect(a.chips).toHaveCount(4);
    await expect(a.keepButton).toHaveText("Keep 1 frame");
    const second = await engine.generation();
    expect(second.request.side).toBe("b");
    await second.fails("out of memory");
    await expect(b.failure).toContainText("out of memory");
    await expect(a.chips).toHaveCount(4);
    await expect(page.getByTestId("run-both")).toBeVisible();
  });

  test("runs both sides to their answers, turn by turn", async ({ playground, page }) => {
    await open(playground);
    await page.keyboard.press("r");
    const turns = [];
    const turn = async (...tokens) => {
      const script = await engine.generation();
      turns.push(script.request.side);
      await script.writes(...tokens);
      await script.ends();
      return script.request;
    };
    await turn(...READ_MAIN);
    await turn(...text('{"name": "read_file", "parameters": {"path": "main.py"}}'), EOT);
    // The sample records a result of this very call, and says so.
    for (const side of [a, b]) {
      await expect(side.calls.getByTestId("recorded")).toHaveText("recorded in this sample");
      await expect(side.calls.getByTestId("result")).not.toHaveValue("");
    }
    await b.calls.getByTestId("send-result").click();
    const request = await turn(...text("Three."), EOT);
    expect(request.side).toBe("b");
    await expect(b.verdict).toHaveText("The model answered: Three.");
    await a.calls.getByTestId("result").fill('{"lines": 3}');
    await expect(a.calls.getByTestId("recorded")).toContainText("changed by you");
    await a.calls.getByTestId("send-result").click();
    await turn(...ANSWER);
    await expect(a.verdict).toHaveText("The model answered: Three.");
    expect(turns).toEqual(["a", "b", "b", "a"]);
    await expect(a.panel.getByTestId("past-turn")).toHaveCount(1);
    await engine.quiet();
  });

  test("asks for a result of which nothing is recorded, and invents none", async ({ playground }) => {
    await open(playground);
    await a.runButton.click();
    const script = await engine.generation();
    await script.writes(marker("action"), ...text('{"tool": "read_file", "path": "else.py"}'), marker("end"));
    await script.ends();
    await expect(a.calls.getByTestId("recorded")).toContainText("nothing is recorded");
    await expect(a.calls.getByTestId("result")).toHaveValue("");
    await engine.quiet();
  });

  test("keeps a side's frames as one step, and the other side's prompt waits for that", async ({ playground, page }) => {
    await open(playground);
    const frames = () => page.locator(".editor-list .fc").count();
    const before = await frames();
    await a.runButton.click();
    const script = await engine.generation();
    await script.writes(...ANSWER);
    await script.ends();
    expect(await frames()).toBe(before);
    await expect(a.panel).toContainText("side B’s prompt does not change until it is kept");
    await a.keepButton.click();
    await expect.poll(frames).toBe(3 + 2);
    await expect(a.keepButton).toHaveText("Kept");
    await expect(a.panel.getByTestId("cut")).toHaveValue("5");
  });

  test("heat shows probabilities in place of ids, moves nothing, and asks for alternatives", async ({ playground, page }) => {
    await open(playground);
    await a.heat();
    await a.start();
    const script = await engine.generation();
    expect(script.request.alternatives).toBe(8);
    await script.writes(
      marker("think", { outlook: outlook(0.97) }),
      ...text("Two", " Read").map((token, at) => ({ ...token, outlook: outlook(at ? 0.22 : 0.61, [1000, "Two", 0.61], [7, " Both", 0.2]) })),
    );
    await expect(a.chips).toHaveCount(3);
    const seconds = () => a.chips.locator(".i").allInnerTexts();
    expect(await seconds()).toEqual([".97", ".61", ".22"]);
    await expect(a.chips.nth(1)).toHaveClass(/\blow\b/);
    await expect(a.chips.nth(2)).toHaveClass(/\bvlow\b/);
    const boxes = () => a.chips.evaluateAll((chips) => chips.map((chip) => JSON.stringify(chip.getBoundingClientRect())));
    const hot = await boxes();
    await a.chips.nth(1).focus();
    await page.keyboard.press("h");
    await expect.poll(seconds).toEqual(["128013", "1000", "1001"]);
    expect(await boxes()).toEqual(hot);
    await script.ends("maxTokens");
  });

  test("explains a written token, branches from it, and goes back", async ({ playground, page }) => {
    await open(playground);
    await a.heat();
    await a.start();
    let script = await engine.generation();
    const prompt = script.request.prompt.ids;
    const thought = outlook(0.6, [1000, "Two", 0.6], [4711, "One", 0.25]);
    await script.writes(marker("think"), { ...text("Two")[0], outlook: thought }, ...text(" files"));
    await a.chips.nth(1).click();
    const inspector = page.getByTestId("inspector");
    await expect(inspector.getByTestId("probability")).toHaveText("60.0 %");
    await expect(inspector.getByTestId("entropy")).toHaveText("0.72 bit");
    await inspector.getByTestId("alternative").nth(1).click();
    await engine.until("stop");
    await script.ends("stopped");
    script = await engine.generation();
    expect(script.request.prompt.ids).toEqual([...prompt, 128_013, 4711]);
    await script.writes(...text(" file"));
    await script.ends("maxTokens");
    await expect.poll(() => a.ids()).toEqual([128_013, 4711, 1000]);
    await expect(a.branch).toHaveText("2 of 2");
    await a.panel.getByTestId("earlier-branch").click();
    await expect.poll(() => a.ids()).toEqual([128_013, 1000, 1000]);
    await expect(a.branch).toHaveText("1 of 2");
    // B takes the best that was not taken.
    await a.chips.nth(1).focus();
    await page.keyboard.press("b");
    script = await engine.generation();
    expect(script.request.prompt.ids.at(-1)).toBe(4711);
    await script.ends("maxTokens");
    await expect(a.branch).toHaveText("3 of 3");
  });

  test("settings reach the engine", async ({ playground, page }) => {
    await open(playground);
    await page.locator("label").filter({ has: page.getByTestId("drawing-sample") }).click();
    await page.getByTestId("temperature").fill("1.2");
    await page.getByTestId("top-k").fill("7");
    await page.getByTestId("max-tokens").fill("33");
    await page.getByTestId("max-tokens").blur();
    await page.getByTestId("new-seed").click();
    const seed = Number(await page.getByTestId("seed").inputValue());
    await a.start();
    const script = await engine.generation();
    expect(script.request.maxTokens).toBe(33);
    expect(script.request.sampling).toMatchObject({ topK: 7, seed });
    expect(script.request.sampling.temperature).toBeCloseTo(1.2);
    await script.ends("maxTokens");
  });

  test("strict reading refuses a runtime's marker, lenient reading takes it", async ({ playground, page }) => {
    await open(playground);
    const write = async () => {
      await a.start();
      const script = await engine.generation();
      await script.writes(marker("result"), ...text("{}"), ...ANSWER);
      await script.ends();
    };
    await write();
    await expect(a.verdict).toContainText("runtime-owned marker '<|result|>'");
    // Nothing of it counts as a frame, whatever its markers say.
    await expect.poll(async () => (await a.kinds()).every((kind) => kind.startsWith("none"))).toBe(true);
    await page.locator("label").filter({ has: page.getByTestId("parsing-lenient") }).click();
    await write();
    await expect(a.verdict).toHaveText("The model answered: Three.");
    await expect.poll(() => a.kinds()).toEqual(["result", "action", "end"]);
  });

  test("the reference policy is offered where it changes anything, and warns", async ({ playground, page }) => {
    await open(playground);
    const safe = a.panel.getByRole("switch", { name: "Safe" });
    await safe.click();
    await expect(a.panel.getByTestId("policy-note")).toContainText("text that spells a control token becomes that token");
    await safe.click();
    await expect(a.panel.getByTestId("policy-note")).toHaveCount(0);
    await engine.hasModel(SMOL);
    await expect(safe).toHaveCount(0);
    await expect(page.getByTestId("policy-note")).toHaveCount(0);
  });

  test("figures and the context meter count prompt and new tokens", async ({ playground }) => {
    await open(playground);
    await a.start();
    const script = await engine.generation();
    const prompt = script.request.prompt.ids.length;
    await script.writes(...READ_MAIN);
    await script.ends();
    await expect(a.panel.getByTestId("rate")).toHaveText("41.6");
    await expect(a.panel.getByTestId("first-token")).toHaveText("212 ms");
    await expect(a.panel.getByTestId("used-tokens")).toHaveText(String(prompt + READ_MAIN.length));
    await expect(a.panel.getByTestId("context-meter")).toHaveAttribute(
      "aria-label",
      `context: ${prompt} prompt, ${READ_MAIN.length} new, of 2048`,
    );
  });

  test("says frames, not tokens, and leaves the focus alone", async ({ playground, page }) => {
    await open(playground);
    await a.start();
    const script = await engine.generation();
    await page.evaluate(() => {
      window.said = [];
      const watch = (region) => new MutationObserver(() => window.said.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
      document.querySelectorAll("[aria-live=polite]").forEach(watch);
    });
    await a.panel.getByTestId("cut").focus();
    for (const token of READ_MAIN) {
      await script.writes(token);
      await expect(a.chips).toHaveCount(script.count);
    }
    await script.ends();
    await expect(a.calls).toBeVisible();
    const said = await page.evaluate(() => window.said.filter((text) => text.startsWith("Side A")));
    expect(said).toEqual([
      "Side A: action frame opened.",
      "Side A: action frame closed, end frame closed.",
      `Side A: ${READ_MAIN.length} tokens written. The call waits for its result.`,
    ]);
    await expect(a.panel.getByTestId("cut")).toBeFocused();
  });

  test("follows what is written until someone scrolls", async ({ playground }) => {
    await open(playground);
    await a.start();
    const script = await engine.generation();
    const place = a.panel.getByRole("region");
    const rest = () => place.evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight);
    const many = (count) => text(...Array.from({ length: count }, (_, at) => ` word${at}`));
    await script.writes(marker("think"), ...many(300));
    await expect(a.chips).toHaveCount(301);
    await expect.poll(rest).toBeLessThan(48);
    await place.evaluate((it) => it.scrollTo(0, 0));
    await expect.poll(rest).toBeGreaterThan(48);
    await script.writes(...many(50));
    await expect(a.chips).toHaveCount(351);
    expect(await place.evaluate((it) => it.scrollTop)).toBe(0);
    await script.ends("maxTokens");
  });

  test("without a model, running leads to where one is loaded", async ({ playground, page }) => {
    await playground.open();
    await page.getByTestId("run-both").click();
    await expect(page.getByTestId("model-url")).toBeFocused();
    await engine.until("probe");
    await engine.quiet();
  });

  test("works on a phone", async ({ playground, page }) => {
    await open(playground);
    await page.setViewportSize({ width: 390, height: 844 });
    await a.start();
    const script = await engine.generation();
    await script.writes(...READ_MAIN);
    await script.ends();
    await expect(a.calls.getByTestId("send-result")).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    const wide = await page.locator(".livecol").evaluateAll((all) => all.filter((it) => it.scrollWidth > it.clientWidth + 1).length);
    expect(wide).toBe(0);
  });
});
