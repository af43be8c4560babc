// The editor as a person uses it: cards, menus, drafts, undo, import and export.
import { expect } from "@playwright/test";

export class Editor {
  constructor(page) {
    this.page = page;
    this.list = page.locator(".editor-list");
    this.cards = this.list.locator(".fc");
    this.menu = page.getByTestId("menu");
    this.undo = page.getByTestId("undo").filter({ visible: true });
    this.redo = page.getByTestId("redo").filter({ visible: true });
    this.importer = new Importer(page);
  }

  /** The card of a frame. */
  card(frame) {
    return this.list.locator(`.fc[data-frame="${frame}"]`);
  }

  /** The kinds of all frames, in order. */
  async kinds() {
    return this.cards.evaluateAll((cards) => cards.map((card) => card.querySelector(".hd .kn").textContent));
  }

  /** Waits until the frames are of these kinds. */
  async expectKinds(kinds) {
    await expect.poll(() => this.kinds()).toEqual(kinds);
  }

  /** The text that a card shows. */
  content(frame) {
    return this.card(frame).locator(".bd");
  }

  /** The field of an open card. */
  field(frame) {
    return this.card(frame).getByRole("textbox");
  }

  /** Opens a card's field by the keyboard and writes into it. */
  async write(frame, text) {
    await this.card(frame).focus();
    await this.page.keyboard.press("Enter");
    await expect(this.field(frame)).toBeFocused();
    await this.field(frame).fill(text);
  }

  /** Chooses a kind in the open menu. */
  async choose(kind) {
    await this.menu.locator(`[data-kind="${kind}"]`).click();
    await expect(this.menu).toBeHidden();
  }

  /** Opens the menu of a frame. */
  async more(frame) {
    await this.card(frame).hover();
    await this.card(frame).getByRole("button", { name: `More for frame ${frame}` }).click();
    await expect(this.menu).toBeVisible();
  }

  /** Drags a frame by its rail to the upper part of another. */
  async drag(frame, onto) {
    const from = await this.card(frame).locator(".rail").boundingBox();
    const to = await this.card(onto).boundingBox();
    const { mouse } = this.page;
    await mouse.move(from.x + from.width / 2, from.y + 12);
    await mouse.down();
    await mouse.move(from.x + from.width / 2, from.y + 24, { steps: 3 });
    await mouse.move(to.x + 10, to.y + 4, { steps: 6 });
    await expect(this.list.locator(".drop-line")).toBeVisible();
    await mouse.up();
    await expect(this.list.locator(".drop-line")).toBeHidden();
  }

  /** Opens the list of forms to export. */
  async openExport() {
    await this.page.getByTestId("export").click();
    await expect(this.menu).toBeVisible();
  }

  /** Downloads a form: its file name and text. */
  async download(form) {
    const waiting = this.page.waitForEvent("download");
    await this.menu.locator(`[data-form="${form}"]`).getByRole("button", { name: "Download" }).click();
    const download = await waiting;
    const stream = await download.createReadStream();
    const parts = [];
    for await (const part of stream) parts.push(part);
    return { name: download.suggestedFilename(), text: Buffer.concat(parts).toString("utf8") };
  }
}

export class Importer {
  constructor(page) {
    this.page = page;
    this.dialog = page.getByTestId("import-dialog");
    this.text = page.getByTestId("import-text");
    this.shape = page.getByTestId("import-shape");
    this.count = page.getByTestId("import-count");
    this.notes = page.getByTestId("import-notes");
    this.problem = page.getByTestId("import-problem");
    this.rows = page.getByTestId("import-rows");
    this.replace = page.getByTestId("import-replace");
  }

  async open() {
    await this.page.getByTestId("import").click();
    await expect(this.dialog).toBeVisible();
  }

  /** Opens the dialog and puts a text into it. */
  async paste(text) {
    await this.open();
    await this.text.fill(text);
  }

  /** Drops a file on the room. */
  async drop(name, text) {
    const data = await this.page.evaluateHandle(
      ([name, text]) => {
        const data = new DataTransfer();
        data.items.add(new File([text], name));
        return data;
      },
      [name, text],
    );
    const target = this.page.locator(".work");
    await target.dispatchEvent("dragover", { dataTransfer: data });
    await expect(this.page.getByText("Drop to import")).toBeVisible();
    await target.dispatchEvent("drop", { dataTransfer: data });
    await expect(this.dialog).toBeVisible();
  }

  /** Takes what is shown. */
  async take() {
    await this.replace.click();
    await expect(this.dialog).toBeHidden();
  }
}
