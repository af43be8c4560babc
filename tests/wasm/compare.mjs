// What both scripts do with the reports and times that they have got.

import { readFileSync } from "node:fs";

/** Compares the reports on the files with the native ones and prints what came of it. Ends the process. */
export function conclude({ files, reports, native, tokens, times }) {
  const expected = readFileSync(native, "utf8").trimEnd().split("\n");
  let failed = 0;
  for (const [index, file] of files.entries()) {
    const report = reports[index];
    const { subject, passed, total } = JSON.parse(report);
    if (report === expected[index]) {
      console.log(`${subject}: ${passed}/${total}`);
    } else {
      failed += 1;
      console.log(`${subject}: ${passed}/${total}, not as native (${file})`);
      console.log(`  wasm   ${report.slice(0, 2000)}\n  native ${String(expected[index]).slice(0, 2000)}`);
    }
  }
  times.sort((a, b) => a - b);
  const median = times[Math.floor(times.length / 2)];
  console.log(`bench, for information: both arms, ${tokens} tokens, median ${median.toFixed(2)} ms`);
  console.log(`${files.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
