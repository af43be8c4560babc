// Serves the peers' pages and the models, isolated from other origins: threads need that.
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { basename, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PAGES = fileURLToPath(new URL("pages/", import.meta.url));
const WLLAMA = fileURLToPath(new URL("../../node_modules/@wllama/wllama/esm/", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };

/** The file that an address stands for. */
function file(path, models) {
  if (path.startsWith("/wllama/")) return join(WLLAMA, path.slice("/wllama/".length));
  if (path.startsWith("/models/")) return models.find((model) => basename(model) === path.slice("/models/".length));
  return join(PAGES, path);
}

/** Starts the server; resolves to its address and how to end it. */
export function start(models) {
  const server = createServer((incoming, outgoing) => {
    const found = file(decodeURIComponent(new URL(incoming.url, "http://localhost").pathname), models);
    const data = found && statSync(found, { throwIfNoEntry: false });
    if (!data?.isFile()) return outgoing.writeHead(404).end();
    outgoing.writeHead(200, {
      "content-type": TYPES[extname(found)] ?? "application/octet-stream",
      "content-length": data.size,
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-embedder-policy": "require-corp",
    });
    createReadStream(found).pipe(outgoing);
  });
  return new Promise((done) => {
    server.listen(0, "127.0.0.1", () =>
      done({
        url: `http://127.0.0.1:${server.address().port}/`,
        close: () => {
          server.closeAllConnections();
          server.close();
        },
      }),
    );
  });
}
