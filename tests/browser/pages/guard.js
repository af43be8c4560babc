// Watches a page that is given hostile text: nothing of it may run, ask another origin or break the layout.
import { expect } from "@playwright/test";

export class Guard {
  constructor(page, site) {
    this.page = page;
    this.origin = new URL(site).origin;
    this.dialogs = [];
    this.strangers = [];
  }

  /** Begins to watch; before the page is opened. */
  async install() {
    this.page.on("dialog", (dialog) => {
      this.dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    this.page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(this.origin) && !url.startsWith("blob:") && !url.startsWith("data:")) this.strangers.push(url);
    });
    await this.page.addInitScript(() => {
      window.violations = [];
      document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
    });
  }

  /** Checks that nothing ran and nothing was asked of anyone else. */
  async nothingRan() {
    const state = await this.page.evaluate(() => ({
      broken: window.broken,
      polluted: {}.polluted,
      violations: window.violations,
      scripts: document.querySelectorAll("script:not([src])").length,
      frames: document.querySelectorAll("iframe,object,embed,base,main img,main video").length,
      handlers: [...document.querySelectorAll("main *")].filter((it) => it.getAttributeNames().some((name) => name.startsWith("on"))).length,
    }));
    expect(state).toEqual({ broken: undefined, polluted: undefined, violations: [], scripts: 0, frames: 0, handlers: 0 });
    expect(this.dialogs, "no dialog").toEqual([]);
    expect(this.strangers, "no request to anyone else").toEqual([]);
  }

  /** Checks that the page is as wide as its window and its head in place. */
  async layoutHolds() {
    const { scroll, client, top, height, wide } = await this.page.evaluate(() => {
      const head = document.querySelector("header.top").getBoundingClientRect();
      const wide = [...document.querySelectorAll("body *")].filter((it) => it.getBoundingClientRect().right > innerWidth + 1);
      return {
        scroll: document.scrollingElement.scrollWidth,
        client: innerWidth,
        top: head.top,
        height: head.height,
        wide: wide.slice(0, 6).map((it) => `${it.tagName}.${it.className}`),
      };
    });
    expect(scroll, `not wider than the window: ${wide.join(", ")}`).toBeLessThanOrEqual(client);
    expect(top).toBe(0);
    expect(height).toBeLessThan(60);
  }

  /** All of it, at the width of a desktop and of a phone. */
  async holds() {
    await this.nothingRan();
    const { width, height } = this.page.viewportSize();
    for (const viewport of [{ width: 390, height: 844 }, { width, height }]) {
      await this.page.setViewportSize(viewport);
      await this.layoutHolds();
    }
    await this.nothingRan();
  }
}
