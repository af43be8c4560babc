// A host of a model's files that can be told to fail, and that tells what was asked of it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The files of a folder by name. */
export function folder(path) {
  return Object.fromEntries(readdirSync(path).map((name) => [name, readFileSync(join(path, name))]));
}

export class Host {
  /** Whether ranges are answered. */
  ranges = true;
  /** What all entity tags begin with; none are sent without. */
  version = "one";
  /** Where answers break off that begin before: `{ file, at, times }` each; with `always` those too that begin
   * there. Without `times` there is no end to it: a file's header is asked for before the rest of it. */
  cuts = [];
  /** Where answers stop until `release`: `{ file, at }`. */
  hold;
  /** Bytes to spoil: `{ file, at, times }` each. */
  flips = [];
  /** What was asked: `{ file, first, status }` each. */
  asked = [];
  #held = [];
  #reached = [];

  /** `files` are contents by name; `path` is where the host is. */
  constructor(path, files) {
    this.path = path;
    this.files = files;
  }

  /** The address of a file. */
  address(file) {
    return this.path + file;
  }

  /** Names of the files that hold weights, in order. */
  get data() {
    return Object.keys(this.files)
      .filter((name) => !name.endsWith(".json"))
      .sort();
  }

  /** Bytes of weights before a place, over all files. */
  before({ file, at }) {
    const earlier = this.data.filter((name) => name < file);
    return earlier.reduce((sum, name) => sum + this.files[name].length, at);
  }

  /** Bytes of weights in all. */
  get bytes() {
    return this.data.reduce((sum, name) => sum + this.files[name].length, 0);
  }

  /** The place at this share of all weights. */
  place(share) {
    let at = Math.floor(this.bytes * share);
    for (const file of this.data) {
      if (at < this.files[file].length) return { file, at };
      at -= this.files[file].length;
    }
    throw new Error(`${share} is no share`);
  }

  /** Requests for weights, from the `since`th request on. */
  askedData(since = 0) {
    return this.asked.slice(since).filter(({ file }) => this.data.includes(file));
  }

  /** Holds answers at a place from now on; resolves when one has come there. */
  holdAt(place) {
    this.hold = place;
    return new Promise((reached) => this.#reached.push(reached));
  }

  /** Ends the hold. */
  release() {
    this.hold = undefined;
    for (const go of this.#held.splice(0)) go();
  }

  async answer(name, incoming, outgoing) {
    const body = this.files[name];
    if (!body) return outgoing.writeHead(404).end();
    const tag = this.version && `"${this.version}-${name}"`;
    const asked = /^bytes=(\d+)-(\d*)$/.exec(incoming.headers.range ?? "");
    const condition = incoming.headers["if-range"];
    const partial = asked && this.ranges && (condition === undefined || condition === tag);
    const first = partial ? Number(asked[1]) : 0;
    const end = partial && asked[2] ? Math.min(Number(asked[2]) + 1, body.length) : body.length;
    const headers = {
      "content-type": name.endsWith(".json") ? "application/json" : "application/octet-stream",
      ...(tag && { etag: tag }),
      ...(this.ranges && { "accept-ranges": "bytes" }),
    };
    if (partial && first >= body.length) {
      this.asked.push({ file: name, first, status: 416 });
      return outgoing.writeHead(416, { ...headers, "content-range": `bytes */${body.length}` }).end();
    }
    const status = partial ? 206 : 200;
    this.asked.push({ file: name, first, status });
    outgoing.writeHead(status, {
      ...headers,
      "content-length": end - first,
      ...(partial && { "content-range": `bytes ${first}-${end - 1}/${body.length}` }),
    });
    if (incoming.method === "HEAD") return outgoing.end();
    outgoing.flushHeaders();
    await this.#send(name, this.#spoilt(name, body, first, end), first, end, outgoing);
  }

  /** The content with what is to be spoilt of it. */
  #spoilt(name, body, first, end) {
    let spoilt = body;
    for (const flip of this.flips) {
      if (flip.file !== name || flip.times === 0 || flip.at < first || flip.at >= end) continue;
      flip.times -= 1;
      spoilt = Buffer.from(spoilt);
      spoilt[flip.at] ^= 1;
    }
    return spoilt;
  }

  async #send(name, body, first, end, outgoing) {
    const within = (place) => place?.file === name && first <= place.at && place.at < end;
    const cut = this.cuts.find((cut) => within(cut) && (first < cut.at || cut.always) && cut.times !== 0);
    if (cut?.times) cut.times -= 1;
    const goal = cut?.at ?? end;
    let from = first;
    if (within(this.hold) && this.hold.at < goal) {
      outgoing.write(body.subarray(from, this.hold.at));
      from = this.hold.at;
      const released = new Promise((go) => {
        this.#held.push(go);
        outgoing.on("close", go);
      });
      for (const reached of this.#reached.splice(0)) reached();
      await released;
    }
    if (goal === end) return outgoing.end(body.subarray(from, end));
    // What was written must reach the other side before the break.
    outgoing.write(body.subarray(from, goal), () => setTimeout(() => outgoing.destroy(), 200));
  }
}
