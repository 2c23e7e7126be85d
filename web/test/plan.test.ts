// Plans without a browser: edits that meet, problems and what mends them, parts of results, examples.

import assert from "node:assert/strict";
import { test } from "node:test";
import { examplesFor } from "../src/data/examples";
import { distance, fixesFor, grouped } from "../src/data/fixes";
import { changesSince } from "../src/data/listdiff";
import { mergePlans } from "../src/data/merge";
import { fieldsOf, partsOfResult, partsOfSchema } from "../src/data/resulttree";
import { titled } from "../src/views/steptext";
import type { Plan, Problem, Step } from "../src/data/types";
import { madeTitle } from "../src/views/steptitle";

const plan = (...steps: Partial<Step>[]): Plan => ({ schema_version: 1, goal: "g", steps: steps.map((step) => ({ kind: "tool", tool: "x", ...step }) as Step) });
const problem = (code: string, step: string, path: (string | number)[] = []): Problem => ({ code, severity: "warning", message: code, step, path });
const ids = (of: Plan): string[] => of.steps.map((step) => step.id);

test("edits of different steps meet in one plan, whoever was first", () => {
  const base = plan({ id: "a" }, { id: "b" }, { id: "c" });
  const mine = plan({ id: "a", title: "mine" }, { id: "b" }, { id: "c" }, { id: "new_mine" });
  const theirs = plan({ id: "a" }, { id: "new_theirs" }, { id: "b", title: "theirs" });
  const { plan: joined, conflicts } = mergePlans(base, mine, { ...theirs, revision: 2 });
  assert.deepEqual(conflicts, []);
  assert.deepEqual(ids(joined), ["a", "new_theirs", "b", "new_mine"]);
  assert.deepEqual([joined.steps[0]!.title, joined.steps[2]!.title, joined.revision], ["mine", "theirs", 2]);
});

test("a step that both changed is named and never joined unseen", () => {
  const base = plan({ id: "a" }, { id: "b" });
  const mine = plan({ id: "a", title: "mine" }, { id: "b" });
  assert.deepEqual(mergePlans(base, mine, plan({ id: "a", title: "theirs" }, { id: "b" })).conflicts, ["a"]);
  assert.deepEqual(mergePlans(base, mine, plan({ id: "b" })).conflicts, ["a"]);
  assert.deepEqual(mergePlans(base, mine, mine).conflicts, []);
  assert.deepEqual(mergePlans(base, plan({ id: "b" }), plan({ id: "a" }, { id: "b", title: "x" })).conflicts, []);
  assert.deepEqual(mergePlans(base, { ...base, goal: "mine" }, { ...base, goal: "theirs" }).conflicts, [""]);
});

test("problems stand with their step, the worst first, the same said once", () => {
  const of = plan({ id: "a" }, { id: "m", kind: "map", each: { id: "inner", kind: "tool" } });
  const found = grouped([problem("PS401", "a"), problem("PS401", "a"), { ...problem("PS101", "a"), severity: "error" }, problem("PS203", "inner"), problem("PS1", "gone")], of);
  assert.deepEqual(found.get("a")!.map((each) => [each.problem.code, each.count]), [["PS101", 1], ["PS401", 2]]);
  assert.equal(found.get("m")!.length, 1);
  assert.equal(found.get("")!.length, 1);
});

test("a fix does what its button says, and is not offered where it would break something", () => {
  const of = plan({ id: "a", tool: "weather.forcast" }, { id: "b", after: ["a"] }, { id: "say", kind: "reply", instruction: "Say {{b}}" });
  const [use, remove] = fixesFor(problem("PS401", "a"), of, []);
  assert.equal(use!.plan.steps[2]!.instruction, "Say {{b}}\n{{a}}");
  assert.deepEqual(ids(remove!.plan), ["b", "say"]);
  assert.deepEqual(remove!.plan.steps[0]!.after, []);
  // The answer uses b: without it there would be a hole.
  assert.deepEqual(fixesFor(problem("PS404", "b"), of, []), []);
  assert.equal(fixesFor(problem("PS101", "a"), of, [{ name: "notes.write" }, { name: "weather.forecast" }])[0]!.name, "weather.forecast");
  const asked = fixesFor(problem("PS202", "b", ["inputs", "city"]), of, [])[0]!.plan;
  assert.deepEqual(ids(asked), ["a", "ask_city", "b", "say"]);
  assert.deepEqual(asked.steps[2]!.inputs, { city: { $from: "ask_city" } });
  assert.equal(distance("forcast", "forecast"), 1);
});

