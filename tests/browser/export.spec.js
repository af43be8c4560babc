// The comparison as a picture, as a table, and on paper.
import { deflateRawSync } from "node:zlib";
import { SIDES } from "./pages/playground.js";
import { Share } from "./pages/share.js";
import { expect, test } from "./test.js";

test.use({ permissions: ["clipboard-read", "clipboard-write"] });

/** Reads a drawing as a browser reads XML; the texts in it, its size, and whether it is well formed. */
async function read(page, svg) {
  return await page.evaluate((svg) => {
    const xml = new DOMParser().parseFromString(svg, "image/svg+xml");
    const root = xml.documentElement;
    const foreign = [...xml.querySelectorAll("*")].map(({ localName }) => localName).filter((name) => /script|foreignObject|image|style|use|a$/i.test(name));
    return {
      errors: xml.querySelectorAll("parsererror").length,
      foreign,
      texts: [...xml.querySelectorAll("text")].map(({ textContent }) => textContent),
      size: ["width", "height"].map((name) => Number(root.getAttribute(name))),
    };
  }, svg);
}

for (const view of ["tokens", "wire", "units"]) {
  test(`the SVG shows the ${view} of both sides`, async ({ playground, page }) => {
    await playground.open();
    const tokens = await playground.tokens("agenticml");
    for (const side of SIDES) await playground.tab(side, view).click();
    const share = new Share(page);
    await share.open();
    const { name, content } = await share.saved("save-svg");
    expect(name).toBe("agenticml-lines-in-main-py.svg");
    const drawn = await read(page, content.toString());
    expect(drawn.errors).toBe(0);
    expect(drawn.foreign).toEqual([]);
    expect(drawn.texts).toContain("Lines in main.py");
    const all = drawn.texts.join(" ").replace(/\s+/g, " ");
    expect(all).toContain("121 tokens, 44 trained");
    if (view === "tokens") for (const { id } of tokens) expect(drawn.texts).toContain(String(id));
    else expect(all).toMatch(/How many lines are in main\.py\?/);
  });
}

test("hostile text in a drawing stays text", async ({ playground, page }) => {
  await playground.open();
  const share = new Share(page);
  const state = { title: "</title><script>1</script>", frames: [{ type: "goal", content: "g" }, { type: "mission", content: "</text><script>alert(1)</script>\u0001\uffff]]>" }, { type: "belief", content: "b" }, { type: "end", content: null }] };
  await page.goto(`${playground.site}?#s=1.${deflateRawSync(JSON.stringify(state)).toString("base64url")}`);
  await expect(playground.chips("chatml").first()).toBeAttached();
  await share.open();
  const drawn = await read(page, (await share.saved("save-svg")).content.toString());
  expect(drawn.errors).toBe(0);
  expect(drawn.foreign).toEqual([]);
});

test("the PNG is the drawing at twice its size", async ({ playground, page }) => {
  await playground.open();
  const share = new Share(page);
  await share.open();
  const svg = await read(page, (await share.saved("save-svg")).content.toString());
  const { name, content } = await share.saved("save-png");
  expect(name).toBe("agenticml-lines-in-main-py.png");
  const data = `data:image/png;base64,${content.toString("base64")}`;
  const { size, colours } = await page.evaluate(async (data) => {
    const image = new Image();
    image.src = data;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width;
    canvas.height = image.height;
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
    return { size: [image.width, image.height], colours: new Set(pixels).size };
  }, data);
  expect(size).toEqual(svg.size.map((length) => length * 2));
  expect(colours).toBeGreaterThan(50);
});

test("one turn alone makes a smaller picture", async ({ playground, page }) => {
  await playground.open();
  const share = new Share(page);
  await share.open();
  const whole = await read(page, (await share.saved("save-svg")).content.toString());
  await page.getByTestId("only-turn").check();
  const turn = await read(page, (await share.saved("save-svg")).content.toString());
  expect(turn.size[1]).toBeLessThan(whole.size[1]);
});

test("in the dark, a picture can be light or as shown", async ({ playground, page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await playground.open();
  const share = new Share(page);
  await share.open();
  const paper = async () => /<rect [^>]*fill="(#[0-9a-f]{6})"/.exec((await share.saved("save-svg")).content.toString())[1];
  expect(await paper()).toBe("#fafbf9");
  await page.getByTestId("light-background").uncheck();
  expect(await paper()).toBe("#14181b");
});

test("the Markdown table has the shown counts", async ({ playground, page }) => {
  await playground.open();
  const counts = await Promise.all(SIDES.map((side) => playground.counts(side)));
  const share = new Share(page);
  await share.open();
  await page.getByTestId("copy-table").click();
  await expect(share.done).toBeVisible();
  const table = await share.clipboard();
  const line = (name) => table.split("\n").find((line) => line.startsWith(`| ${name} |`))?.split("|").slice(2, 4).map((cell) => Number(cell));
  expect(line("**all**")).toEqual(counts.map(({ tokens }) => tokens));
  expect(line("**trained**")).toEqual(counts.map(({ trained }) => trained));
  const frames = table.split("\n").filter((line) => /^\| \d+ \|/.test(line));
  expect(frames).toHaveLength(9);
});

test("paper has both sides and nothing of the page", async ({ playground, page }) => {
  await playground.open();
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: 1047, height: 720 });
  for (const side of SIDES) await expect(playground.chips(side).last()).toBeVisible();
  for (const chrome of [".top", ".pane.l", ".pane.r", ".notices"]) await expect(page.locator(chrome)).toBeHidden();
  const [a, b] = await Promise.all(SIDES.map((side) => playground.rows(side).first().boundingBox()));
  expect(b.x).toBeGreaterThanOrEqual(a.x + a.width);
});
