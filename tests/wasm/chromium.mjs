// Runs the golden cases and the bench of tests/wasm/golden.mjs in Chromium.
//
//   node tests/wasm/chromium.mjs FOLDER NATIVE.jsonl TOKENIZER.json FILE...
//
// FOLDER is what `wasm-bindgen --target web --out-name wasm` makes of crates/agent/examples/wasm.rs.
// PLAYGROUND_CHROMIUM names the browser. Prints whether all reports are as native, and the median time of
// rendering, tokenising and masking both arms of a 2,048-token trajectory; fails above 16 ms.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "@playwright/test";

const [folder, native, tokenizer, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: chromium.mjs FOLDER NATIVE.jsonl TOKENIZER.json FILE...");
  process.exit(2);
}
const LIMIT = 16;
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

const browser = await chromium.launch({
  executablePath: process.env.PLAYGROUND_CHROMIUM,
  chromiumSandbox: false,
});
let ok = false;
try {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const { reports, times } = await page.evaluate(async (count) => {
    const { default: start, Conformance } = await import("/wasm.js");
    await start();
    const bytes = await (await fetch("/tokenizer.json")).arrayBuffer();
    const conformance = new Conformance(new Uint8Array(bytes));
    const reports = [];
    for (let index = 0; index < count; index += 1) {
      reports.push(conformance.report(await (await fetch(`/${index}`)).text()));
    }
    const times = [];
    for (let round = 0; round < 200; round += 1) {
      const start = performance.now();
      conformance.round();
      times.push(performance.now() - start);
    }
    return { reports, times };
  }, files.length);
  const same = reports.join("\n") === readFileSync(native, "utf8").trimEnd();
  times.sort((a, b) => a - b);
  const median = times[times.length / 2];
  console.log(`${files.length} files in Chromium: ${same ? "as native" : "NOT as native"}`);
  console.log(`both arms of a 2,048-token trajectory: median ${median.toFixed(2)} ms`);
  ok = same && median < LIMIT;
} finally {
  await browser.close();
  server.close();
}
console.log(ok ? "1 passed, 0 failed" : "0 passed, 1 failed");
process.exit(ok ? 0 : 1);
