// Models on their way into the browser and in its storage: whatever goes wrong, it is said, nothing is
// lost, and the page goes on working.
import { join } from "node:path";
import { good } from "../tools/gguf.js";
import { folder } from "./host.js";
import { Playground } from "./pages/playground.js";
import { Storage } from "./pages/storage.js";
import { complaints, expect, test } from "./test.js";

/** Bytes of a piece of what does not come in shards. */
const PIECE = 64 << 10;
/** Frame whose text is edited before anything goes wrong. */
const FRAME = 2;
const TYPED = "What is typed stays.";
const MINUTE = 60_000;

/** A scaled-down 8B as our shards, which `cargo xtask test` makes. */
const shards = (recipe = "q4") => folder(join(process.env.PLAYGROUND_MODELS, `random-nano-8b.${recipe}`));
/** What is read, and kept of a shard on its way, at once. */
const STEP = 1 << 20;

/** A page in which something was typed and the model panel is open. */
async function opened(page, site) {
  const playground = new Playground(page, site);
  await playground.open();
  await playground.card(FRAME).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel(`Content of frame ${FRAME}`).fill(TYPED);
  await page.keyboard.press("Escape");
  const live = playground.live("chatml");
  await live.open();
  await live.prompt(TYPED);
  await playground.model.open();
  return playground;
}

/** Has the loaded model write something; returns its tokens. */
async function writes(playground) {
  const live = playground.live("chatml");
  await live.open();
  await playground.page.getByTestId("max-tokens").fill("4");
  await playground.page.getByTestId("max-tokens").blur();
  await live.start();
  await live.settled(MINUTE);
  await expect(live.failure).toHaveCount(0);
  const ids = await live.ids();
  expect(ids.length).toBeGreaterThan(0);
  await playground.model.open();
  return ids;
}

/** Checks that what was typed is there, and that a sound model loads and writes. */
async function works(playground) {
  await expect(playground.card(FRAME)).toContainText(TYPED);
  await playground.model.load("/faults/good.gguf");
  await playground.model.ready(MINUTE);
  await expect(playground.model.failure).toHaveCount(0);
  await writes(playground);
  const live = playground.live("chatml");
  await live.open();
  await expect(live.panel.getByTestId("free-prompt")).toHaveValue(TYPED);
}

