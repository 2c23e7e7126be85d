// The same cases as tests/web/test_page_units.py: the page folds and compares as the library does.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { diffPlans } from "../src/data/diff";
import { Misfit, addMoney, fold, merged, stateOf, statusOf, take, withReady } from "../src/data/run";
import { EVENT_TYPES } from "../src/data/run";
import type { RunState } from "../src/data/run";
import type { Event, Plan, RunView } from "../src/data/types";

interface Case {
  name: string;
  events: Event[];
  states: Record<string, unknown>;
  diffs: { before: Plan; after: Plan; diff: unknown }[];
}

const FOLDER = "../tests/web/cases";
const CASES = readdirSync(FOLDER).map((name) => JSON.parse(readFileSync(`${FOLDER}/${name}`, "utf8")) as Case);
const EVENTS = CASES.flatMap((each) => each.events);

// What a case says of a run: the state with its ready steps, and the status they make.
// What a preview shows only the server can tell.
const told = ({ preview: _, preview_approved: __, ...state }: RunState): unknown =>
  JSON.parse(JSON.stringify({ ...state, status: statusOf(state as RunState), steps: withReady(state as RunState) }));

for (const each of CASES) {
  test(`${each.name}: every state is the one the library folds`, () => {
    let state: RunState | undefined;
    for (const event of each.events) {
      state = state ? take(state, event) : fold([event]);
      const wanted = each.states[String(event.number)];
      if (wanted) assert.deepEqual(told(state), wanted, `after event ${event.number}`);
    }
    assert.ok(Object.keys(each.states).length > 1);
  });

  test(`${each.name}: half and then the rest gives the same`, () => {
    const whole = fold(each.events);
    const half = each.events.length >> 1;
    assert.deepEqual(fold(each.events.slice(half), fold(each.events.slice(0, half))), whole);
  });

  test(`${each.name}: plans differ as the library says`, () => {
    for (const { before, after, diff } of each.diffs) assert.deepEqual(sparse(diffPlans(before, after)), diff);
  });
}

// The library leaves out what is empty, and before and after where they are null.
function sparse(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sparse);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([, child]) => child !== undefined && child !== null && !(Array.isArray(child) && child.length === 0));
  return Object.fromEntries(kept.map(([name, child]) => [name, sparse(child)]));
}

test("every type of event stands in some case", () => {
  const seen = new Set(EVENTS.map((event) => event.body.type));
  assert.deepEqual(EVENT_TYPES.filter((type) => !seen.has(type)), []);
});

test("an event that does not follow is refused, one of a newer server changes nothing", () => {
  const [first, second] = CASES[0]!.events as [Event, Event];
  const state = fold([first]);
  assert.throws(() => take(state, { ...second, number: 9 }), Misfit);
  assert.throws(() => take(state, { ...second, run: "other" }), Misfit);
  const after = take(state, { ...second, body: { type: "told_later" } });
  assert.deepEqual({ ...after, last: 1, updated_at: state.updated_at }, state);
  const over = fold(CASES[0]!.events);
  assert.throws(() => take(over, { ...second, number: over.last + 1 }), Misfit);
});

test("money is added as decimals", () => {
  assert.equal(addMoney("0.1", "0.2"), "0.3");
  assert.equal(addMoney("0", "0.000125"), "0.000125");
  assert.equal(addMoney("1", "2E-7"), "1.0000002");
});

test("what the server told of a step stays with its result", () => {
  const each = CASES.find((one) => one.events.some((event) => event.body.type === "step_done"))!;
  const at = each.events.findIndex((event) => event.body.type === "step_done") + 1;
  const state = fold(each.events.slice(0, at));
  const name = String(each.events[at - 1]!.body["step"]);
  const view = { ...state, questions: [], last: at, hash: "h", steps: { ...state.steps, [name]: { ...state.steps[name]!, result: 42 } } } as unknown as RunView;
  const next = fold(each.events.slice(at, at + 1), stateOf(view));
  assert.equal(merged(view, next).steps[name]!.result, 42);
  assert.equal(merged(view, next).last, at + 1);
});
