// A trajectory of a test's own, offered by the list of samples.

/** The list's only entry is this trajectory; opens it. */
export async function openSample(playground, frames, title = "Made for a test") {
  const { page } = playground;
  const sample = { title, domain: "test", about: "", frames };
  await page.route("**/samples/index.json", (route) =>
    route.fulfill({ json: [{ file: "made.json", title, domain: "test", about: "" }] }),
  );
  await page.route("**/samples/made.json", (route) => route.fulfill({ json: sample }));
  await playground.open();
  const before = await playground.counts("chatml");
  await page.getByTestId("sample").selectOption({ label: title });
  await playground.countsChanged("chatml", before);
}

const GOAL = { type: "goal", content: "You read files." };
const MISSION = { type: "mission", content: "What is in them?" };

/** So many turns of a belief, a call, a result of a few lines and feedback. */
export function manyTurns(turns) {
  const turn = (_, at) => [
    { type: "belief", content: `Part ${at} was not read yet.` },
    { type: "action", content: { tool: "read_file", path: `src/part_${at}.py` } },
    { type: "end", content: null },
    { type: "result", content: `part ${at}:\n${"one line of it\n".repeat(12)}` },
    { type: "feedback", content: `Part ${at} was read well.` },
  ];
  return [GOAL, MISSION, ...Array.from({ length: turns }, turn).flat()];
}

/** One feedback of so many lines. */
export function longFeedback(lines) {
  const text = Array.from({ length: lines }, (_, at) => `line ${at} of a long text`).join("\n");
  const answer = (text) => [
    { type: "action", content: { tool: "answer", text } },
    { type: "end", content: null },
  ];
  return [GOAL, MISSION, ...answer("What do you think?"), { type: "feedback", content: text }, ...answer("It is long.")];
}

/** Text that is written from right to left, in prose and in JSON. */
export function rightToLeft() {
  return [
    { type: "goal", content: "ענה בעברית (בקצרה)." },
    { type: "mission", content: "ما هو المجموع؟ 17*23" },
    { type: "action", content: { tool: "answer", text: "הסכום הוא 391, תודה!" } },
    { type: "end", content: null },
  ];
}
