// Makes a picture of the page small: it keeps the 256 colours that it uses most, and for every other pixel
// the nearest of those, which only the edges of letters need.
import { deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

/** The same picture with a palette. Takes what Chromium writes: 8 bits, RGB or RGBA, not interlaced. */
export function smaller(png) {
  const { width, height, pixels, bytes } = read(png);
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += bytes) {
    const colour = pixels.readUIntBE(at, 3);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one)).slice(0, 256);
  const index = new Map(palette.map((colour, at) => [colour, at]));
  for (const colour of counts.keys()) if (!index.has(colour)) index.set(colour, nearest(palette, colour));
  // A filter byte of 0 begins every row.
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at += bytes) rows[y * (width + 1) + 1 + x] = index.get(pixels.readUIntBE(at, 3));
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const parts = [
    ["IHDR", header],
    ["PLTE", colours],
    ["IDAT", deflateSync(rows, { level: 9, memLevel: 9 })],
    ["IEND", Buffer.alloc(0)],
  ];
  return Buffer.concat([SIGNATURE, ...parts.map(([name, data]) => chunk(name, data))]);
}

function nearest(palette, colour) {
  let best = 0;
  let least = Infinity;
  for (let at = 0; at < palette.length; at++) {
    const other = palette[at];
    const red = (colour >> 16) - (other >> 16);
    const green = ((colour >> 8) & 255) - ((other >> 8) & 255);
    const blue = (colour & 255) - (other & 255);
    const distance = red * red + green * green + blue * blue;
    if (distance < least) [best, least] = [at, distance];
  }
  return best;
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** The checksum of PNG. */
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function read(png) {
  const data = [];
  let header;
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const name = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (name === "IHDR") header = body;
    if (name === "IDAT") data.push(body);
    at += 12 + length;
  }
  const width = header.readUInt32BE(0);
  const height = header.readUInt32BE(4);
  const bytes = header[9] === 6 ? 4 : 3;
  const stride = width * bytes;
  const rows = inflateSync(Buffer.concat(data));
  const pixels = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = rows[y * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x;
      const left = x >= bytes ? pixels[at - bytes] : 0;
      const above = y ? pixels[at - stride] : 0;
      const corner = x >= bytes && y ? pixels[at - stride - bytes] : 0;
      const value = rows[at + y + 1];
      if (filter === 0) pixels[at] = value;
      else if (filter === 1) pixels[at] = value + left;
      else if (filter === 2) pixels[at] = value + above;
      else if (filter === 3) pixels[at] = value + ((left + above) >> 1);
      else pixels[at] = value + paeth(left, above, corner);
    }
  }
  return { width, height, pixels, bytes };
}

function paeth(left, above, corner) {
  const guess = left + above - corner;
  const a = Math.abs(guess - left);
  const b = Math.abs(guess - above);
  const c = Math.abs(guess - corner);
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}
