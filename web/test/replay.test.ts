// Replay, time without waiting, the drawing of plans, and lists of which only a part is drawn.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { Film, usualSpeed } from "../src/data/film";
import { needs } from "../src/data/graph";
import { fieldText } from "../src/data/json";
import { NODE, edgePath, layOut } from "../src/data/layout";
import { fold, stateOf } from "../src/data/run";
import type { Event, Plan, RunView, Step } from "../src/data/types";
import { bestLayout, boxes, fitted, opening, pinched, stepAt, visible, zoomedAt } from "../src/data/viewport";
import { folded, ticks, waitsOf } from "../src/data/waits";
import { RowHeights } from "../src/data/window";
import { Known } from "../src/live/hooks";
import { clipped, wrapped } from "../src/views/graphparts";
import { previewOf } from "../src/views/preview";
import { precise } from "../src/views/times";

const FOLDER = "../tests/web/cases";
const CASES = readdirSync(FOLDER).map((name) => JSON.parse(readFileSync(`${FOLDER}/${name}`, "utf8")) as { name: string; events: Event[] });
const plan = (...steps: Partial<Step>[]): Plan => ({ schema_version: 1, goal: "g", steps: steps.map((step) => ({ kind: "tool", tool: "x", ...step }) as Step) });
const viewOf = (events: Event[]): RunView => {
  const state = fold(events);
  return { ...state, status: state.phase, questions: [], hash: "h", rules: {}, effects: { by_step: {} } } as unknown as RunView;
};

// A generator of our own, so that a failure can be played again.
function random(seed: number): () => number {
  return () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
}

test("a film shows at every instant what the events up to then say, in any order of looking", () => {
  for (const { events } of CASES) {
    const film = new Film(events, viewOf(events));
    const next = random(events.length);
    for (let round = 0; round < 40; round++) {
      const count = 1 + Math.floor(next() * events.length);
      assert.deepEqual(film.at(count), fold(events.slice(0, count)));
    }
    assert.equal(film.viewAt(film.end).status, viewOf(events).status);
    assert.equal(film.viewAt(film.start).running_hash, "");
  }
});

test("a fold changes no state that somebody else has", () => {
  for (const { events } of CASES) {
    const half = fold(events.slice(0, events.length >> 1));
    const before = JSON.stringify(half);
    const one = fold(events.slice(events.length >> 1), half);
    assert.equal(JSON.stringify(half), before);
    assert.deepEqual(fold(events.slice(events.length >> 1), half), one);
  }
});

const at = (seconds: number): string => new Date(1e12 + seconds * 1000).toISOString();
const event = (number: number, seconds: number, type: string, body: object = {}): Event =>
  ({ run: "r", number, at: at(seconds), by: { kind: "system" }, body: { type, ...body } });

test("only stretches in which nothing works and a person is waited for are waits", () => {
  const events = [
    event(1, 0, "run_created"), event(2, 1, "plan_proposed"), event(3, 1, "review_asked"), event(4, 61, "plan_approved"), event(5, 61, "run_started"),
    event(6, 61, "step_started", { step: "a", inputs: "x" }), event(7, 62, "question_asked", { question: "q", step: "b" }), event(8, 65, "step_done", { step: "a" }),
    event(9, 95, "question_answered", { question: "q" }), event(10, 96, "step_done", { step: "b" }), event(11, 97, "run_finished"),
  ];
  assert.deepEqual(waitsOf(events).map(({ from, to }) => [(from - 1e12) / 1000, (to - 1e12) / 1000]), [[1, 61], [65, 95]]);
});

test("hidden waits are short, and every instant is found again", () => {
  const waits = [{ from: 100, to: 600 }, { from: 700, to: 5700 }];
  const film = folded(0, 6000, waits, 20);
  assert.equal(film.length, 6000 - 480 - 4980);
  for (let real = 0; real <= 6000; real += 50) assert.ok(Math.abs(film.toReal(film.toFilm(real)) - real) < 0.001, String(real));
  let last = -1;
  for (let real = 0; real <= 6000; real += 50) { assert.ok(film.toFilm(real) > last); last = film.toFilm(real); }
});

test("an axis has few and round ticks", () => {
  assert.deepEqual(ticks(0, 7100, 7), [0, 2000, 4000, 6000]);
  assert.deepEqual(ticks(0, 9, 5), [0, 2, 4, 6, 8]);
  assert.ok(ticks(0, 1e10, 7).length <= 8);
  assert.equal(usualSpeed(15), 0.01);
  assert.ok(3_600_000 / usualSpeed(3_600_000) <= 20_000);
});

