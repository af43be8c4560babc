// Spoilt model files, made from the small ones in tests/fixtures.
import { readFileSync } from "node:fs";

/** Where the sound one is. */
export const fixture = new URL("../fixtures/nano/nano-q8_0.gguf", import.meta.url);

/** A small Llama with everything in order. */
export function good() {
  return readFileSync(fixture);
}

/** The same file, ended in the midst of its weights. */
export function truncated() {
  const file = good();
  return file.subarray(0, Math.floor(file.length * 0.6));
}

/** The same file, which says that it is of another architecture. */
export function foreign() {
  const file = good();
  const key = "general.architecture";
  const at = file.indexOf(key) + key.length;
  // After the key: the type of the value (4 bytes, 8 is text), its length (8 bytes), its bytes.
  if (file.readUInt32LE(at) !== 8) throw new Error("the architecture is not a text");
  const length = Number(file.readBigUInt64LE(at + 4));
  // As long as the name that it replaces, so that nothing moves.
  file.fill("mamba".padEnd(length, "x").slice(0, length), at + 12, at + 12 + length);
  return file;
}

/** No model at all. */
export function text() {
  return Buffer.from("This is a text, whatever its name says.\n".repeat(50));
}
