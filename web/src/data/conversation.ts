// A conversation as it is shown: messages and runs in one order, and what can be taken back.

import { plainText, readMarkdown } from "./markdown";
import { isOver } from "./run";
import type { Conversation, ConversationRun, Message, RunStatus } from "./types";

export interface Entry { message?: Message; run?: ConversationRun }

const DRAWN_UP: ReadonlySet<RunStatus> = new Set(["triaging", "planning", "replanning"]);

// Each message with the run it made. Runs that no message made (one of before the conversation, or
// one that goes on in place of another) stand where they began.
export function inOrder({ messages, runs }: Pick<Conversation, "messages" | "runs">): Entry[] {
  const made = new Map(messages.filter((each) => each.kind === "request").map((each) => [each.run, each.number]));
  const others = runs.filter((run) => !made.has(run.id));
  const entries: Entry[] = [];
  for (const message of messages) {
    while (others.length && Date.parse(others[0]!.created_at) <= Date.parse(message.at)) entries.push({ run: others.shift()! });
    const run = runs.find((each) => made.get(each.id) === message.number);
    entries.push(run ? { message, run } : { message });
  }
  return [...entries, ...others.map((run) => ({ run }))];
}

export const plans = (talk: Pick<Conversation, "runs">): boolean => talk.runs.some((run) => DRAWN_UP.has(run.status));

// What a message did can be taken back, unless it did nothing or its request is over.
export function mayUndo(message: Message, runs: ConversationRun[]): boolean {
  if (message.undone || !message.kind || message.kind === "why" || message.kind === "review") return false;
  const run = runs.find((each) => each.id === message.run);
  return message.kind === "answer" || (run !== undefined && !isOver(run.status));
}

// The answer that a message was taken for, where that is not what was said: an option by its number, or a model's choice of one.
export function answerTaken(message: Message): string {
  if (message.kind !== "answer" || message.value === null) return "";
  const value = typeof message.value === "string" ? message.value : JSON.stringify(message.value);
  return value === message.text.trim() ? "" : value;
}

// The first lines of an answer without the marks of Markdown; tables and rules are left to the report.
export function firstLines(answer: string): string {
  const told = readMarkdown(answer).filter((each) => !["table", "pre", "hr"].includes(each.tag));
  return plainText(told).split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 4).join("\n");
}

// What was said last, where it tells more than the run itself: its own request stands at its top.
export function newsFor(run: string, { messages }: Pick<Conversation, "messages">): Message | undefined {
  const last = messages.at(-1);
  return messages.length === 1 && last?.kind === "request" && last.run === run ? undefined : last;
}
