// The page as a person uses it. Scripts read the attributes that carry what people see.
import { expect } from "@playwright/test";
import { Live } from "./live.js";
import { ModelPanel } from "./model.js";

export const SIDES = ["agenticml", "chatml"];

export class Playground {
  constructor(page, site) {
    this.page = page;
    this.site = site;
    this.model = new ModelPanel(page);
  }

  /** Opens the page and waits for the tokens of both sides. */
  async open() {
    await this.page.goto(this.site);
    for (const side of SIDES) await expect(this.chips(side).first()).toBeAttached();
  }

  live(side) {
    return new Live(this.page, side);
  }

  tab(side, view) {
    return this.page.getByTestId(`${view}-tab-${side}`);
  }

  /** The part of the rows that belongs to a side. */
  rows(side) {
    return this.page.locator(`.rows .cell[data-side="${side}"]`);
  }

  /** All token chips of a side, in the order of its wire. */
  chips(side) {
    return this.rows(side).locator("[data-token-id]");
  }

  /** What the chips say. */
  tokens(side) {
    return this.chips(side).evaluateAll((chips) =>
      chips.map(({ dataset }) => ({
        id: Number(dataset.tokenId),
        label: Number(dataset.label),
        owner: dataset.owner,
        piece: dataset.piece,
      })),
    );
  }

  /** The shown counts. */
  async counts(side) {
    const shown = this.page.getByTestId(`counts-${side}`);
    return {
      tokens: Number(await shown.getByTestId("count-tokens").textContent()),
      trained: Number(await shown.getByTestId("count-trained").textContent()),
    };
  }

  /** Waits until a side counts other tokens than before. */
  async countsChanged(side, before) {
    await expect.poll(async () => (await this.counts(side)).tokens).not.toBe(before.tokens);
  }

  /** The chip that has the focus: where it stands and what it says. */
  focusedChip() {
    return this.page.evaluate(() => {
      const chip = document.activeElement?.closest(".rows .tk");
      if (!chip) return null;
      const { top, bottom } = chip.getBoundingClientRect();
      const rows = chip.closest(".rows").getBoundingClientRect();
      return {
        row: Number(chip.closest("[data-turn]").dataset.turn),
        side: chip.closest("[data-side]").dataset.side,
        frame: chip.dataset.frame === undefined ? null : Number(chip.dataset.frame),
        piece: chip.dataset.piece,
        trained: chip.dataset.label !== "-100",
        inView: top >= rows.top - 1 && bottom <= rows.bottom + 1,
      };
    });
  }

  /** The scrolling box of both sides. */
  scroller() {
    return this.page.locator(".rows").first();
  }

  /** The control that shows the rest of a long text on a side. */
  showAll(side) {
    return this.rows(side).getByTestId("show-all");
  }

  /** The card of a frame in the editor. */
  card(frame) {
    return this.page.locator(`.editor-list [data-frame="${frame}"]`).first();
  }

  /** Spans of a frame on a side that are lit up. */
  lit(side, frame) {
    return this.rows(side).locator(`.lk[data-frame="${frame}"]`);
  }
}
