// The panel that loads a model.
import { expect } from "@playwright/test";

export class ModelPanel {
  constructor(page) {
    this.page = page;
    this.status = page.getByTestId("model-status");
    this.failure = page.getByTestId("failure");
    this.url = page.getByTestId("model-url");
    this.processor = page.getByTestId("processor");
    this.whyCpu = page.getByTestId("why-cpu");
    this.again = page.getByTestId("load-again");
  }

  async open() {
    await this.page.getByTestId("dock-model").click();
    await expect(this.url).toBeVisible();
  }

  /** Chooses what models run on: `automatic`, `gpu` or `cpu`. */
  async runOn(choice) {
    await this.page.locator("label").filter({ has: this.page.getByTestId(`processor-${choice}`) }).click();
    await expect(this.page.getByTestId(`processor-${choice}`)).toBeChecked();
  }

  /** Asks for the file at an address. */
  async load(url) {
    await this.url.fill(url);
    await this.page.getByTestId("model-load").click();
  }

  /** Asks for a file of this machine. */
  async choose(name, buffer) {
    await this.page.getByTestId("model-file").setInputFiles({ name, buffer, mimeType: "application/octet-stream" });
  }

  async ready(timeout) {
    await expect(this.status).toContainText("ready in", { timeout });
  }

  /** Checks that a failure of this kind is shown, with what happened and what to do. */
  async failed(kind, message) {
    await expect(this.failure).toHaveAttribute("data-kind", kind, { timeout: 30_000 });
    const texts = this.failure.locator("p");
    await expect(texts.first()).toContainText(message);
    await expect(texts.last()).not.toBeEmpty();
  }

  /** Peak of the worker's wasm memory in bytes, as shown. */
  async workerMemory() {
    const [, amount, unit] = /([\d.]+) (kB|MB|GB) in the worker/.exec(await this.status.innerText());
    return Number(amount) * { kB: 1e3, MB: 1e6, GB: 1e9 }[unit];
  }
}
