// The browser's storage, and what the room for models says about it.
import { expect } from "@playwright/test";

export class Storage {
  constructor(page) {
    this.page = page;
    this.keeps = page.getByTestId("keeps");
  }

  /** Goes to the room for models, where a load is shown piece by piece. */
  async room() {
    await this.page.getByRole("link", { name: "Models", exact: true }).click();
    await expect(this.page.getByTestId("models")).toBeVisible();
  }

  /** Goes back. */
  async leave() {
    await this.page.getByRole("link", { name: "Compare", exact: true }).click();
    await expect(this.page.getByTestId("models")).toHaveCount(0);
  }

  /** Sets how many bytes the browser offers, as long as the page is open. */
  async quota(bytes) {
    const session = await this.page.context().newCDPSession(this.page);
    await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(this.page.url()).origin, quotaSize: bytes });
  }

  /** Sizes of all stored files. */
  async sizes() {
    return await this.page.evaluate(async () => {
      const sizes = [];
      const walk = async (folder) => {
        for await (const handle of folder.values()) {
          if (handle.kind === "directory") await walk(handle);
          else sizes.push((await handle.getFile()).size);
        }
      };
      await walk(await navigator.storage.getDirectory());
      return sizes;
    });
  }

  /** Changes a bit in the middle of the largest stored file; returns its path and size. */
  async spoilLargest() {
    return await this.page.evaluate(async () => {
      const found = [];
      const walk = async (folder, path) => {
        for await (const [name, handle] of folder.entries()) {
          if (handle.kind === "directory") await walk(handle, `${path}${name}/`);
          else found.push({ path: `${path}${name}`, handle, size: (await handle.getFile()).size });
        }
      };
      await walk(await navigator.storage.getDirectory(), "");
      const { path, handle, size } = found.reduce((one, other) => (other.size > one.size ? other : one));
      const position = Math.floor(size / 2);
      const file = await handle.getFile();
      const [byte] = new Uint8Array(await file.slice(position, position + 1).arrayBuffer());
      const stream = await handle.createWritable({ keepExistingData: true });
      await stream.write({ type: "write", position, data: new Uint8Array([byte ^ 1]) });
      await stream.close();
      return { path, size };
    });
  }
}
