// How Chromium is started: no network of its own, and WebGPU on the CPU.
const QUIET = [
  "--no-first-run",
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];

/** Options for tests with the given further switches. */
export function chromium(switches = WEBGPU) {
  return {
    browserName: "chromium",
    launchOptions: {
      executablePath: process.env.PLAYGROUND_CHROMIUM,
      // The sandbox needs rights that a container's root has not; the tests open only our own pages.
      chromiumSandbox: false,
      args: [...QUIET, ...switches],
    },
  };
}
