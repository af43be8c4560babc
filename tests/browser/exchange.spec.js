// Import and export: every form in, every form out, and what is said when it cannot be read.
import { Editor } from "./pages/editor.js";
import { expect, test } from "./test.js";

const FRAMES = [
  { type: "goal", content: "Be brief." },
  { type: "mission", content: "Say hello." },
  { type: "action", content: { tool: "answer", text: "Hello." } },
  { type: "end", content: null },
];
const MESSAGES = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Say hello." },
  { role: "assistant", content: "Hello." },
];
const HEADER = (role) => `<|start_header_id|>${role}<|end_header_id|>\n\n`;
const CHAT = [
  `<|begin_of_text|>${HEADER("system")}Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nBe brief.<|eot_id|>`,
  `${HEADER("user")}Say hello.<|eot_id|>${HEADER("assistant")}Hello.<|eot_id|>`,
].join("");
const KINDS = ["goal", "mission", "action", "end"];
const WITHOUT_END = KINDS.slice(0, 3);

const forms = [
  ["a list of frames", JSON.stringify(FRAMES), "frames JSON", KINDS],
  ["an object with frames", JSON.stringify({ frames: FRAMES }, null, 2), "frames JSON", KINDS],
  ["a list of messages", JSON.stringify(MESSAGES), "messages JSON", WITHOUT_END],
  ["an object with messages", JSON.stringify({ messages: MESSAGES }), "messages JSON", WITHOUT_END],
  ["a row with frames", JSON.stringify({ id: "r1", frames: FRAMES }), "a data-set row with frames", KINDS],
  ["a row with frames in a string", JSON.stringify({ id: "r1", frames: JSON.stringify(FRAMES) }), "a data-set row with frames", KINDS],
  ["a row with messages in a string", JSON.stringify({ id: "r1", messages: JSON.stringify(MESSAGES) }), "a data-set row with messages", WITHOUT_END],
  ["the wire with markers", '<|goal|>Be brief.<|mission|>Say hello.<|action|>{"tool": "answer", "text": "Hello."}<|end|>', "AgenticML wire with markers", KINDS],
  ["the wire with reserved tokens", '<|reserved_special_token_0|>Be brief.<|reserved_special_token_1|>Say hello.<|reserved_special_token_6|>{"tool": "answer", "text": "Hello."}<|reserved_special_token_7|>', "AgenticML wire with reserved tokens", KINDS],
  ["the ChatML wire", CHAT, "ChatML wire, Llama 3.1 Instruct layout", WITHOUT_END],
];

async function open(playground) {
  await playground.open();
  return new Editor(playground.page);
}

for (const [name, text, shape, kinds] of forms) {
  test(`${name} is recognised and imported`, async ({ playground }) => {
    const editor = await open(playground);
    await editor.importer.paste(text);
    await expect(editor.importer.shape).toHaveText(shape);
    await expect(editor.importer.count).toHaveText(`${kinds.length} frames`);
    await editor.importer.take();
    await editor.expectKinds(kinds);
    await expect(editor.content(1)).toHaveText("Say hello.");
  });
}

test("an import is one step that undo takes back", async ({ playground }) => {
  const editor = await open(playground);
  const before = await editor.kinds();
  await editor.importer.paste(JSON.stringify(FRAMES));
  await editor.importer.take();
  await editor.expectKinds(KINDS);
  await editor.undo.click();
  await editor.expectKinds(before);
});

test("of several rows one is chosen", async ({ playground }) => {
  const editor = await open(playground);
  const rows = [
    { id: "first", domain: "coding", frames: FRAMES },
    { id: "second", domain: "travel", frames: FRAMES.slice(0, 2) },
  ];
  await editor.importer.paste(`${rows.map((row) => JSON.stringify(row)).join("\n")}\n{"frames": [}\n`);
  await expect(editor.importer.rows).toContainText("line 3, column 13");
  await editor.importer.rows.getByRole("radio", { name: /second, travel/ }).check();
  await expect(editor.importer.count).toHaveText("2 frames");
  await editor.importer.take();
  await editor.expectKinds(["goal", "mission"]);
});

