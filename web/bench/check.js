// Runs the GPU kernels' checks: `await check("rows" | "lanes")` gives all comparisons.
const { program, module } = document.querySelector("script[data-program]").dataset;

window.check = async (spread) => {
  const { default: init, check } = await import(new URL(program, document.baseURI));
  await init({ module_or_path: new URL(module, document.baseURI) });
  return check(spread);
};
