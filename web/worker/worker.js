// Loads the engine. Messages that arrive before it runs are kept for it; a failure to load becomes
// an event like any other, so that the page can say what happened.
import init, { start } from "{{engine_js}}";

const early = [];
self.onmessage = (event) => early.push(event.data);

init({ module_or_path: new URL("{{engine_wasm}}", import.meta.url) }).then(
  () => start(early),
  (error) =>
    self.postMessage({
      type: "failed",
      job: null,
      failure: {
        kind: "network",
        message: `the engine could not be loaded: ${error}`,
        advice: "Check the connection and reload the page.",
      },
    }),
);
