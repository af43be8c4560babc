// A server in front of the real one that brings out a new edition of the site when told to, counts what it is
// asked for, and can go away. For tests of what the service worker keeps.
import { createServer } from "node:http";

export class Editions {
  constructor(behind) {
    this.behind = behind;
    this.edition = 1;
    this.asked = [];
  }

  async start() {
    this.server = createServer((incoming, outgoing) => this.answer(incoming, outgoing).catch(() => outgoing.destroy()));
    await new Promise((done) => this.server.listen(this.port ?? 0, "127.0.0.1", done));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}/`;
  }

  /** Goes away, as the network does. */
  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  /** How often a path was asked for. */
  times(path) {
    return this.asked.filter((asked) => asked.path === path).length;
  }

  async answer(incoming, outgoing) {
    const { pathname } = new URL(incoming.url, this.behind);
    this.asked.push({ path: pathname, range: incoming.headers.range });
    if (pathname === "/models/some.gguf") {
      outgoing.writeHead(incoming.headers.range ? 206 : 200, { "content-type": "application/octet-stream", "cache-control": "no-store" });
      return outgoing.end("GGUF");
    }
    const answer = await fetch(new URL(pathname, this.behind), { headers: incoming.headers.range ? { range: incoming.headers.range } : {} });
    let body = Buffer.from(await answer.arrayBuffer());
    if (pathname === "/sw.js") body = Buffer.from(body.toString().replace(/VERSION = "[^"]*"/, `VERSION = "edition-${this.edition}"`));
    if (pathname === "/") body = Buffer.from(body.toString().replace("<body ", `<body data-edition="${this.edition}" `));
    const headers = Object.fromEntries(["content-type", "content-security-policy", "cache-control"].map((name) => [name, answer.headers.get(name)]).filter(([, value]) => value));
    outgoing.writeHead(answer.status, headers);
    outgoing.end(body);
  }
}
