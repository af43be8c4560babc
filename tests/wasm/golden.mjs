// Runs the golden cases in WebAssembly in Node.js and compares every report with the native one.
//
//   node tests/wasm/golden.mjs FOLDER NATIVE.jsonl TOKENIZER.json FILE...
//
// FOLDER is what `wasm-bindgen --target web --out-name wasm` makes of crates/agent/examples/wasm.rs, with a
// package.json that says `"type": "module"`; NATIVE.jsonl is what the example `reports` prints for the same
// files. Prints a line per file, the median time of rendering, tokenising and masking both arms of one
// trajectory, and `N passed, M failed`. `cargo xtask test --only wasm` does all this.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { conclude } from "./compare.mjs";

const [folder, native, tokenizer, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: golden.mjs FOLDER NATIVE.jsonl TOKENIZER.json FILE...");
  process.exit(2);
}
const { initSync, Conformance } = await import(pathToFileURL(resolve(folder, "wasm.js")));
initSync({ module: readFileSync(join(folder, "wasm_bg.wasm")) });
const conformance = new Conformance(readFileSync(tokenizer));
const reports = files.map((file) => conformance.report(readFileSync(file, "utf8")));
const times = [];
let tokens = 0;
for (let round = 0; round < 100; round += 1) {
  const start = performance.now();
  tokens = conformance.round();
  times.push(performance.now() - start);
}
conclude({ files, reports, native, tokens, times });
