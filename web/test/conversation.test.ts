// What the page shows of a conversation: its order, what can be taken back, what is news under a run.

import assert from "node:assert/strict";
import { test } from "node:test";
import { answerTaken, firstLines, inOrder, mayUndo, newsFor, plans } from "../src/data/conversation";
import type { ConversationRun, Message, MessageKind, RunStatus } from "../src/data/types";

const at = (minute: number): string => new Date(1e12 + minute * 60000).toISOString();
const message = (number: number, kind: MessageKind | null, run = "", more: Partial<Message> = {}): Message => ({
  number, at: at(number), by: { kind: "person", name: "ada" }, text: `message ${number}`, kind, run,
  question: "", asked: "", value: null, judge: "rules", reason: "", reply: null, undone: false, instead: "", ...more,
});
const run = (id: string, minute: number, status: RunStatus = "done"): ConversationRun =>
  ({ id, status, created_at: at(minute), request: id, goal: "", answer: "" }) as ConversationRun;
const shown = (messages: Message[], runs: ConversationRun[]): string[] =>
  inOrder({ messages, runs }).map((each) => `${each.message?.number ?? "-"} ${each.run?.id ?? "-"}`);

test("a conversation shows each request with its run, and other messages between", () => {
  const messages = [message(2, "request", "a"), message(4, "answer", "a"), message(7, "request", "b"), message(9, "why", "a")];
  assert.deepEqual(shown(messages, [run("a", 2), run("b", 7)]), ["2 a", "4 -", "7 b", "9 -"]);
});

test("a run that no message of the conversation made stands where it began", () => {
  const messages = [message(2, "request", "a"), message(4, "answer", "a"), message(9, "request", "b")];
  const runs = [run("lone", 1), run("a", 2), run("again", 6), run("b", 9), run("last", 11)];
  assert.deepEqual(shown(messages, runs), ["- lone", "2 a", "4 -", "- again", "9 b", "- last"]);
});

test("a message whose run was deleted stays in the conversation", () => {
  assert.deepEqual(shown([message(2, "request", "gone"), message(3, null)], []), ["2 -", "3 -"]);
});

test("what a message did can be taken back as long as that is possible", () => {
  const runs = [run("open", 1, "reviewing"), run("over", 1)];
  const undoable = (kind: MessageKind | null, of: string, more: Partial<Message> = {}): boolean => mayUndo(message(2, kind, of, more), runs);
  assert.ok(undoable("request", "open") && undoable("change", "open") && undoable("answer", "open") && undoable("answer", "over"));
  assert.ok(!undoable("request", "over") && !undoable("why", "open") && !undoable("review", "open") && !undoable(null, ""));
  assert.ok(!undoable("answer", "open", { undone: true }) && !undoable("request", "gone"));
});

test("the answer that a message was taken for is told where it was said in other words", () => {
  const taken = (text: string, value: unknown, kind: MessageKind = "answer"): string => answerTaken(message(2, kind, "a", { text, value }));
  assert.deepEqual([taken("2", "South"), taken("the cold one", "North"), taken("yes", true)], ["South", "North", "true"]);
  assert.deepEqual([taken("South ", "South"), taken("South", null), taken("2", "South", "request")], ["", "", ""]);
});

test("under a run the last message is news unless it is the request at its top", () => {
  assert.equal(newsFor("a", { messages: [message(2, "request", "a")] }), undefined);
  assert.equal(newsFor("lone", { messages: [message(2, "request", "a")] })?.number, 2);
  assert.equal(newsFor("a", { messages: [message(2, "request", "a"), message(3, "why", "a")] })?.number, 3);
  assert.equal(newsFor("a", { messages: [] }), undefined);
});

test("a conversation plans while one of its runs does", () => {
  assert.ok(plans({ runs: [run("a", 1), run("b", 2, "planning")] }));
  assert.ok(!plans({ runs: [run("a", 1), run("b", 2, "reviewing")] }));
});

test("the first lines of an answer in a conversation have no marks of Markdown", () => {
  const answer = "# Answer\n\n**Rome** it is: 14° and `clear` [step:south]. See *trip.md*, not snake_case_name or 2*3*4.\n\n| City |\n|---|\n| Oslo |\n> quoted\n- one\n- two";
  assert.equal(firstLines(answer), "Answer\nRome it is: 14° and clear. See trip.md, not snake_case_name or 2*3*4.\nquoted\n- one");
  assert.equal(firstLines("<script>x</script>"), "<script>x</script>");
  assert.equal(firstLines(""), "");
});
