// Runs the golden cases in WebAssembly and compares every report with the native one.
//
//   node tests/wasm/golden.mjs MODULE.js NATIVE.jsonl TOKENIZER.json FILE...
//
// MODULE.js is what `wasm-bindgen --target nodejs` makes of crates/agent/examples/wasm.rs, NATIVE.jsonl
// what the example `reports` prints for the same files. Prints a line per file, the median time of the
// bench, and `N passed, M failed`.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const [module, native, tokenizer, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: golden.mjs MODULE.js NATIVE.jsonl TOKENIZER.json FILE...");
  process.exit(2);
}
const { Conformance } = createRequire(import.meta.url)(resolve(module));
const reports = readFileSync(native, "utf8").trimEnd().split("\n");
const conformance = new Conformance(readFileSync(tokenizer));

let failed = reports.length === files.length ? 0 : 1;
if (failed) console.log(`${reports.length} native reports for ${files.length} files`);
for (const [index, file] of files.entries()) {
  const report = conformance.report(readFileSync(file, "utf8"));
  const { subject, passed, total } = JSON.parse(report);
  const same = report === reports[index];
  console.log(`${subject}: ${passed}/${total}${same ? "" : " (not as native)"}`);
  if (!same) {
    failed += 1;
    console.log(`  wasm   ${report.slice(0, 2000)}\n  native ${String(reports[index]).slice(0, 2000)}`);
  }
}

const times = [];
let tokens = 0;
for (let round = 0; round < 100; round += 1) {
  const start = performance.now();
  tokens = conformance.round();
  times.push(performance.now() - start);
}
times.sort((a, b) => a - b);
console.log(`both arms, ${tokens} tokens: median ${times[50].toFixed(2)} ms`);
console.log(`${files.length - Math.min(failed, files.length)} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
