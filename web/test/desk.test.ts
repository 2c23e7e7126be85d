// Filters and saved views of the list of runs, and how two runs are compared.

import assert from "node:assert/strict";
import { test } from "node:test";
import { comparedSteps } from "../src/data/comparison";
import { askedOf, filterOf, isFiltered, nameOf, readViews } from "../src/data/savedviews";
import type { RunView } from "../src/data/types";

test("a day of a filter begins at the person's midnight and its last day counts whole", () => {
  const now = new Date(2026, 10, 16, 15, 30);
  const asked = askedOf({ since: "2026-11-01", until: "2026-11-03" }, now);
  assert.equal(asked.get("since"), new Date(2026, 10, 1).toISOString());
  assert.equal(asked.get("until"), new Date(2026, 10, 4).toISOString());
  assert.equal(askedOf({ when: "today" }, now).get("since"), new Date(2026, 10, 16).toISOString());
  assert.equal(askedOf({ when: "week", until: "2026-11-03" }, now).get("until"), null);
  assert.equal(askedOf({ since: "nonsense" }, now).get("since"), null);
});

test("only known filters are read from an address, and a view is known by its filters", () => {
  const filter = filterOf(new URLSearchParams("q=x&status=done&evil=1&origin="));
  assert.deepEqual(filter, { q: "x", status: "done" });
  assert.ok(isFiltered(filter));
  assert.ok(!isFiltered({}));
  assert.equal(nameOf([{ name: "mine", filter }], { status: "done", q: "x" }), "mine");
  assert.equal(nameOf([{ name: "mine", filter }], { status: "done" }), "");
});

test("what somebody else stored under the name of the views is not taken for views", () => {
  for (const stored of [null, "", "{", "7", "{}", '[{"name": 1, "filter": {}}]', '[{"name": "a", "filter": null}]', '[{"name": "a", "filter": {"q": 1}}]']) {
    assert.deepEqual(readViews(stored ?? "[]"), []);
  }
  assert.deepEqual(readViews('[{"name": "a", "filter": {"q": "b"}}]'), [{ name: "a", filter: { q: "b" } }]);
});

const run = (steps: Record<string, [string, string]>): RunView => ({
  plan: { schema_version: 1, goal: "", steps: Object.keys(steps).map((id) => ({ id, kind: "tool" })) },
  steps: Object.fromEntries(Object.entries(steps).map(([id, [status, result_hash]]) => [id, { status, result_hash }])),
} as unknown as RunView);

test("two runs differ where an end, a result or the plan differs", () => {
  const left = run({ a: ["done", "1"], b: ["done", "2"], c: ["done", "3"], d: ["done", "4"] });
  const right = run({ a: ["done", "1"], b: ["done", "9"], c: ["failed", ""], e: ["done", "5"] });
  assert.deepEqual(comparedSteps(left, right).map((each) => [each.id, each.differs]), [["a", ""], ["b", "result"], ["c", "status"], ["d", "only"], ["e", "only"]]);
});
