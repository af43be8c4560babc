// How long the page's own thread was busy without a pause, while something else happened.

/** Runs `work` and returns the tasks of the page of 50 ms and more meanwhile, in ms. */
export async function longTasks(page, work) {
  await page.evaluate(() => {
    window.tasks = [];
    window.observer = new PerformanceObserver((list) => {
      // Tasks of other frames and of extensions are not the page's.
      for (const task of list.getEntries()) if (task.name === "self") window.tasks.push(task.duration);
    });
    window.observer.observe({ type: "longtask" });
  });
  await work();
  return page.evaluate(() => {
    for (const task of window.observer.takeRecords()) if (task.name === "self") window.tasks.push(task.duration);
    window.observer.disconnect();
    return window.tasks;
  });
}
