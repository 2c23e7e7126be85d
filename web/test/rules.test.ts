// Rules of steps on the page: needs, rows of conditions, edits that leave the rest alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { conditionOf, edited, rowsOf } from "../src/data/conditions";
import { needsOf } from "../src/data/refs";
import type { JsonObject, RunView, Step } from "../src/data/types";
import { withRule } from "../src/views/ruleform";
import { collectedOf, endReason, roundText } from "../src/views/steptext";

const BELOW: JsonObject = { below: ["{{stock.count}}", 10] };
const ORDER: Step = {
  id: "order", kind: "tool", tool: "shop.order", when: BELOW,
  repeat: { until: { equals: [{ $from: "order", $path: ["state"] }, "{{wanted}}"] }, at_most: 5, every: 60 },
  undo_with: { tool: "shop.cancel", inputs: { id: "{{order.id}}", of: "{{shop}}" } },
};

test("a step waits for what its rules refer to, but not for itself", () => {
  assert.deepEqual(needsOf(ORDER).sort(), ["shop", "stock", "wanted"]);
});

test("the rules of the items of a map may refer to the inner step itself", () => {
  const map: Step = { id: "all", kind: "map", over: "{{list}}", each: { ...ORDER, when: { empty: "{{item.sent}}" } } };
  assert.deepEqual(needsOf(map).sort(), ["list", "shop", "wanted"]);
});

test("a condition becomes rows and comes back the same", () => {
  const plain: JsonObject[] = [BELOW, { empty: "{{a}}" }, { not: { empty: "{{a}}" } }, { any: [BELOW, { in: ["x", ["x", "y"]] }] }];
  for (const each of plain) assert.deepEqual(conditionOf(rowsOf(each)!), each);
});

test("a nested condition has no rows and is left alone", () => {
  const nested: JsonObject[] = [{ all: [{ any: [BELOW] }] }, { not: BELOW }, { unheard_of: 1 }, { below: [1] }, {}];
  for (const each of nested) assert.equal(rowsOf(each), null);
});

test("an edit that changes nothing keeps the condition as it was written", () => {
  const single: JsonObject = { any: [BELOW] };
  assert.equal(edited(single, rowsOf(single)!), single);
});

test("changing one rule leaves every other field as it was", () => {
  const odd = { ...ORDER, later: { any: "thing" } } as Step;
  const { when: _, ...rest } = odd;
  assert.deepEqual(withRule(odd, "when", undefined), rest);
  assert.deepEqual(withRule(odd, "retry", { at_most: 2 }), { ...odd, retry: { at_most: 2 } });
});

test("the call that takes a step back can be written, changed and taken out", () => {
  const { undo_with: _, ...bare } = ORDER;
  const undo = { tool: "shop.cancel", inputs: { id: "{{order.id}}" } };
  assert.deepEqual(withRule(bare as Step, "undo_with", undo), { ...bare, undo_with: undo });
  assert.deepEqual(withRule(ORDER, "undo_with", undefined), bare);
});

test("the page tells the round and when the next one begins", () => {
  const part = { status: "done", rule: "", wakes_at: null };
  const later = { status: "waiting", rule: "", wakes_at: "2026-01-01T14:05:00Z" };
  const run = { steps: { order: { status: "running" }, "order/1": part, "order/2": part, "order/3": later } } as unknown as RunView;
  assert.match(roundText(run, ORDER), /^round 2 of at most 5, next at .*05/);
  assert.equal(roundText({ steps: {} } as unknown as RunView, ORDER), "");
});

test("the page counts the items whose errors were collected", () => {
  const steps = { all: { rule: "" }, "all/0": { rule: "error" }, "all/1": { rule: "" }, "all2/0": { rule: "error" } };
  const map: Step = { id: "all", kind: "map", over: [], on_error: "collect" };
  assert.equal(collectedOf({ steps } as unknown as RunView, map), 1);
});

test("a run that failed names its steps by their titles, and no other words", () => {
  const steps = [{ ...ORDER, id: "bad", title: "Order tea" }, { ...ORDER, id: "by", title: "Pay" }];
  const run = { reason: "cancelled by ann: by chance; failed: bad, gone", plan: { steps }, steps: { bad: { status: "failed" }, by: { status: "done" } } } as unknown as RunView;
  assert.equal(endReason(run), "cancelled by ann: by chance; failed: Order tea, gone");
  assert.equal(endReason({ ...run, reason: "失败：bad" }), "失败：Order tea");
});
