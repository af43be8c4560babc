// What a worker allocates in JavaScript, and its WebAssembly memory. Put before the worker's own script.

/** Counts in the global scope that it runs in, and tells whoever asks on the channel "allocations". */
function watch() {
  const largest = { bytes: 0, by: "" };
  const memories = [];
  const note = (bytes, by) => {
    if (bytes > largest.bytes) Object.assign(largest, { bytes, by });
  };
  const isBuffer = (value) => /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(value));
  // Views of a buffer that is there allocate nothing.
  const counting = (name) => {
    const plain = self[name];
    if (!plain) return;
    self[name] = new Proxy(plain, {
      construct(target, given, maker) {
        const made = Reflect.construct(target, given, maker === self[name] ? target : maker);
        if (!isBuffer(given[0])) note(made.byteLength, name);
        return made;
      },
    });
  };
  const kinds = ["Int8", "Uint8", "Uint8Clamped", "Int16", "Uint16", "Int32", "Uint32", "Float16", "Float32", "Float64", "BigInt64", "BigUint64"];
  for (const kind of kinds) counting(`${kind}Array`);
  counting("ArrayBuffer");
  // What gives a new buffer without a constructor.
  const giving = (owner, name) => {
    const plain = owner?.prototype[name];
    if (!plain) return;
    owner.prototype[name] = function (...given) {
      const made = plain.apply(this, given);
      const noted = (made) => {
        note(made?.byteLength ?? made?.value?.byteLength ?? 0, `${owner.name}.${name}`);
        return made;
      };
      return made instanceof Promise ? made.then(noted) : noted(made);
    };
  };
  giving(ArrayBuffer, "slice");
  giving(Object.getPrototypeOf(Uint8Array), "slice");
  for (const owner of [self.Response, self.Blob]) for (const name of ["arrayBuffer", "bytes"]) giving(owner, name);
  giving(self.ReadableStreamDefaultReader, "read");
  giving(self.GPUBuffer, "getMappedRange");
  // The module makes its memory itself and exports it.
  const found = ({ instance }) => {
    for (const value of Object.values(instance.exports)) if (value instanceof WebAssembly.Memory) memories.push(value);
  };
  for (const name of ["instantiate", "instantiateStreaming"]) {
    const plain = WebAssembly[name];
    WebAssembly[name] = async (...given) => {
      const made = await plain.apply(WebAssembly, given);
      found(made.instance ? made : { instance: made });
      return made;
    };
  }
  const { Memory } = WebAssembly;
  WebAssembly.Memory = new Proxy(Memory, {
    construct(target, given) {
      const made = Reflect.construct(target, given);
      memories.push(made);
      return made;
    },
  });
  const channel = new BroadcastChannel("allocations");
  channel.onmessage = ({ data }) => {
    if (data !== "ask") return;
    // A memory never shrinks.
    const wasmBytes = memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
    channel.postMessage({ largestBytes: largest.bytes, largestBy: largest.by, wasmBytes });
  };
}

/** Has every worker of a page watched from its start. */
export async function watchWorkers(page) {
  await page.route(/\/assets\/worker-[^/]*\.js/, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: `(${watch})();\n${await answer.text()}` });
  });
}

/** What the one worker of a page has allocated so far. */
export async function allocations(page) {
  return await page.evaluate(
    () =>
      new Promise((resolve) => {
        const channel = new BroadcastChannel("allocations");
        channel.onmessage = ({ data }) => {
          if (data === "ask") return;
          channel.close();
          resolve(data);
        };
        channel.postMessage("ask");
      }),
  );
}
