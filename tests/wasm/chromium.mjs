// As golden.mjs, with the same arguments, in the Chromium that PLAYGROUND_CHROMIUM names.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "@playwright/test";
import { chromium as options } from "../browser/chromium.js";
import { conclude } from "./compare.mjs";

const [folder, native, tokenizer, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: chromium.mjs FOLDER NATIVE.jsonl TOKENIZER.json FILE...");
  process.exit(2);
}
const served = {
  "/": ["text/html", "<!doctype html><title>wasm</title>"],
  "/wasm.js": ["text/javascript", readFileSync(join(folder, "wasm.js"))],
  "/wasm_bg.wasm": ["application/wasm", readFileSync(join(folder, "wasm_bg.wasm"))],
  "/tokenizer.json": ["application/json", readFileSync(tokenizer)],
};
files.forEach((file, index) => (served[`/${index}`] = ["application/json", readFileSync(file)]));
const server = createServer((request, response) => {
  const [type, body] = served[request.url] ?? ["text/plain", "nothing"];
  response.writeHead(served[request.url] ? 200 : 404, { "content-type": type });
  response.end(body);
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));

const browser = await chromium.launch(options([]).launchOptions);
let found;
try {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  found = await page.evaluate(async (count) => {
    const { default: start, Conformance } = await import("/wasm.js");
    await start();
    const bytes = await (await fetch("/tokenizer.json")).arrayBuffer();
    const conformance = new Conformance(new Uint8Array(bytes));
    const reports = [];
    for (let index = 0; index < count; index += 1) {
      reports.push(conformance.report(await (await fetch(`/${index}`)).text()));
    }
    const times = [];
    let tokens = 0;
    for (let round = 0; round < 100; round += 1) {
      const start = performance.now();
      tokens = conformance.round();
      times.push(performance.now() - start);
    }
    return { reports, tokens, times };
  }, files.length);
} finally {
  await browser.close();
  server.close();
}
conclude({ files, native, ...found });
