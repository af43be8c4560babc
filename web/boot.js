// Runs before the first paint: takes the kept theme, starts the page's program, says so when it cannot.
"use strict";
(() => {
  const { pageJs, pageWasm } = document.currentScript.dataset;
  const here = document.baseURI;
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is refused: the system's theme stays.
  }
  const say = (text) => {
    const place = document.getElementById("boot-message");
    if (place) {
      place.textContent = text;
      place.setAttribute("role", "alert");
      place.dataset.failed = "";
    }
  };
  const ready = new Promise((done) => {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", done, { once: true });
    else done();
  });
  if (typeof WebAssembly !== "object") {
    ready.then(() => say("This browser has no WebAssembly, which the page needs. A current Firefox, Chrome, Edge or Safari has it."));
    return;
  }
  const page = import(new URL(pageJs, here));
  page
    .then((module) => ready.then(() => module.default({ module_or_path: new URL(pageWasm, here) })))
    .catch((error) => {
      console.error(error);
      ready.then(() => say(`The page's program could not be started: ${error?.message ?? error}. Load the page again; if that does not help, try a current Firefox, Chrome, Edge or Safari.`));
    });
})();
