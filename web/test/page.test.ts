// What the page computes without a browser: words, addresses, values, layout, times.

import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath, levels, needs } from "../src/data/graph";
import { editable, parseExactly, readable, typed } from "../src/data/json";
import { layOut } from "../src/data/layout";
import { earlierOf, needsOf, refsOf } from "../src/data/refs";
import { timeline } from "../src/data/timeline";
import { RUN_STATUSES, STEP_STATUSES } from "../src/data/types";
import type { Event, Plan, Step } from "../src/data/types";
import { link, parse } from "../src/route";
import { pathOf } from "../src/ui/icons";
import { argumentsOf } from "../src/views/steplist";
import { en } from "../src/words/en";
import type { Key } from "../src/words/en";
import { zh } from "../src/words/zh";

const plan = (...steps: Partial<Step>[]): Plan => ({ schema_version: 1, goal: "g", steps: steps.map((step) => ({ kind: "tool", tool: "x", ...step }) as Step) });
const FAN = plan({ id: "a" }, { id: "b" }, { id: "c", inputs: { x: "{{a.k[0]}}" }, after: ["b"] }, { id: "d", inputs: { y: { $from: "c" } } });

test("English and Chinese have the same keys and the same places", () => {
  assert.deepEqual(Object.keys(zh), Object.keys(en));
  const places = (text: string): string[] => (text.match(/\{\w+\}/g) ?? []).sort();
  for (const key of Object.keys(en) as Key[]) {
    assert.deepEqual(places(zh[key]), places(en[key]), key);
    assert.ok(zh[key].trim() && en[key].trim(), key);
  }
});

test("every status has an icon of its own and a word in both languages", () => {
  for (const [kind, statuses] of [["run", RUN_STATUSES], ["step", STEP_STATUSES]] as const) {
    const words = statuses.map((each) => [en[`${kind}.${each}` as Key], zh[`${kind}.${each}` as Key], pathOf(each)]);
    for (let column = 0; column < 3; column++) assert.equal(new Set(words.map((row) => row[column])).size, statuses.length);
  }
});

test("numbers come back as they were written", () => {
  const text = '{"a":1.0,"b":1,"c":12345678901234567890,"d":[1e3,0.5],"e":"1.0"}';
  const kept = JSON.stringify(parseExactly(text));
  // Where the engine cannot keep the text, the value at least is the same number.
  const able = "rawJSON" in JSON;
  assert.equal(kept, able ? text : JSON.stringify(JSON.parse(text)));
});

test("what is typed is JSON where it is some, and reads back as the same", () => {
  assert.equal(typed("Oslo"), "Oslo");
  assert.equal(typed("5"), 5);
  assert.deepEqual(typed('{"a": [1]}'), { a: [1] });
  assert.equal(typed('{"a": '), '{"a": ');
  for (const value of ["Oslo", "5", "true", "", " x", 5, true, null, [1, "2"], { a: "b" }, "{{step.a}}"]) {
    assert.deepEqual(typed(editable(value)), value);
  }
});

test("a reference reads as it does in text", () => {
  assert.equal(readable({ $from: "a", $path: ["k", 0] }), "{{a.k[0]}}");
  assert.equal(readable({ b: 1 }), '{"b":1}');
});

test("a result of an earlier run is told by run and step, and nothing waits for it", () => {
  assert.deepEqual(earlierOf("run:0198-ab/totals"), { run: "0198-ab", step: "totals" });
  assert.equal(earlierOf("totals"), null);
  const inputs = { x: { $from: "run:0198-ab/totals" }, y: "{{run:v1.2/a.rows[0]}} {{b.c}}" };
  assert.deepEqual([...refsOf(inputs)], ["run:0198-ab/totals", "run:v1.2/a", "b"]);
  assert.deepEqual(needsOf({ id: "s", kind: "tool", tool: "t", inputs } as Step), ["b"]);
});

test("references are found where the language has them", () => {
  assert.deepEqual([...refsOf(["{{a.b}} and {{c[0]}}", { x: { $from: "d" } }, { $literal: { $from: "no" } }, '{{"{{"}} {{ e }}'])], ["a", "c", "d", "e"]);
});

test("a plan is a graph with levels and a critical path", () => {
  assert.deepEqual(needs(FAN), { a: [], b: [], c: ["b", "a"], d: ["c"] });
  assert.deepEqual(levels(needs(FAN)), [["a", "b"], ["c"], ["d"]]);
  assert.deepEqual(criticalPath(needs(FAN), (step) => (step === "b" ? 9 : 1)), ["b", "c", "d"]);
});

test("no two steps are drawn over each other, in a ring neither", () => {
  const ring = plan({ id: "a", after: ["b"] }, { id: "b", after: ["a"] }, { id: "c" });
  const wide = plan(...Array.from({ length: 1000 }, (_, index) => ({ id: `s${index}`, after: index ? [`s${(index * 7) % index}`] : [] })));
  for (const each of [FAN, ring, wide, plan()]) {
    const { places, edges } = layOut(needs(each));
    assert.equal(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size, each.steps.length);
    assert.ok(edges.every(({ from, to }) => places.has(from) && places.has(to)));
  }
});

test("the timeline tells waiting from running, and from waiting for a person", () => {
  const at = (seconds: number): string => new Date(1e12 + seconds * 1000).toISOString();
  const event = (number: number, seconds: number, type: string, body: object = {}): Event =>
    ({ run: "r", number, at: at(seconds), by: { kind: "system" }, body: { type, ...body } });
  const events = [
    event(1, 0, "run_started"), event(2, 1, "step_started", { step: "a" }), event(3, 4, "step_done", { step: "a" }),
    event(4, 4, "question_asked", { question: "q", step: "b" }), event(5, 9, "question_answered", { question: "q" }), event(6, 9, "step_done", { step: "b" }),
    event(7, 10, "step_started", { step: "c" }),
  ];
  const times = timeline(FAN, events, 1e12 + 12000);
  const spans = (step: string): string[] => times.rows.find((row) => row.step === step)!.spans.map(({ kind, from, to }) => `${kind} ${(from - 1e12) / 1000}-${(to - 1e12) / 1000}`);
  assert.deepEqual(spans("a"), ["waiting 0-1", "running 1-4"]);
  assert.deepEqual(spans("b"), ["person 4-9"]);
  assert.deepEqual(spans("c"), ["waiting 9-10", "running 10-12"]);
  assert.deepEqual([...times.critical], ["b", "c"]);
});

test("arguments are shown down to where their origins differ", () => {
  const found = argumentsOf({ to: "bob", body: { text: "x", n: 1 } }, { "inputs.to": "person", "inputs.body.text": "model", "inputs.body.n": "default" }, "inputs");
  assert.deepEqual(found.map(({ path, origin }) => [path, origin]), [["inputs.to", "person"], ["inputs.body.text", "model"], ["inputs.body.n", "default"]]);
});

test("an address leads back to the same view", () => {
  const { parts, query } = parse(link(["runs", "a/b 中", "plan"], { view: "graph", q: "", edit: undefined }));
  assert.deepEqual(parts, ["runs", "a/b 中", "plan"]);
  assert.deepEqual([...query], [["view", "graph"]]);
  assert.deepEqual(parse("#/runs/%E0%A4%A").parts, ["runs", "%E0%A4%A"]);
});
