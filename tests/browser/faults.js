// A server in front of the real one that also serves spoilt models and breaks connections. It stands in
// front so that the page finds them at its own origin, as its policy wants.
import { createReadStream, statSync } from "node:fs";
import { createServer, request } from "node:http";
import { fixture, foreign, good, text, truncated } from "../tools/gguf.js";
import { Host } from "./host.js";

const files = {
  "/faults/good.gguf": good,
  "/faults/truncated.gguf": truncated,
  "/faults/text.gguf": text,
  "/faults/foreign.gguf": foreign,
};

/** Starts the server; resolves to its address, how to end it, and how to have it serve more. */
export function start(behind, model) {
  const hosts = [];
  const server = createServer((incoming, outgoing) => {
    const { pathname } = new URL(incoming.url, behind);
    const [, number, file] = /^\/faults\/hosts\/(\d+)\/(.+)$/.exec(pathname) ?? [];
    if (number) return hosts[number].answer(decodeURIComponent(file), incoming, outgoing);
    if (pathname === "/faults/cut.gguf") return cut(model, incoming, outgoing);
    if (pathname === "/faults/cut-once.gguf") {
      return from(incoming) > 0 ? send(good(), incoming, outgoing) : cut(fixture, incoming, outgoing);
    }
    const make = files[pathname];
    if (make) return send(make(), incoming, outgoing);
    pass(behind, incoming, outgoing);
  });
  return new Promise((done) => {
    server.listen(0, "127.0.0.1", () =>
      done({
        url: `http://127.0.0.1:${server.address().port}/`,
        /** Serves these contents by name from now on, with faults as they are set on the result. */
        host: (contents) => {
          const host = new Host(`/faults/hosts/${hosts.length}/`, contents);
          hosts.push(host);
          return host;
        },
        close: () => {
          server.closeAllConnections();
          server.close();
        },
      }),
    );
  });
}

function pass(behind, incoming, outgoing) {
  const target = new URL(incoming.url, behind);
  const headers = { ...incoming.headers, host: target.host };
  const forwarded = request(target, { method: incoming.method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
    outgoing.on("close", () => answer.destroy());
  });
  forwarded.on("error", () => outgoing.destroy());
  incoming.pipe(forwarded);
}

/** First byte of the asked range, or 0. */
function from(incoming) {
  return Number(/^bytes=(\d+)-/.exec(incoming.headers.range ?? "")?.[1] ?? 0);
}

/** Headers for a file of this size from this byte on. */
function head(outgoing, incoming, size, first) {
  const headers = {
    "content-type": "application/octet-stream",
    "accept-ranges": "bytes",
    "content-length": size - first,
  };
  if (!incoming.headers.range) return outgoing.writeHead(200, headers);
  outgoing.writeHead(206, { ...headers, "content-range": `bytes ${first}-${size - 1}/${size}` });
}

function send(body, incoming, outgoing) {
  const first = from(incoming);
  head(outgoing, incoming, body.length, first);
  outgoing.end(incoming.method === "HEAD" ? undefined : body.subarray(first));
}

/** Serves a file up to its middle, then breaks the connection; again for every later try. */
function cut(path, incoming, outgoing) {
  const { size } = statSync(path);
  const first = from(incoming);
  const middle = Math.floor(size / 2);
  head(outgoing, incoming, size, first);
  if (incoming.method === "HEAD") return outgoing.end();
  outgoing.flushHeaders();
  if (first >= middle) return void setTimeout(() => outgoing.destroy(), 20);
  createReadStream(path, { start: first, end: middle - 1 })
    .on("data", (piece) => outgoing.write(piece))
    // What was written must reach the other side before the break.
    .on("end", () => outgoing.write("", () => setTimeout(() => outgoing.destroy(), 200)));
}
