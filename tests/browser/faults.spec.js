// What goes wrong is said, with what to do, and the page goes on working.
import { foreign, good, text, truncated } from "../tools/gguf.js";
import { expect, test } from "./test.js";

for (const choice of ["cpu", "gpu"]) {
  test.describe(`a model that cannot be loaded, ${choice}`, { tag: "@engine" }, () => {
    // The browser itself reports failed requests to the console.
    test.use({ tolerated: [/Failed to load resource/] });

    test.beforeEach(async ({ playground }) => {
      await playground.open();
      await playground.model.open();
      await playground.model.runOn(choice);
    });

    // After a failure the page must still do its work, which is checked by loading a sound model.
    test.afterEach(async ({ playground }) => {
      expect((await playground.tokens("chatml")).length).toBeGreaterThan(0);
      await playground.model.load("/faults/good.gguf");
      await playground.model.ready(60_000);
      await expect(playground.model.failure).toHaveCount(0);
    });

    test("an address where nothing is", async ({ playground }) => {
      await playground.model.load("/models/no-such-model.gguf");
      await playground.model.failed("Network", "404");
    });

    test("a truncated file at an address", async ({ playground }) => {
      await playground.model.load("/faults/truncated.gguf");
      await playground.model.failed("BadFile", /truncated|ends|short|incomplete/i);
    });

    test("a truncated file of this machine", async ({ playground }) => {
      await playground.model.choose("half.gguf", truncated());
      await playground.model.failed("BadFile", /truncated|ends|short|incomplete/i);
    });

    test("a text with a model's name", async ({ playground }) => {
      await playground.model.choose("notes.gguf", text());
      await playground.model.failed("BadFile", /GGUF/);
    });

    test("a model of another architecture", async ({ playground }) => {
      await playground.model.choose("mamba.gguf", foreign());
      await playground.model.failed("Unsupported", /mamba/);
    });

    test("a network that breaks half way, each time", async ({ playground }) => {
      await playground.model.load("/faults/cut.gguf");
      await playground.model.failed("Network", /connection|network|broke|lost|interrupted/i);
    });
  });
}

test.describe("a connection that breaks once", { tag: "@engine" }, () => {
  test.use({ tolerated: [/Failed to load resource/] });

  test("is taken up again", async ({ playground }) => {
    await playground.open();
    await playground.model.open();
    await playground.model.load("/faults/cut-once.gguf");
    await playground.model.ready(60_000);
  });
});

test.describe("a file of this machine", { tag: "@engine" }, () => {
  test("is loaded like one at an address", async ({ playground }) => {
    await playground.open();
    await playground.model.open();
    await playground.model.choose("nano.gguf", good());
    await playground.model.ready(60_000);
  });
});
