// Loads the engine that the page asks for with `?processor=`: `gpu`, or `cpu` for the fastest one that
// this browser can run without a GPU; `simd128` keeps to the older vectors, for comparison. Messages that
// arrive before it runs are kept for it; a failure to load becomes an event like any other, so that the
// page can say what happened.
const engines = {
  gpu: ["{{gpu_js}}", "{{gpu_wasm}}"],
  simd128: ["{{cpu_js}}", "{{cpu_wasm}}"],
  relaxed: ["{{relaxed_js}}", "{{relaxed_wasm}}"],
};

// (module (func (param v128 v128) (result v128)
//   local.get 0 local.get 1 i16x8.relaxed_dot_i8x16_i7x16_s))
const relaxed = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // "\0asm", version 1
  0x01, 0x07, 0x01, 0x60, 0x02, 0x7b, 0x7b, 0x01, 0x7b, // types: one, from two v128 to one
  0x03, 0x02, 0x01, 0x00, // functions: one, of type 0
  0x0a, 0x0b, 0x01, 0x09, 0x00, // bodies: one, of 9 bytes, without locals
  0x20, 0x00, 0x20, 0x01, 0xfd, 0x92, 0x02, 0x0b, // both locals, the product (0x112 in LEB128), end
]);

const early = [];
self.onmessage = (event) => early.push(event.data);

const { searchParams } = new URL(import.meta.url);

/** A figure from the address; `piece` and `binding` make a small model go the ways of a large one. */
function figure(name) {
  const value = Number(searchParams.get(name));
  return value > 0 ? value : undefined;
}

function engine() {
  const asked = searchParams.get("processor");
  const name = asked === "cpu" ? (WebAssembly.validate(relaxed) ? "relaxed" : "simd128") : asked;
  return engines[name].map((file) => new URL(file, import.meta.url));
}

async function load() {
  const [script, module] = engine();
  // Both travel at the same time.
  const [{ default: init, start, Limits }, module_or_path] = await Promise.all([import(script), fetch(module)]);
  await init({ module_or_path });
  return () => start(early, new Limits(figure("piece"), figure("binding")));
}

load().then(
  (start) => start(),
  (error) =>
    self.postMessage({
      type: "failed",
      job: null,
      failure: {
        kind: "network",
        message: `the engine could not be loaded: ${error}`,
        advice: "Check the connection and reload the page.",
      },
    }),
);