test("milliseconds are told where they matter", () => {
  assert.deepEqual([0, 0.4, 14, 999, 1234, 9_960, 12_345, 125_000].map(precise), ["0 ms", "<1 ms", "14 ms", "999 ms", "1.2 s", "9.9 s", "12 s", "2 min 5 s"]);
});

// The places where a line runs straight through a level, as its path says.
function crossings(path: string): { x: number; y: number }[] {
  return [...path.matchAll(/([\d.-]+) ([\d.-]+)L/g)].map(([, x, y]) => ({ x: Number(x), y: Number(y) }));
}

test("lines pass around the steps that they do not belong to, and no steps overlap, to the right and downwards", () => {
  for (let seed = 1; seed < 40; seed++) {
    const next = random(seed);
    const steps = Array.from({ length: 5 + Math.floor(next() * 40) }, (_, index) => ({
      id: `s${index}`, after: index ? [...new Set(Array.from({ length: 1 + Math.floor(next() * 3) }, () => `s${Math.floor(next() * index)}`))] : [],
    }));
    const layout = layOut(needs(plan(...steps)), seed % 2 === 0);
    const [main, cross, long, broad] = layout.down ? ["y", "x", NODE.height + NODE.across / 2, NODE.width] as const : ["x", "y", NODE.width + NODE.across, NODE.height] as const;
    const all = [...layout.places];
    for (const [id, one] of all) for (const [other, two] of all) if (id < other && one[main] === two[main]) assert.ok(Math.abs(one[cross] - two[cross]) >= broad, `${seed}: ${id} over ${other}`);
    for (const edge of layout.edges) {
      const lines = crossings(edgePath(layout, edge));
      assert.equal(lines.length, (layout.places.get(edge.to)![main] - layout.places.get(edge.from)![main]) / long - 1);
      for (const line of lines) for (const [id, place] of all) {
        if (place[main] === line[main]) assert.ok(line[cross] < place[cross] || line[cross] > place[cross] + broad, `${seed}: ${edge.from} to ${edge.to} passes behind ${id}`);
      }
    }
    for (const [, { x, y }] of all) assert.ok(x >= -0.1 && y >= -0.1 && x + NODE.width <= layout.width + 0.1 && y + NODE.height <= layout.height + 0.1);
  }
});

test("a plan that is too long for its room is drawn downwards, and whole", () => {
  const graph = needs(plan(...Array.from({ length: 8 }, (_, index) => ({ id: `s${index}`, after: index ? [`s${index - 1}`] : [] }))));
  for (const room of [{ width: 510, height: 600 }, { width: 360, height: 540 }]) {
    const layout = bestLayout(graph, room);
    assert.ok(layout.down);
    assert.equal(visible(layout, opening(layout, room, []), room).size, 8);
  }
  assert.equal(bestLayout(graph, { width: 2400, height: 600 }).down, false);
});

test("a plan with endless long lines is still laid out", () => {
  const chain = Array.from({ length: 400 }, (_, index) => ({ id: `s${index}`, after: [...new Set(index ? ["s0", `s${index - 1}`, `s${index >> 1}`] : [])] }));
  const layout = layOut(needs(plan(...chain)));
  assert.equal(layout.places.size, 400);
  assert.ok(layout.edges.every((edge) => !edgePath(layout, edge).includes("NaN")));
});

test("zooming keeps what is under the pointer, and only what is in view is drawn", () => {
  const layout = layOut(needs(plan(...Array.from({ length: 1000 }, (_, index) => ({ id: `s${index}`, after: index ? [`s${index >> 2}`] : [] })))));
  const room = { width: 1000, height: 500 };
  const view = opening(layout, room, []);
  const closer = zoomedAt(view, 1.5, { x: 300, y: 200 });
  assert.ok(Math.abs(view.x + 300 / view.scale - (closer.x + 300 / closer.scale)) < 1e-6);
  assert.ok(visible(layout, closer, room).size < 60);
  assert.equal(visible(layout, fitted(layout, room), room).size, 1000);
  const place = layout.places.get("s7")!;
  assert.equal(stepAt(layout, { x: place.x + 5, y: place.y + 5 }), "s7");
  assert.equal(boxes([place, place]).match(/M/g)!.length, 2);
  const now = opening(layout, room, ["s999"]);
  assert.ok(visible(layout, now, room).has("s999"));
});

