// Repositories of the Hugging Face hub, which is played by the test: what is asked of it, and by whom.
import { readFileSync } from "node:fs";
import { good } from "../tools/gguf.js";
import { expect, test } from "./test.js";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const HUB = "https://huggingface.co";
const TOKEN = "hf_secret";

const nano = (name) => readFileSync(new URL(`../fixtures/nano/hf/${name}`, import.meta.url));
const folder = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];

/** Repositories by name: their files, and whether they ask for a token. */
const repositories = {
  "acme/quants": { files: { "nano.Q8_0.gguf": good(), "nano.IQ2_XS.gguf": Buffer.from("GGUF") } },
  "acme/dense": { files: Object.fromEntries(folder.map((name) => [name, nano(name)])) },
  "acme/gated": { files: { "nano.Q8_0.gguf": good() }, gated: true },
};

/** Plays the hub. Resolves to the list of what was asked. */
async function play(context) {
  const asked = [];
  const cors = { "access-control-allow-origin": "*", "access-control-allow-headers": "authorization, range", "access-control-expose-headers": "*" };
  const body = (route, bytes) => {
    const first = Number(/^bytes=(\d+)-/.exec(route.request().headers().range ?? "")?.[1] ?? 0);
    const range = first ? { "content-range": `bytes ${first}-${bytes.length - 1}/${bytes.length}` } : {};
    const headers = { ...cors, ...range, "content-type": "application/octet-stream", etag: '"one"' };
    return route.fulfill({ status: first ? 206 : 200, headers, body: bytes.subarray(first) });
  };
  await context.route(`${HUB}/**`, async (route) => {
    const request = route.request();
    const url = new URL(request.url());
    if (request.method() === "OPTIONS") return route.fulfill({ status: 204, headers: cors });
    const { authorization } = await request.allHeaders();
    asked.push({ url: request.url(), authorization });
    const [, name] = /^\/(?:api\/models\/)?([^/]+\/[^/]+)\//.exec(url.pathname);
    const repository = repositories[name];
    if (!repository) return route.fulfill({ status: 404, headers: cors });
    if (repository.gated && authorization !== `Bearer ${TOKEN}`) return route.fulfill({ status: 401, headers: cors });
    const json = (value) => route.fulfill({ headers: cors, contentType: "application/json", body: JSON.stringify(value) });
    if (url.pathname.includes("/revision/")) return json({ id: name, sha: COMMIT, gated: repository.gated ? "manual" : false });
    if (url.pathname.includes("/tree/")) {
      return json(Object.entries(repository.files).map(([path, bytes]) => ({ type: "file", path, size: bytes.length })));
    }
    const file = decodeURIComponent(url.pathname.split(`/resolve/${COMMIT}/`)[1] ?? "");
    return repository.files[file] ? body(route, repository.files[file]) : route.fulfill({ status: 404, headers: cors });
  });
  return asked;
}

test.describe("repositories of the hub", { tag: "@engine" }, () => {
  test.use({ tolerated: [/Failed to load resource/] });

  let asked;
  let room;
  let check;

  test.beforeEach(async ({ context, page, site }) => {
    asked = await play(context);
    await page.goto(new URL("#models", site).href);
    room = page.getByTestId("models");
    check = page.getByTestId("check");
    await expect(room).toBeVisible();
  });

  async function look(name) {
    await room.getByTestId("own-address").fill(name);
    await room.getByTestId("own-check").click();
  }

  test("of several models one is chosen and loaded, from the commit that was listed", async ({ page }) => {
    await look("acme/quants");
    await expect(check.getByTestId("choice")).toHaveCount(2);
    await expect(check).toContainText("not supported");
    await check.getByTestId("choice").filter({ hasText: "Q8_0" }).click();
    await check.getByTestId("check-load").click();
    await expect(page.getByTestId("loaded").first()).toContainText("Q8_0", { timeout: 60_000 });
    expect(asked.every(({ authorization }) => authorization === undefined)).toBe(true);
    const files = asked.filter(({ url }) => url.includes("/resolve/"));
    expect(files.length).toBeGreaterThan(0);
    for (const { url } of files) expect(url).toContain(`/resolve/${COMMIT}/nano.Q8_0.gguf`);
  });

  test("a folder of safetensors is quantized while it streams", async ({ page }) => {
    await look("acme/dense");
    await expect(check.getByTestId("check-load")).toBeEnabled({ timeout: 30_000 });
    await check.getByTestId("check-load").click();
    await expect(page.getByTestId("loaded").first()).toContainText(/q4k/, { timeout: 60_000 });
  });

  test("a gated repository says what to do, and opens with a token that goes to the hub alone", async ({ page }) => {
    await look("acme/gated");
    await expect(check.getByTestId("failure")).toContainText(/gated/);
    await expect(check.getByTestId("failure")).toContainText(`${HUB}/acme/gated`);
    await room.locator(".token summary").click();
    await room.getByTestId("token").fill(TOKEN);
    await look("acme/gated");
    await expect(check.getByTestId("check-load")).toBeEnabled({ timeout: 30_000 });
    await check.getByTestId("check-load").click();
    await expect(page.getByTestId("loaded").first()).toContainText("Q8_0", { timeout: 60_000 });
    const kept = await page.evaluate(async () => {
      const texts = [JSON.stringify({ ...localStorage })];
      const walk = async (folder) => {
        for await (const handle of folder.values()) {
          if (handle.kind === "directory") await walk(handle);
          else texts.push(await (await handle.getFile()).text());
        }
      };
      await walk(await navigator.storage.getDirectory());
      return texts.join();
    });
    expect(kept).not.toContain(TOKEN);
  });

  test("what is not there is said", async () => {
    await look("acme/nothing");
    await expect(check.getByTestId("failure")).toContainText(/there is no acme\/nothing/);
  });
});
