// What the server sends, word for word: see docs/server.md and /openapi.json.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export const RUN_STATUSES = [
  "triaging", "planning", "asking", "reviewing", "running", "paused", "replanning",
  "done", "partly_done", "failed", "cancelled", "answered",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

// What a run can be made from, as far as people tell runs apart by it.
export const ORIGINS = ["request", "run", "undo", "template", "schedule", "a2a", "conversation", "notes"] as const;

export const STEP_STATUSES = [
  "waiting", "ready", "running", "asking", "done", "failed", "skipped", "cancelled", "unknown",
] as const;
export type StepStatus = (typeof STEP_STATUSES)[number];

export const KINDS = ["tool", "agent", "ask", "map", "plan", "reply"] as const;
export type Kind = (typeof KINDS)[number];
export type Effect = "read" | "write" | "final";

export interface Step {
  id: string;
  kind: Kind;
  title?: string;
  why?: string;
  after?: string[];
  timeout_s?: number;
  disabled?: boolean;
  tool?: string;
  agent?: string;
  task?: string;
  inputs?: JsonObject;
  question?: string;
  options?: string[];
  answer_schema?: JsonObject;
  template?: string;
  version?: number;
  instruction?: string;
  style?: "worded" | "exact" | "results";
  over?: Json;
  each?: Step;
  width?: number;
  when?: JsonObject;
  otherwise?: { value: Json };
  repeat?: { until: JsonObject; at_most: number; every?: number };
  on_error?: "fail" | "skip" | "collect" | { value: Json };
  retry?: { at_most: number; every?: number };
  undo_with?: { tool: string; inputs?: JsonObject };
}

export interface Plan {
  schema_version: number;
  goal: string;
  id?: string;
  revision?: number;
  locale?: string;
  thought?: string;
  assumptions?: string[];
  steps: Step[];
  enough_context?: boolean;
  degraded?: string;
  schedule?: JsonObject | null;
  schedules?: Record<string, JsonObject>;
}

export interface Problem {
  code: string;
  name?: string;
  severity: "error" | "warning" | "note";
  message: string;
  hint?: string;
  step?: string | null;
  path?: (string | number)[];
}

export interface Estimate {
  seconds: number;
  tokens: number;
  cost_usd: string | null;
  effects: Record<string, number>;
  critical_path: string[];
  basis: string[];
  measured: Record<string, { seconds: number; tokens?: number }>;
}

// Who asks: a step of the plan or a called tool asks what it likes, all others are the system's.
export type QuestionKind = "step" | "call" | "request" | "consent" | "unknown" | "limit";

export interface Question {
  question: string;
  hash?: string;
  kind: QuestionKind;
  text: string;
  options?: string[];
  answer_schema?: JsonObject | null;
  step?: string | null;
  expires_at?: string | null;
  state?: string;
  link?: string;
  // Of a consent: what would be called, where the values came from, how often if once for each item.
  callee?: string;
  sources?: string[];
  times?: number;
}

export interface StepState {
  status: StepStatus;
  attempts: number;
  result_hash: string;
  error: string;
  error_kind: string;
  progress: string;
  tokens: number;
  started_at: string | null;
  finished_at: string | null;
  // The earlier run in which it was done, if not in this one.
  reused_from: string;
  // Why the plan itself skipped it; the time for which it waits.
  rule: "" | "when" | "need" | "error" | "left_out";
  wakes_at: string | null;
  // Who gave its result for a preview, in place of what it would read.
  given_by: string;
}

// What the server knows beyond the journal: resolved inputs and results.
export interface StepView extends StepState {
  inputs?: Json;
  result?: Json;
  result_size?: number;
  clipped?: boolean;
}

export interface Effects {
  read: number;
  write: number;
  final: number;
  hosts: string[];
  by_step: Record<string, Effect>;
}

export type Origins = Record<string, Record<string, string>>;

// The rules of steps as sentences, by id.
export type Rules = Record<string, string[]>;

// What a plan would change, in short; its hash approves the plan with exactly these calls.
export interface PreviewHead { hash: string; calls: number; open: number }

