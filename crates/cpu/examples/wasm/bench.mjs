// Tokens per second of the CPU engine in WebAssembly, in Node.js, which has Chromium's engine.
//
//   cargo build --release -p cpu --example wasm --target wasm32-unknown-unknown [--features relaxed]
//   node crates/cpu/examples/wasm/bench.mjs WASM [MODEL.gguf] [--exact]
//
// WASM is target/wasm32-unknown-unknown/release/examples/wasm.wasm; without a model the weights are random, in
// the shape of a 160M model stored as Q4_K_M. Prints prefill and decode in tokens per second, and per second of
// processor time.

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
const { memory, room, load, run } = new WebAssembly.Instance(module, imports).exports;

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
