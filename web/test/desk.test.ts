// Filters and saved views of the list of runs, and how two runs are compared.

import assert from "node:assert/strict";
import { test } from "node:test";
import { comparedSteps } from "../src/data/comparison";
import { chosenWith, partsWith, withFirst, withNext, withPart, without } from "../src/data/pages";
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

const row = (id: string, status = "done"): { id: string; status: string } => ({ id, status });
const rows = (...ids: string[]): { id: string; status: string }[] => ids.map((id) => row(id));
const idsOf = (of: { items: { id: string }[] }): string => of.items.map((each) => each.id).join("");

test("a new first page keeps the older rows, also the one that it pushed out", () => {
  const known = { items: rows("d", "c", "b", "a"), next: "a" };
  assert.deepEqual(withFirst(known, { items: rows("e", "d"), next: "d" }), { items: rows("e", "d", "c", "b", "a"), next: "a" });
  // One of the first page was deleted, so that another came up.
  assert.equal(idsOf(withFirst(known, { items: rows("d", "b"), next: "b" })), "dba");
  // So many are new that nobody knows what lies between: the list begins anew.
  assert.deepEqual(withFirst(known, { items: rows("z", "y"), next: "y" }), { items: rows("z", "y"), next: "y" });
  // That is all there is.
  assert.deepEqual(withFirst(known, { items: rows("d"), next: null }), { items: rows("d"), next: null });
  assert.deepEqual(withFirst(undefined, { items: [], next: null }), { items: [], next: null });
});

test("rows of later pages are read again in their part, and those that are gone leave it", () => {
  const known = { items: rows("h", "g", "f", "e", "d", "c"), next: "c" };
  const parts = partsWith(known, new Set(["h", "e"]), 2, 2);
  assert.deepEqual(parts.map((each) => [each.after, [...each.ids].join("")]), [["g", "fe"]]);
  const fresh = withPart(known, parts[0]!, [row("e", "cancelled")]);
  assert.equal(idsOf(fresh), "hgedc");
  assert.equal(fresh.items[2]!.status, "cancelled");
  assert.equal(idsOf(withNext(known, { items: rows("c", "b"), next: null })), "hgfedcb");
  assert.equal(idsOf(without(known, new Set(["g", "c"]))), "hfed");
});

test("a row that belongs far down by now is put there, and one beyond what is read is not", () => {
  const known = { items: rows("z", "y", "x", "v", "u", "s"), next: "s" };
  const [part, ...more] = partsWith(known, new Set(["w", "a"]), 2, 2);
  assert.deepEqual([part!.after, part!.size, more.length], ["y", 3, 0]);
  assert.equal(idsOf(withPart(known, part!, rows("x", "w", "v"))), "zyxwvus");
  // Rows of the next part that come along are not listed twice, nor what lies behind the part.
  assert.equal(idsOf(withPart(known, part!, rows("w", "u", "t"))), "zywus");
  // Without a next page the last part reaches to the end.
  const all = { ...known, next: null };
  const [end] = partsWith(all, new Set(["a"]), 2, 2);
  assert.equal(idsOf(withPart(all, end!, rows("u", "s", "a"))), "zyxvusa");
});

test("a choice with the shift key takes or leaves all rows since the last one", () => {
  const keys = ["a", "b", "c", "d"];
  assert.deepEqual([...chosenWith(new Set(["d"]), keys, "b", "d")].sort(), ["b", "c", "d"]);
  assert.deepEqual([...chosenWith(new Set(keys), keys, "c", "a")], ["d"]);
  assert.deepEqual([...chosenWith(new Set(), keys, "c", "gone")], ["c"]);
  assert.deepEqual([...chosenWith(new Set(), keys, "c", "")], ["c"]);
});