test("the bridge's losses are said, and turns can be closed", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.importer.paste(JSON.stringify(MESSAGES));
  await expect(editor.importer.notes).toContainText("there are no end frames");
  await page.getByTestId("import-close").check();
  await editor.importer.take();
  await editor.expectKinds(KINDS);
});

const wrong = [
  ["broken JSON", '{"frames": [\n  {"type" "goal"}]}', ["Line 2, column 11", "colon"]],
  ["an unknown kind", '[{"type": "goal", "content": "g"},\n {"type": "gaol"}]', ["Line 2, column 2", "<|gaol|>", "goal, mission"]],
  ["an object of something else", '{"name": "x"}', ["neither", "frames"]],
  ["plain text before a marker", "Here it is:\n<|goal|>g", ["Line 1, column 1", "line 2, column 1"]],
  ["plain text", "hello", ["neither JSON nor a wire", "Paste"]],
];
for (const [name, text, says] of wrong) {
  test(`${name} is refused: what, where, what next`, async ({ playground }) => {
    const editor = await open(playground);
    await editor.importer.paste(text);
    for (const part of says) await expect(editor.importer.problem).toContainText(part);
    await expect(editor.importer.replace).toBeDisabled();
  });
}

test("content that looks like a page stays content", async ({ playground, page }) => {
  const editor = await open(playground);
  const hostile = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>';
  await editor.importer.paste(JSON.stringify([{ type: "goal", content: hostile }, { type: hostile }]));
  await expect(editor.importer.problem).toContainText("<img");
  await editor.importer.text.fill(JSON.stringify([{ type: "goal", content: hostile }]));
  await editor.importer.take();
  await expect(editor.content(0)).toHaveText(hostile);
  expect(await page.evaluate(() => window.hit)).toBeUndefined();
});

test("a dropped file is read", async ({ playground }) => {
  const editor = await open(playground);
  await editor.importer.drop("mine.json", JSON.stringify({ frames: FRAMES }));
  await expect(editor.importer.count).toHaveText("4 frames");
  await editor.importer.take();
  await editor.expectKinds(KINDS);
});

test("a dropped model is sent to where it belongs", async ({ playground }) => {
  const editor = await open(playground);
  await editor.importer.drop("model.gguf", "GGUF");
  await expect(editor.importer.problem).toContainText("Models");
});

test("a chosen file is read, and a long one stays out of the field", async ({ playground, page }) => {
  const editor = await open(playground);
  await editor.importer.open();
  const long = [...FRAMES, { type: "feedback", content: "x".repeat(200_000) }];
  const file = { name: "long.jsonl", mimeType: "text/plain", buffer: Buffer.from(JSON.stringify({ frames: long })) };
  await page.getByTestId("import-file").setInputFiles(file);
  await expect(editor.importer.count).toHaveText("5 frames");
  await expect(editor.importer.text).toHaveValue("");
  await expect(editor.importer.dialog).toContainText("long.jsonl");
});

for (const form of ["frames", "messages", "row", "markers", "reserved", "chatml"]) {
  test(`${form} are exported and can be imported again`, async ({ playground, page }) => {
    const editor = await open(playground);
    await editor.openExport();
    const { name, text } = await editor.download(form);
    expect(name).toMatch(/^trajectory\.[a-z.]+$/);
    await page.keyboard.press("Escape");
    await editor.importer.paste(text);
    await expect(editor.importer.replace).toBeEnabled();
    const whole = ["frames", "row", "markers", "reserved"].includes(form);
    await expect(editor.importer.count).toHaveText(whole ? "9 frames" : /^[67] frames$/);
  });
}

test("a form is copied", async ({ playground, page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const editor = await open(playground);
  await editor.openExport();
  await editor.menu.getByRole("button", { name: "Copy AgenticML wire, markers" }).click();
  await expect(editor.menu.locator('[data-form="markers"]')).toContainText("copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/^<\|goal\|>/);
});
