// What a browser without a GPU must still do.
import { readFileSync } from "node:fs";
import { expect, MODEL } from "./test.js";

const fixture = JSON.parse(readFileSync(new URL("../fixtures/smollm2.json", import.meta.url)));

/** Loads the small real model, which must run on the CPU, and has it continue a prompt of the fixture. */
export async function continues(playground) {
  const { prompt, ids, exact } = fixture.cases.find(({ name }) => name === "code");
  const live = playground.live("chatml");
  await playground.model.load(`/models/${MODEL}`);
  await playground.model.ready(240_000);
  await expect(playground.model.processor).toContainText("CPU: one thread");
  await live.open();
  await live.prompt(prompt);
  await playground.page.getByTestId("max-tokens").fill("8");
  await playground.page.getByTestId("max-tokens").blur();
  await live.start();
  await live.settled(120_000);
  expect(await live.promptIds()).toEqual(ids);
  // Activations are rounded: another token than the reference's is right where two were close.
  const written = await live.ids();
  expect(written.length).toBeGreaterThan(0);
  const parting = written.findIndex((id, at) => id !== exact.greedy[at]);
  if (parting >= 0) expect(exact.margins[parting], `token ${parting}`).toBeLessThan(0.05);
  expect((await live.text()).trim()).not.toBe("");
}
