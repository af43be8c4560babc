// CPU time and memory of a running Chromium, from /proc: figures that hold on a busy machine too. Linux only.
import { readdirSync, readFileSync } from "node:fs";

/** Clock ticks per second in /proc; the kernel's interface fixes it. */
const TICKS = 100;

/** A file of /proc, or nothing when the process has ended meanwhile. */
function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Parent and CPU seconds (user and system, all threads) of a process. */
function stat(pid) {
  // The name before the last parenthesis may hold anything.
  const fields = read(`/proc/${pid}/stat`).split(") ").at(-1).split(" ");
  return { parent: Number(fields[1]), seconds: (Number(fields[11]) + Number(fields[12])) / TICKS };
}

/** The renderers and the GPU process below this process; none where there is no /proc. */
function workers(root) {
  let entries = [];
  try {
    entries = readdirSync("/proc");
  } catch {
    return [];
  }
  const all = new Map(entries.filter((name) => /^\d+$/.test(name)).map((pid) => [Number(pid), stat(pid)]));
  const below = (pid) => {
    for (let at = pid; all.has(at); at = all.get(at).parent) if (at === root) return true;
    return false;
  };
  return [...all.keys()].filter(below).flatMap((pid) => {
    const kind = /--type=(renderer|gpu-process)/.exec(read(`/proc/${pid}/cmdline`))?.[1];
    return kind ? [{ pid, kind, seconds: all.get(pid).seconds }] : [];
  });
}

/** CPU seconds that the renderers and the GPU process have used so far; nothing where that is unknown. */
export function cpuSeconds(root) {
  const found = workers(root);
  return found.length ? found.reduce((sum, { seconds }) => sum + seconds, 0) : undefined;
}

/** Largest resident memory so far in MB of each renderer and of the GPU process, with its kind. */
export function peaks(root) {
  return workers(root).map(({ pid, kind }) => {
    const kilobytes = Number(/VmHWM:\s*(\d+) kB/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);
    return { kind, MB: (kilobytes * 1024) / 1e6 };
  });
}

/** The same of all of them together; nothing where that is unknown. */
export function peakMB(root) {
  const found = peaks(root);
  return found.length ? found.reduce((sum, { MB }) => sum + MB, 0) : undefined;
}