export interface RunView {
  id: string;
  status: RunStatus;
  phase: RunStatus;
  request: string;
  locale: string;
  decision: string;
  reason: string;
  // Where the run acts, and nowhere else; why its journal cannot be read to its end.
  folder: string;
  damage: string;
  // Why the person who looks cannot approve the plan; only where that is so.
  cannot_approve?: string;
  // Whether its plan only stands in for one that could not be made; why the newest planning gave none.
  stand_in: boolean;
  failure: { reason: string; model: string; output: string } | null;
  plan: Plan | null;
  hash: string | null;
  approved: string;
  running_hash: string;
  revisions: number;
  problems: Problem[];
  estimate: Estimate | null;
  review: { asked: boolean; hash: string; reasons: string[] } | null;
  effects: Effects;
  origins: Origins;
  rules: Rules;
  preview: PreviewHead | null;
  // The hash of the plan whose preview is being made.
  previewing: string;
  preview_approved: boolean;
  reads_again: boolean;
  started_at: string | null;
  steps: Record<string, StepView>;
  questions: Question[];
  paused: boolean;
  cancel_asked: boolean;
  replans: number;
  iterations: number;
  rejections: number;
  tokens: number;
  cost_usd: string;
  report: string;
  // How many steps are done and would not run again, if the run were continued.
  continues: { done: number; total: number } | null;
  // Whether it is over and did anything that has a call which takes it back.
  can_be_undone: boolean;
  origin: Origin;
  // The conversation that the run belongs to; empty for a run of its own.
  conversation: string;
  created_at: string;
  updated_at: string;
  last: number;
  // Seconds by what it did until the moment `at`.
  times?: { planning: number; running: number; waiting: number; at: string | null };
}

export interface RunRow {
  id: string;
  status: RunStatus;
  request: string;
  goal: string;
  origin?: string;
  planning_seconds?: number;
  running_seconds?: number;
  waiting_seconds?: number;
  locale: string;
  created_at: string;
  updated_at: string;
  steps: { total: number; done: number; failed: number; running: number };
  questions: number;
  tokens: number;
  cost_usd: string;
}

export interface Event {
  run: string;
  number: number;
  at: string;
  by: { kind: "person" | "program" | "model" | "system"; name?: string };
  body: { type: string; [field: string]: unknown };
  position?: number;
}

export interface Draft {
  run: string;
  phase: string;
  // A stage begins and `text` says what it is about; otherwise `text` is what the model writes.
  begins?: boolean;
  text?: string;
  step?: Partial<Step>;
  tokens?: number;
  elapsed_ms?: number;
  // How far a slow model is: in its own words, how much of the prompt it has read (%), tokens a second.
  progress?: string;
  share?: number;
  pace?: string;
}

// What a run was made from.
export interface Origin {
  kind: "request" | "run" | "undo" | "template" | "schedule" | "a2a" | "conversation" | "notes";
  id?: string;
  event?: number;
}

export interface PlanVersion {
  revision: number;
  hash: string;
  origin: string;
  cause: string;
  // Of the steps that failed before it was made.
  errors: Record<string, string>;
  at: string;
  plan: Plan;
}

export interface Checked {
  plan: Plan;
  hash: string;
  problems: Problem[];
  estimate: Estimate | null;
  effects: Effects;
  origins: Origins;
  rules: Rules;
}

export interface Exchange {
  model?: string;
  prompt?: Json;
  output?: Json;
  [more: string]: Json | undefined;
}

export interface StepDetail {
  step: Step;
  state: StepView;
  template_inputs?: Json;
  resolved_inputs?: Json;
  attempts: { number: number; key: string; started_at: string; finished_at: string | null; error: string }[];
  exchanges: Exchange[];
}

export interface InboxItem {
  run?: string | null;
  kind: "review" | "question" | "tool" | "schedule";
  request?: string;
  goal?: string;
  question?: Question;
  review?: { hash: string; reasons?: string[] };
  since: string;
  server?: string;
  schedule?: string;
  reason?: string;
}

// What a message was taken for. `review`: it sounded like an approval, which no message gives.
export type MessageKind = "request" | "answer" | "change" | "why" | "review";

export interface Message {
  number: number;
  at: string;
  by: Event["by"];
  text: string;
  // Null as long as nobody has read it.
  kind: MessageKind | null;
  run: string;
  question: string;
  // The text of the question that it answers.
  asked: string;
  value: unknown;
  judge: "person" | "rules" | "model" | null;
  reason: string;
  reply: { text: string; run: string; step: string } | null;
  undone: boolean;
  // The run that goes on in its place, where it was taken back.
  instead: string;
}

export interface ConversationRow {
  id: string;
  title: string;
  owner: string;
  messages: number;
  updated_at: string;
  // What in it waits for a person.
  waits: "" | "question" | "review";
}

// A run of a conversation, with the first lines of what it answered.
export interface ConversationRun extends RunRow {
  answer: string;
}

export interface Conversation {
  id: string;
  title: string;
  owner: string;
  last: number;
  messages: Message[];
  runs: ConversationRun[];
  questions: (Question & { run: string })[];
  summary: { upto: number; text: string } | null;
}

// What came of a message: a run as it stands, and what the message was taken for.
export interface Said extends RunView {
  message: { number: number; kind: MessageKind; text: string; judge: Message["judge"]; reason: string };
}
