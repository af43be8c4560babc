// `cargo xtask screens`: the pictures of the README.
import { join } from "node:path";
import { defineConfig } from "@playwright/test";
import { chromium } from "./chromium.js";

export default defineConfig({
  testDir: ".",
  testMatch: "screens.js",
  outputDir: join(process.env.PLAYGROUND_RESULTS, "screens"),
  reporter: "list",
  workers: 1,
  timeout: 60_000,
  use: chromium(),
});
