// A side's live view.
import { expect } from "@playwright/test";

export class Live {
  constructor(page, side) {
    this.page = page;
    this.side = side;
    this.panel = page.locator(`section[data-side="${side}"]`).filter({ has: page.getByTestId("prompt-mode") });
    this.output = this.panel.getByTestId("output");
    this.generateButton = this.panel.getByTestId("generate");
    this.stopButton = this.panel.getByTestId("stop");
    this.reason = this.panel.getByTestId("stop-reason");
    this.failure = this.panel.getByTestId("failure");
    this.runButton = this.panel.getByTestId("run");
    this.frames = this.output.getByTestId("written-frame");
    this.partial = this.output.getByTestId("partial");
    this.verdict = this.panel.getByTestId("verdict");
    this.calls = this.panel.getByTestId("call");
    this.keepButton = this.panel.getByTestId("keep");
    this.branch = this.panel.getByTestId("branch");
    this.state = this.panel.getByTestId("side-state");
    this.chips = this.output.locator("[data-token-id]");
  }

  async open() {
    await this.page.getByTestId(`live-tab-${this.side}`).click();
    await expect(this.panel).toBeVisible();
  }

  /** Types a prompt that is sent as it is. */
  async prompt(text) {
    await this.panel.getByTestId("prompt-mode").selectOption("free");
    await this.panel.getByTestId("free-prompt").fill(text);
  }

  async start() {
    await this.generateButton.click();
  }

  /** Kinds of the written frames, each with whether it is open. */
  kinds() {
    return this.frames.evaluateAll((all) => all.map(({ dataset }) => `${dataset.kind}${dataset.open === "true" ? " open" : ""}`));
  }

  /** Turns probabilities on or off. */
  async heat() {
    await this.panel.getByRole("switch", { name: "Heat" }).click();
  }

  /** Waits until the side is at rest again. */
  async settled(timeout) {
    await expect(this.generateButton).toBeEnabled({ timeout });
    await expect(this.output).toHaveAttribute("aria-busy", "false");
  }

  /** Ids of the generated tokens. */
  ids() {
    return this.output
      .locator("[data-token-id]")
      .evaluateAll((chips) => chips.map((chip) => Number(chip.dataset.tokenId)));
  }

  /** Ids of the prompt as the model saw it. */
  async promptIds() {
    const seen = this.panel.getByTestId("prompt-seen");
    if ((await seen.getAttribute("open")) === null) await seen.locator("summary").click();
    const chips = seen.locator("[data-token-id]");
    await expect(chips).toHaveCount(Number(await seen.getAttribute("data-count")));
    return chips.evaluateAll((all) => all.map((chip) => Number(chip.dataset.tokenId)));
  }

  text() {
    return this.panel.getByTestId("output-text").innerText();
  }

  async rate() {
    return Number(await this.panel.getByTestId("rate").textContent());
  }
}
