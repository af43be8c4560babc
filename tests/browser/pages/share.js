// Sharing and keeping, as a person uses them.
import { readFile } from "node:fs/promises";
import { expect } from "@playwright/test";

export class Share {
  constructor(page) {
    this.page = page;
    this.dialog = page.getByTestId("share-dialog");
    this.notice = page.getByTestId("notice");
    this.done = page.getByTestId("share-done");
    this.failed = page.getByTestId("share-failed");
    this.copyLink = page.getByTestId("copy-link");
    this.startOver = page.getByTestId("start-over");
    this.goBack = page.getByTestId("go-back");
    this.newer = page.getByTestId("newer");
  }

  async open() {
    await this.page.getByTestId("share").click();
    await expect(this.dialog).toBeVisible();
  }

  /** What kind of notice is shown. */
  async says(kind) {
    await expect(this.notice).toHaveAttribute("data-notice", kind);
  }

  async clipboard() {
    return await this.page.evaluate(() => navigator.clipboard.readText());
  }

  /** Copies the link with the masthead's button. */
  async link() {
    await this.copyLink.click();
    await expect.poll(() => this.clipboard()).toContain("#s=1.");
    return await this.clipboard();
  }

  /** Presses a button of the dialog that saves a file; the file's name and content. */
  async saved(id) {
    const [download] = await Promise.all([this.page.waitForEvent("download"), this.page.getByTestId(id).click()]);
    return { name: download.suggestedFilename(), content: await readFile(await download.path()) };
  }

  /** What the browser keeps of people's work: name and text of each entry. */
  async kept() {
    return await this.page.evaluate(() => Object.entries(localStorage).filter(([name]) => name.startsWith("work.")));
  }

  /** Waits until something is kept that holds this text. */
  async keeps(text) {
    await expect.poll(async () => JSON.stringify(await this.kept())).toContain(text);
  }
}