test.describe("models and their storage", { tag: "@engine" }, () => {
  // The browser itself reports failed requests to the console.
  test.use({ tolerated: [/Failed to load resource/] });
  test.setTimeout(3 * MINUTE);

  let tab;

  test.beforeEach(async ({ context, page, site }) => {
    // Pieces of the usual size would hold a small model whole.
    await context.addInitScript((piece) => {
      const { Worker } = window;
      window.Worker = class extends Worker {
        constructor(address, options) {
          super(`${address}&piece=${piece}`, options);
        }
      };
    }, PIECE);
    tab = await opened(page, site);
  });

  test.afterEach(async () => {
    await works(tab);
  });

  test("a server that drops the connection at 30 %: it goes on there", async ({ server }) => {
    const host = server.host({ "nano.gguf": good() });
    const cut = host.place(0.3);
    host.cuts.push(cut);
    await tab.model.load(host.address("nano.gguf"));
    await tab.model.ready(MINUTE);
    const [last] = host.askedData().slice(-1);
    expect(last).toMatchObject({ first: cut.at, status: 206 });
    await writes(tab);
  });

  test("shards from a server that drops the connection at 30 %: they go on there", async ({ server }) => {
    const host = server.host(shards());
    const cut = host.place(0.3);
    host.cuts.push(cut);
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    const asked = host.askedData();
    const again = asked.findIndex(({ file, first }) => file === cut.file && first === cut.at);
    expect(again).toBeGreaterThan(0);
    for (const { file, first } of asked.slice(again)) expect(host.before({ file, at: first })).toBeGreaterThanOrEqual(host.before(cut));
    await writes(tab);
  });

  test("a server that drops every connection at 30 %: said, and Load again goes on there", async ({ server }) => {
    const host = server.host(shards());
    const cut = host.place(0.3);
    host.cuts.push({ ...cut, always: true });
    await tab.model.load(host.address("model.json"));
    await tab.model.failed("Network", /connection|network|broke|lost|interrupted/i);
    host.cuts.length = 0;
    const before = host.asked.length;
    await tab.model.again.click();
    await tab.model.ready(MINUTE);
    // The manifest may be asked for again; no weight before the cut is.
    for (const { file, first } of host.askedData(before)) expect(host.before({ file, at: first })).toBeGreaterThanOrEqual(host.before(cut));
    await writes(tab);
  });

  test("a server without ranges", async ({ server }) => {
    const host = server.host({ "nano.gguf": good() });
    host.ranges = false;
    // The connection for the header, and the one for the weights.
    host.cuts.push({ ...host.place(0.3), times: 2 });
    await tab.model.load(host.address("nano.gguf"));
    await tab.model.ready(MINUTE);
    expect(host.cuts[0].times).toBe(0);
    for (const { first, status } of host.asked) expect({ first, status }).toEqual({ first: 0, status: 200 });
    await writes(tab);
  });

  test("a file that is replaced midway: said, and Load again takes the new one", async ({ server }) => {
    const host = server.host({ "nano.gguf": good() });
    const middle = host.place(0.5);
    host.cuts.push(middle);
    const held = host.holdAt({ ...middle, at: middle.at - 1 });
    await tab.model.load(host.address("nano.gguf"));
    await held;
    host.version = "two";
    host.release();
    await tab.model.failed("Network", /changed|another|replaced/i);
    await tab.model.again.click();
    await tab.model.ready(MINUTE);
    await writes(tab);
  });

  test("a file that was replaced since a part of it was kept: the part is thrown away", async ({ server, page, site }) => {
    const host = server.host({ "nano.gguf": good() });
    const held = host.holdAt(host.place(0.6));
    await tab.model.load(host.address("nano.gguf"));
    await held;
    await page.reload();
    host.release();
    host.version = "two";
    tab = await opened(page, site);
    await tab.model.load(host.address("nano.gguf"));
    await tab.model.ready(MINUTE);
    await writes(tab);
  });

  test("a byte that is wrong once: the shard is fetched again", async ({ server }) => {
    const host = server.host(shards());
    const place = host.place(0.4);
    host.flips.push({ ...place, times: 1 });
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    expect(host.flips[0].times).toBe(0);
    expect(host.asked.filter(({ file }) => file === place.file).length).toBe(2);
    await writes(tab);
  });

  test("a byte that is always wrong: the shard is named", async ({ server }) => {
    const host = server.host(shards());
    const place = host.place(0.4);
    host.flips.push({ ...place, times: Infinity });
    await tab.model.load(host.address("model.json"));
    await tab.model.failed(/BadFile|Network/, place.file);
    await expect(tab.model.failure).toContainText(/damaged|checksum/i);
  });

  test("a second visit: nothing is fetched, not even what the server no longer has", async ({ server, page, site }) => {
    const host = server.host(shards());
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    const ids = await writes(tab);
    host.files = {};
    const before = host.asked.length;
    await page.reload();
    tab = await opened(page, site);
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    expect(host.asked.slice(before)).toEqual([]);
    expect(await writes(tab)).toEqual(ids);
  });

  test("a byte that is wrong in storage: that piece alone is fetched again", async ({ server, page, site }) => {
    const host = server.host(shards());
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    const ids = await writes(tab);
    const storage = new Storage(page);
    const spoilt = await storage.spoilLargest();
    expect(spoilt.size).toBeGreaterThan(0);
    const before = host.asked.length;
    await page.reload();
    tab = await opened(page, site);
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    const fetched = new Set(host.askedData(before).map(({ file }) => file));
    expect(fetched.size).toBe(1);
    expect(await writes(tab)).toEqual(ids);
  });

  test("a quota that is exceeded midway: said, and the model loads without being kept", async ({ server, page }) => {
    const host = server.host(shards());
    const held = host.holdAt(host.place(0.4));
    await tab.model.load(host.address("model.json"));
    await held;
    const storage = new Storage(page);
    await storage.quota(100_000);
    host.release();
    const late = host.holdAt(host.place(0.9));
    await late;
    await storage.room();
    await expect(storage.keeps).toContainText(/not kept.*(room|full|quota)/i);
    host.release();
    await storage.leave();
    await tab.model.open();
    await tab.model.ready(MINUTE);
    await writes(tab);
  });

  test("a manifest of a future version", async ({ server }) => {
    const files = shards();
    const manifest = JSON.parse(files["model.json"]);
    const host = server.host({ ...files, "model.json": Buffer.from(JSON.stringify({ ...manifest, version: 99 })) });
    await tab.model.load(host.address("model.json"));
    await tab.model.failed(/Unsupported|BadFile/, /version.*99|99.*version/);
    expect(host.askedData()).toEqual([]);
  });

  test("a tab that is closed at 60 % and reopened: only the rest is fetched", async ({ server, context, site }) => {
    const host = server.host(shards("f16"));
    const place = host.place(0.6);
    const kept = Math.floor(place.at / STEP) * STEP;
    expect(kept).toBeGreaterThan(0);
    const held = host.holdAt(place);
    await tab.model.load(host.address("model.json"));
    await held;
    const storage = new Storage(tab.page);
    // The shards before it, and what there is of it.
    const shard = host.data.indexOf(place.file);
    await expect.poll(async () => (await storage.sizes()).filter((size) => size >= kept).length, { timeout: MINUTE }).toBe(shard + 1);
    await tab.page.close();
    host.release();
    const before = host.asked.length;
    const page = await context.newPage();
    const heard = complaints(page);
    tab = await opened(page, site);
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    const [first, ...rest] = host.askedData(before);
    expect(first).toMatchObject({ file: place.file, first: kept, status: 206 });
    for (const { file } of rest) expect(file > place.file, file).toBe(true);
    expect(heard).toEqual([]);
    await writes(tab);
  });

  test("a load that is stopped for another", async ({ server, page }) => {
    const host = server.host(shards());
    const held = host.holdAt(host.place(0.5));
    await tab.model.load(host.address("model.json"));
    await held;
    await page.getByTestId("load-stop").click();
    await expect(page.getByTestId("load-stop")).toHaveCount(0, { timeout: 10_000 });
    // The other one loads while the answer of the first still hangs; afterEach does the same again.
    await works(tab);
    host.release();
    const before = host.asked.length;
    await tab.model.open();
    await tab.model.load(host.address("model.json"));
    await tab.model.ready(MINUTE);
    expect(host.askedData(before).length).toBeLessThan(host.data.length);
    await writes(tab);
  });

  test("two tabs that load the same model at once: one keeps it, both write the same", async ({ server, context, site }) => {
    const host = server.host(shards());
    const held = host.holdAt(host.place(0.5));
    await tab.model.load(host.address("model.json"));
    await held;
    const page = await context.newPage();
    const heard = complaints(page);
    const other = await opened(page, site);
    await other.model.load(host.address("model.json"));
    const storage = new Storage(page);
    await storage.room();
    await expect(storage.keeps).toContainText(/not kept.*another tab/i);
    await storage.leave();
    await other.model.open();
    host.release();
    await other.model.ready(MINUTE);
    await tab.model.ready(MINUTE);
    expect(await writes(other)).toEqual(await writes(tab));
    expect(heard).toEqual([]);
    await works(other);
    await page.close();
  });
});

for (const [title, hook, reason] of [
  ["has no private file system", "delete StorageManager.prototype.getDirectory;", /not kept.*storage/i],
  [
    "refuses its private file system",
    `StorageManager.prototype.getDirectory = async () => { throw new DOMException("refused", "SecurityError"); };`,
    /not kept.*storage/i,
  ],
]) {
  test(`a browser that ${title}: said, and models load without being kept`, { tag: "@engine" }, async ({ server, page, site }) => {
    test.setTimeout(3 * MINUTE);
    await page.route(/\/assets\/worker-[^/]*\.js/, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: `${hook}\n${await answer.text()}` });
    });
    const heard = complaints(page);
    const tab = await opened(page, site);
    const host = server.host(shards());
    const held = host.holdAt(host.place(0.5));
    await tab.model.load(host.address("model.json"));
    await held;
    const storage = new Storage(page);
    await storage.room();
    await expect(storage.keeps).toContainText(reason);
    await storage.leave();
    host.release();
    await tab.model.open();
    await tab.model.ready(MINUTE);
    await writes(tab);
    await works(tab);
    expect(heard).toEqual([]);
  });
}
