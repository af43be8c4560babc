// Tokens per second of the CPU engine in WebAssembly, in Node.js, which has Chromium's engine.
//
//   cargo build --release -p cpu --example wasm --target wasm32-unknown-unknown --features check[,relaxed]
//   node crates/cpu/examples/wasm/bench.mjs WASM [MODEL.gguf] [--exact]
//   node crates/cpu/examples/wasm/bench.mjs WASM --check
//
// WASM is target/wasm32-unknown-unknown/release/examples/wasm.wasm; without a model the weights are random, in
// the shape of a 160M model stored as Q4_K_M. Prints prefill and decode in tokens per second, and per second of
// processor time. With --check it runs the kernels' checks instead, and fails if a kernel is wrong.

import { readFileSync } from "node:fs";

const [wasm, ...rest] = process.argv.slice(2);
const model = rest.find((argument) => !argument.startsWith("--"));
const bytes = readFileSync(wasm);
// Functions that only a browser would be asked for; none is called here.
const module = new WebAssembly.Module(bytes);
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  (imports[from] ??= {})[name] = () => {
    throw new Error(name);
  };
}
const { memory, check, room, load, run } = new WebAssembly.Instance(module, imports).exports;

if (rest.includes("--check")) {
  const share = check();
  console.log(`kernels: the largest error is ${share.toFixed(3)} of what rounding explains`);
  process.exit(share <= 1 ? 0 : 1);
}
if (model) {
  const file = readFileSync(model);
  const at = room(file.length);
  new Uint8Array(memory.buffer, at, file.length).set(file);
}
let start = performance.now();
const weights = load(rest.includes("--exact"));
console.log(`loaded in ${((performance.now() - start) / 1000).toFixed(2)} s, weights ${(weights / 1e6).toFixed(1)} MB`);

function measure(name, tokens, work) {
  const [wall, before] = [performance.now(), process.cpuUsage()];
  const sum = work();
  const seconds = (performance.now() - wall) / 1000;
  const { user, system } = process.cpuUsage(before);
  const rate = (tokens / seconds).toFixed(1);
  console.log(`${name}: ${rate} tok/s, ${((tokens / (user + system)) * 1e6).toFixed(1)} per CPU second (${sum.toFixed(3)})`);
}

const [prompt, decode] = [128, 64];
for (let round = 0; round < 4; round += 1) {
  measure("prefill", prompt, () => run(0, prompt, 32));
  measure("decode", decode, () => run(prompt, decode, 1));
}
