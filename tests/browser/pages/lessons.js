// The room of lessons as a person uses it.
import { expect } from "@playwright/test";

export class Lessons {
  constructor(page, site) {
    this.page = page;
    this.site = site;
    this.stage = page.getByTestId("lesson");
    this.body = page.getByTestId("lesson-body");
    this.next = page.getByTestId("lesson-next");
    this.title = this.stage.getByRole("heading", { level: 1 });
  }

  /** The list, as the site serves it. */
  async index() {
    const answer = await this.page.request.get(new URL("lessons/index.json", this.site).href);
    return (await answer.json()).lessons;
  }

  async openList() {
    await this.page.goto(`${this.site}#lessons`);
    await expect(this.page.getByTestId("lessons-list").locator("ol a").first()).toBeVisible();
  }

  entry(id) {
    return this.page.getByTestId(`lesson-${id}`);
  }

  /** Opens a page of a lesson by its address. */
  async open(id, number = 1) {
    await this.page.goto(`${this.site}#lessons/${id}/${number}`);
    await this.at(number);
  }

  /** Waits until a page is shown with everything on it. */
  async at(number) {
    await expect(this.stage).toHaveAttribute("data-page", String(number));
    await expect(this.body.getByText("Tokens are on their way.")).toHaveCount(0);
    await expect(this.title).toBeVisible();
  }

  /** The counts that a side's tokens have in their head. */
  async counts(side) {
    const head = this.body.locator(`.panel-wire[data-side="${side}"]`).first();
    return {
      tokens: Number(await head.getByTestId("count-tokens").textContent()),
      trained: Number(await head.getByTestId("count-trained").textContent()),
    };
  }

  /** What does not fit: the body's scroll way, and what lies outside the window or is cut off. */
  misfits() {
    return this.body.evaluate((body) => {
      const found = [];
      if (body.scrollHeight > body.clientHeight) found.push(`scrolls ${body.scrollHeight - body.clientHeight} px down`);
      if (body.scrollWidth > body.clientWidth) found.push(`scrolls ${body.scrollWidth - body.clientWidth} px aside`);
      const root = document.scrollingElement;
      if (root.scrollHeight > innerHeight || root.scrollWidth > innerWidth) found.push("the window scrolls");
      for (const element of document.querySelectorAll(".stage :not(svg,path,.vh,.vh *)")) {
        const style = getComputedStyle(element);
        const cut = style.overflowX !== "visible" && style.display !== "inline";
        if (cut && (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1))
          found.push(`cut off: ${element.className || element.tagName}`);
        const box = element.getBoundingClientRect();
        if (box.width && (box.right > innerWidth + 1 || box.bottom > innerHeight + 1 || box.left < -1 || box.top < -1))
          found.push(`outside: ${element.className || element.tagName}`);
      }
      return [...new Set(found)];
    });
  }
}
