// The browser tests. `cargo xtask test --only browser` builds the site, starts the server and sets the
// variables that are read here; options of Playwright's own follow `--`.
import { join } from "node:path";
import { defineConfig } from "@playwright/test";
import { chromium } from "./chromium.js";

const results = process.env.PLAYGROUND_RESULTS;

export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.js",
  outputDir: join(results, "artifacts"),
  reporter: [["list"], ["json", { outputFile: join(results, "report.json") }]],
  // One at a time: a software GPU takes every core there is.
  workers: 1,
  timeout: 60_000,
  forbidOnly: Boolean(process.env.CI),
  use: {
    ...chromium(),
    viewport: { width: 1440, height: 900 },
    screenshot: "only-on-failure",
    // What it keeps would answer in place of a test's own routes; the tests of it ask for it.
    serviceWorkers: "block",
  },
});
