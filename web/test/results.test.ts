// Results without a browser: tables, CSV, differences of texts, where a value came from.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExactly } from "../src/data/json";
import type { Json, Question, Step } from "../src/data/types";
import { headline, originsOf } from "../src/results/consent";
import { counted, hunks, lineDiff } from "../src/results/linediff";
import { compare, inBrief, isNumeric, parseCsv, partsOf, tableOf, toCsv, toTabs } from "../src/results/shape";
import type { CallPreview } from "../src/results/types";

test("rows become a table with every column that any of them has", () => {
  const table = tableOf([{ a: 1, b: "x" }, { a: 2, c: null }])!;
  assert.deepEqual(table.columns, ["a", "b", "c"]);
  assert.deepEqual(table.rows, [[1, "x", null], [2, null, null]]);
  assert.deepEqual(tableOf([[1, 2]], ["x", "y"]), { columns: ["x", "y"], rows: [[1, 2]] });
  for (const other of [[], [1, 2], [[1, 2]], [{}], "x", null, { a: 1 }] as Json[]) assert.equal(tableOf(other), null);
});

test("columns sort by number where they are numbers, and what is empty comes last both ways", () => {
  const rows: Json[] = [10, null, 9, parseExactly("1.0"), ""];
  const sorted = (down: boolean): string => JSON.stringify(rows.toSorted((a, b) => compare(a, b, down)));
  assert.match(sorted(false), /^\[1(\.0)?,9,10,(null,""|"",null)\]$/);
  assert.match(sorted(true), /^\[10,9,1(\.0)?,(null,""|"",null)\]$/);
  assert.deepEqual(["b10", "b9"].toSorted((a, b) => compare(a, b, false)), ["b9", "b10"]);
  assert.equal(isNumeric({ columns: ["n", "t"], rows: [[1, "x"], [null, "y"]] }, 0), true);
  assert.equal(isNumeric({ columns: ["n", "t"], rows: [[1, "x"], [null, "y"]] }, 1), false);
});

test("CSV quotes what needs it and marks what a spreadsheet would run", () => {
  const table = { columns: ["a", 'b"c'], rows: [["=1+1", -5], ["x,y\nz", null], ["-3", "@home"]] as Json[][] };
  assert.equal(toCsv(table), 'a,"b""c"\n\'=1+1,-5\n"x,y\nz",\n-3,\'@home\n');
  assert.equal(toTabs({ columns: ["a"], rows: [["x\ty\nz"]] }), "a\nx y z");
  for (const bad of ["=1+1", " =1", "\u3000＝cmd", "＋1a", "－x", "＠sum", "\tx", "\rx", "-1+2", "+A1", "\u00a0@x"]) {
    assert.ok(toTabs({ columns: [bad], rows: [[bad]] }).split("\n").every((line) => line.startsWith("'")), bad);
    assert.match(toCsv({ columns: ["c"], rows: [[bad]] }), /\n"?'/, bad);
  }
  for (const fine of ["-5", "+1,000.50", "-3%", "a=b", "", "x - y"]) assert.equal(toTabs({ columns: ["c"], rows: [[fine]] }), `c\n${fine}`);
});

test("a table has the columns in the order that the data gives", () => {
  const rows: Json[] = [{ amount: 55, date: "d", id: 1 }, { amount: 1, date: "e", id: 2, more: true }];
  assert.deepEqual(tableOf(rows, ["id", "date", "amount"])!.columns, ["id", "date", "amount", "more"]);
  assert.deepEqual(tableOf(rows, ["id", "gone"])!.columns, ["id", "amount", "date", "more"]);
  assert.deepEqual(isNumeric(parseCsv("zip,amount\n007,55.00\n")!, 0), false);
});

test("a file of values is a table only if it is one", () => {
  assert.deepEqual(parseCsv('city,n\n"a ""b"", c",1\nd,2.5\n'), { columns: ["city", "n"], rows: [['a "b", c', 1], ["d", 2.5]] });
  assert.deepEqual(parseCsv("a\tb\n1\t\n", "\t"), { columns: ["a", "b"], rows: [[1, null]] });
  for (const text of ["", "a,b\n1\n", 'a\n"open']) assert.equal(parseCsv(text), null);
});

test("an object's short values are facts, what is long or deep gets room of its own", () => {
  const { facts, blocks } = partsOf({ path: "a.md", bytes: 3, text: "x\ny", rows: [{ a: 1 }], none: null });
  assert.deepEqual(facts.map((each) => each.name), ["path", "bytes", "none"]);
  assert.deepEqual(blocks.map((each) => each.name), ["text", "rows"]);
  assert.equal(inBrief("a\n\n b"), "a b");
});

test("the difference of two texts puts both together again", () => {
  const texts = ["", "a\n", "a\nb\nc\n", "a\nx\nc\n", "b\nc\na\n", "a\nb\nc", "x\n\ny\n", "q\nb\nq\nc\nq\n"];
  for (const before of texts) {
    for (const after of texts) {
      const lines = lineDiff(before, after);
      const kept = (kind: "old" | "new"): string => lines.filter((line) => line.kind !== kind).map((line) => line.text).join("\n");
      const plain = (text: string): string => text.replace(/\n$/, "");
      assert.equal(kept("new"), plain(before));
      assert.equal(kept("old"), plain(after));
    }
  }
  assert.deepEqual(counted(lineDiff("a\nb\nc\n", "a\nx\nc\n")), { added: 1, removed: 1 });
});

test("unchanged lines are folded, and none is lost", () => {
  const before = Array.from({ length: 100 }, (_, index) => `line ${index}`);
  const after = before.with(50, "changed");
  const parts = hunks(lineDiff(before.join("\n"), after.join("\n")));
  assert.deepEqual(parts.map((each) => [each.kind, each.lines.length]), [["fold", 47], ["lines", 8], ["fold", 46]]);
});

test("the card says what would happen to which file", () => {
  const question = { question: "data:a?1", kind: "consent", text: "", callee: "files.write", step: "a" } as Question;
  type File = NonNullable<CallPreview["files"]>[number];
  const of = (change: File["change"]): CallPreview =>
    ({ files: [{ path: "a.md", change, size_before: 1500, ...(change === "deleted" ? {} : { size_after: 412 }) }] });
  assert.equal(headline(question, of("new")), "Write a.md (new file, 412 bytes)");
  assert.equal(headline(question, of("changed")), "Change a.md (1.5 kB now, 412 bytes afterwards)");
  assert.equal(headline(question, of("deleted")), "Delete a.md (1.5 kB)");
  assert.equal(headline(question, { moved: ["a.md", "b.md"] }), "Move a.md to b.md");
  assert.equal(headline(question, null), "Call files.write");
  assert.equal(headline({ ...question, times: 3 }, null), "Call files.write up to 3 times");
});

test("each value is told with the steps that it came from", () => {
  const step = { id: "s", kind: "tool", tool: "x", inputs: { text: "{{a.k}} and {{b}}", path: "p" } } as Step;
  assert.deepEqual(originsOf(step, "text"), ["a", "b"]);
  assert.deepEqual(originsOf(step, "path"), []);
  const map = { id: "m", kind: "map", over: "{{list}}", each: { ...step, inputs: { text: "{{item.x}}" } } } as Step;
  assert.deepEqual(originsOf(map, "text"), ["list"]);
  assert.deepEqual(originsOf(map, "over"), ["list"]);
});
