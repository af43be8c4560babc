// The page without a network, and how a new version of it arrives.
import { Editions } from "./editions.js";
import { Playground, SIDES } from "./pages/playground.js";
import { Share } from "./pages/share.js";
import { expect, test as base } from "./test.js";

const test = base.extend({
  /** The site behind a server that this test can stop and renew. */
  editions: async ({}, use) => {
    const editions = new Editions(process.env.PLAYGROUND_URL);
    await editions.start();
    await use(editions);
    await editions.stop();
  },
  /** The page, visited once, so that all is kept. */
  visited: async ({ page, editions }, use) => {
    const playground = new Playground(page, editions.url);
    await playground.open();
    await kept(page);
    await use(playground);
  },
});

test.use({ serviceWorkers: "allow" });
// Every file of the site is fetched twice.
test.describe.configure({ timeout: 120_000 });

/** Waits until a version of the page is kept and answers for this page. */
async function kept(page) {
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) {
      await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }));
    }
  });
}

const edition = (page) => page.evaluate(() => document.body.dataset.edition);

test("after one visit the page opens without a network", async ({ visited, editions, page }) => {
  await editions.stop();
  await page.reload();
  for (const side of SIDES) await expect(visited.chips(side).first()).toBeAttached();
  await editions.start();
});

test("without a network every sample opens", async ({ visited, editions, page }) => {
  await editions.stop();
  await page.reload();
  await expect(visited.chips("chatml").first()).toBeAttached();
  const samples = page.getByTestId("sample");
  await expect.poll(() => samples.locator("option").count()).toBeGreaterThan(24);
  const before = await visited.tokens("agenticml");
  await samples.selectOption({ index: 20 });
  await expect.poll(async () => JSON.stringify(await visited.tokens("agenticml"))).not.toBe(JSON.stringify(before));
  const files = await page.evaluate(async () => {
    const list = await (await fetch("samples/index.json")).json();
    return await Promise.all(list.map(async ({ file }) => (await fetch(`samples/${file}`)).ok));
  });
  expect(files.every(Boolean)).toBe(true);
  await editions.start();
});

test("models and ranges go to the network untouched", async ({ visited, editions, page }) => {
  await page.reload();
  await expect(visited.chips("chatml").first()).toBeAttached();
  await page.evaluate(async () => {
    for (let time = 0; time < 2; time++) {
      await (await fetch("models/some.gguf")).text();
      await (await fetch("models/some.gguf", { headers: { range: "bytes=0-3" } })).text();
      await (await fetch("icon.svg", { headers: { range: "bytes=0-3" }, cache: "no-store" })).text();
    }
    const cache = await caches.keys();
    if (await caches.match("models/some.gguf")) throw new Error(`kept in ${cache}`);
  });
  expect(editions.times("/models/some.gguf")).toBe(4);
  expect(editions.asked.filter(({ path, range }) => path === "/icon.svg" && range === "bytes=0-3")).toHaveLength(2);
});

test("the page's own files come from what is kept", async ({ visited, editions, page }) => {
  const { length } = editions.asked;
  await page.reload();
  await expect(visited.chips("chatml").first()).toBeAttached();
  // The browser asks for the worker's script to see whether there is a newer one.
  expect(editions.asked.slice(length).map(({ path }) => path).filter((path) => path !== "/sw.js")).toEqual([]);
});

test("a new version is offered, and used by the next load", async ({ visited, editions, page }) => {
  editions.edition = 2;
  await page.reload();
  expect(await edition(page)).toBe("1");
  const share = new Share(page);
  await expect(share.newer).toBeVisible({ timeout: 45_000 });
  // Not under the open page.
  expect(await edition(page)).toBe("1");
  await page.getByTestId("use-newer").click();
  await expect.poll(() => edition(page).catch(() => "")).toBe("2");
  await expect(visited.chips("chatml").first()).toBeAttached();
  await expect(share.newer).toBeHidden();
});

test("a new version does not cost work", async ({ visited, editions, page }) => {
  const share = new Share(page);
  await visited.tab("chatml", "wire").click();
  editions.edition = 2;
  await page.reload();
  await expect(share.newer).toBeVisible({ timeout: 45_000 });
  await visited.tab("agenticml", "wire").click();
  await page.getByTestId("use-newer").click();
  await expect.poll(() => edition(page).catch(() => "")).toBe("2");
  for (const side of SIDES) await expect(visited.tab(side, "wire")).toHaveAttribute("aria-selected", "true");
});

test("the page can be installed", async ({ visited, page }) => {
  const manifest = await page.evaluate(async () => {
    const { href } = document.querySelector("link[rel=manifest]");
    const answer = await fetch(href);
    return { type: answer.headers.get("content-type"), ...(await answer.json()) };
  });
  expect(manifest.type).toContain("manifest+json");
  expect(manifest.display).toBe("standalone");
  for (const { src } of manifest.icons) {
    expect(await page.evaluate(async (src) => (await fetch(src)).ok, src)).toBe(true);
  }
});