test("titles fit: two lines, broken between words, wide characters counted", () => {
  assert.deepEqual(wrapped("Weather in Rome", 20), ["Weather in Rome"]);
  assert.deepEqual(wrapped("Find hotels in Oslo near the harbour", 20), ["Find hotels in Oslo", "near the harbour"]);
  assert.ok(wrapped("x".repeat(90), 20).every((line) => line.length <= 20));
  assert.ok(wrapped("比较三个城市的天气并记下最好的一个城市", 20).length === 2);
  assert.equal(clipped("abcdef", 3), "abc…");
});

test("of a long list only the rows near the screen are drawn, wherever it is scrolled to", () => {
  const heights = new RowHeights(50);
  heights.setKeys(Array.from({ length: 5000 }, (_, index) => `k${index}`));
  for (const from of [-900, 0, 100_000, 249_000, 400_000]) {
    const { first, after, above, below } = heights.between(from, from + 1000);
    assert.ok(after - first >= 1 && after - first < 40, `${from}: ${first} to ${after}`);
    assert.equal(above + (after - first) * 50 + below, heights.height);
  }
  assert.ok(heights.measure("k0", 150));
  assert.ok(!heights.measure("k0", 150));
  assert.equal(heights.top(1), 150);
  assert.equal(heights.height, 250_100);
  // After some rows the others are taken to be like them.
  for (let index = 1; index < 8; index++) heights.measure(`k${index}`, 150);
  assert.equal(heights.height, 5000 * 150);
});

test("a result is told in a line", () => {
  assert.equal(previewOf({ city: "Oslo", high: 14, tags: [1, 2] }), "city: Oslo, high: 14, tags: 2 items");
  assert.equal(previewOf([{ name: "a", price: 1 }, { name: "b", price: 2 }]), "2 rows: name, price");
  assert.equal(previewOf({ hotels: [{ name: "a" }] }), "1 row: name");
  assert.equal(previewOf("two\n  lines"), "two lines");
  assert.equal(previewOf([]), "empty");
  assert.ok(previewOf("x".repeat(9999)).length < 200);
});

test("the text of one field is found, whatever stands around it", () => {
  const text = '{"plan_x":1,"a":{"plan":[9]},"s":"\\"plan\\":{}\\\\","plan" : {"n":1.0,"t":"}"},"z":[1]}';
  assert.equal(fieldText(text, "plan")!.trim(), '{"n":1.0,"t":"}"}');
  assert.equal(fieldText(text, "z"), "[1]");
  assert.equal(fieldText(text, "none"), undefined);
});

test("events that came before the run was read are folded onto it, values stay with their steps", () => {
  const { events } = CASES.find((each) => each.events.some((one) => one.body.type === "step_done"))!;
  const done = events.findIndex((one) => one.body.type === "step_done");
  const name = String(events[done]!.body["step"]);
  const known = new Known(events[0]!.run);
  assert.ok(known.follow(events.slice(done - 1, done + 1)));
  const early = events.slice(0, done - 1);
  const state = stateOf(viewOf(early));
  // The server says null where there is no result yet.
  const steps = Object.fromEntries(Object.entries(state.steps).map(([id, step]) => [id, { ...step, result: null }]));
  known.begin({ ...state, steps, questions: [], hash: "h", rules: {}, status: "running" } as unknown as RunView);
  assert.equal(known.view!.last, done + 1);
  assert.equal(known.view!.steps[name]!.status, "done");
  known.learn({ last: done + 1, steps: { [name]: { result: 42, result_hash: String(events[done]!.body["result"]) } } });
  assert.equal(known.view!.steps[name]!.result, 42);
  assert.ok(!known.follow([events[done + 3]!]));
});

test("what was under two fingers stays under them", () => {
  const view = { x: 40, y: -10, scale: 0.8 };
  const before = [{ x: 100, y: 100 }, { x: 200, y: 100 }] as const;
  const now = [{ x: 60, y: 130 }, { x: 210, y: 130 }] as const;
  const after = pinched(view, before, now);
  const under = (of: typeof view, at: { x: number; y: number }): number[] => [of.x + at.x / of.scale, of.y + at.y / of.scale];
  for (const finger of [0, 1]) {
    under(after, now[finger]!).forEach((each, axis) => assert.ok(Math.abs(each - under(view, before[finger]!)[axis]!) < 1e-9));
  }
  assert.equal(after.scale, 0.8 * 1.5);
  // Fingers on one point are no division by nothing.
  assert.ok(Number.isFinite(pinched(view, [now[0], now[0]], before).scale));
});