test("a plan without a reply gets one for what it finds out", () => {
  const [fix] = fixesFor(problem("PS407", "a"), plan({ id: "a" }), []);
  assert.deepEqual(fix!.plan.steps[1], { id: "answer", kind: "reply", instruction: "{{a}}" });
});

test("a removed step is shown where it stood", () => {
  const changes = changesSince(plan({ id: "a" }, { id: "b" }, { id: "c" }), plan({ id: "a", title: "t" }, { id: "c" }, { id: "d" }))!;
  assert.deepEqual([...changes.removedAt].map(([place, steps]) => [place, steps[0]!.id]), [[1, "b"]]);
  assert.ok(changes.of.get("d")!.added && changes.of.get("a")!.fields.length === 1);
  assert.equal(changesSince(undefined, plan({ id: "a" })), undefined);
});

test("parts of a result and of a schema are references that the plan language reads", () => {
  const parts = partsOfResult({ "high temp": 3, rows: [{ city: "Oslo" }] });
  assert.deepEqual(parts.map((each) => each.path), ['["high temp"]', ".rows"]);
  assert.equal(parts[1]!.parts[0]!.parts[0]!.path, ".rows[0].city");
  const schema = { type: "object", properties: { days: { type: "array", items: { type: "object", properties: { high: { type: "number" } } } } } };
  assert.equal(partsOfSchema(schema)[0]!.parts[0]!.parts[0]!.path, ".days[0].high");
  assert.deepEqual(partsOfResult("text"), []);
  const fields = fieldsOf({ properties: { days: { type: "integer" }, city: { type: "string", enum: ["Oslo"] } }, required: ["city"] });
  assert.deepEqual(fields.map((each) => [each.name, each.required, each.options]), [["city", true, ["Oslo"]], ["days", false, []]]);
});

test("examples are made of the files that are there", () => {
  const column = (name: string, numeric = false, repeats = false): { name: string; numeric: boolean; repeats: boolean } => ({ name, numeric, repeats });
  const table = { name: "sales.csv", size: 9, kind: "table", columns: [column("id", true), column("date", false, true), column("region", false, true), column("amount", true)] };
  const [chart] = examplesFor([table]);
  assert.deepEqual([chart!.key, chart!.values], ["first.exChart", { name: "sales.csv", value: "amount", group: "region" }]);
  assert.equal(examplesFor([]).length, 3);
  assert.ok(examplesFor([{ ...table, columns: [] }, { name: "a.md", size: 1, kind: "text", columns: [] }]).some((each) => each.values["name"] === "a.md"));
});

test("a step without a title is called by what it does", () => {
  assert.equal(madeTitle({ id: "a", kind: "tool", tool: "weather.forecast", inputs: { city: "Rome", days: 3 } }), "Weather forecast: Rome, 3");
  assert.equal(madeTitle({ id: "a", kind: "ask", question: "{{n.high}}° or not?" }), "‹n›° or not?");
  assert.equal(madeTitle({ id: "a", kind: "tool", tool: "my_tool", inputs: { text: "x".repeat(90) } }), "My tool");
});

test("a sentence names a step by its title, and a tool of the same name by its own", () => {
  const found = plan({ id: "book", tool: "book", title: "Book the cheapest flight" }, { id: "look", title: "Look" });
  assert.equal(titled("Step `book` changes something: it calls `book` after `look`", found), "Step `Book the cheapest flight` changes something: it calls `book` after `Look`");
});
