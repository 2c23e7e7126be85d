// A run is nothing but its events, one after the other: `plan/fold.py` in the browser.
// The cases in tests/web/cases hold both to the same result.

import { downstream, needs, waitsFor } from "./graph";
import { RUN_STATUSES } from "./types";
import type { Estimate, Event, Plan, PreviewHead, Problem, Question, RunStatus, RunView, StepState, StepStatus, StepView } from "./types";

export interface RunState {
  id: string;
  request: string;
  locale: string;
  phase: RunStatus;
  decision: string;
  reason: string;
  plan: Plan | null;
  problems: Problem[];
  estimate: Estimate | null;
  revisions: number;
  approved: string;
  running_hash: string;
  paused: boolean;
  replans: number;
  iterations: number;
  rejections: number;
  tokens: number;
  cost_usd: string;
  cancel_asked: boolean;
  preview: PreviewHead | null;
  previewing: string;
  preview_approved: boolean;
  reads_again: boolean;
  started_at: string | null;
  steps: Record<string, StepState>;
  questions: Record<string, Question>;
  answer_hash: string;
  created_at: string | null;
  updated_at: string | null;
  last: number;
}

const OVER: ReadonlySet<RunStatus> = new Set(["done", "partly_done", "failed", "cancelled", "answered"]);

export function isOver(status: RunStatus): boolean {
  return OVER.has(status);
}

export function newStep(): StepState {
  return {
    status: "waiting", attempts: 0, result_hash: "", error: "", error_kind: "", progress: "",
    tokens: 0, started_at: null, finished_at: null, reused_from: "",
    rule: "", wakes_at: null, given_by: "",
  };
}

function newRun(id: string): RunState {
  return {
    id, request: "", locale: "en", phase: "triaging", decision: "", reason: "",
    plan: null, problems: [], estimate: null, revisions: 0, approved: "", running_hash: "",
    paused: false, replans: 0, iterations: 0, rejections: 0, tokens: 0, cost_usd: "0",
    cancel_asked: false, preview: null, previewing: "", preview_approved: false, reads_again: false, started_at: null, steps: {}, questions: {}, answer_hash: "", created_at: null,
    updated_at: null, last: 0,
  };
}

// A run as the server sent it, to fold later events onto.
export function stateOf(view: RunView): RunState {
  const { id, request, locale, phase, decision, reason, plan, problems, estimate } = view;
  const { revisions, approved, running_hash, paused, replans, iterations, rejections } = view;
  const { tokens, cost_usd, cancel_asked, created_at, updated_at, last } = view;
  const { preview, previewing, preview_approved, reads_again, started_at } = view;
  const questions = Object.fromEntries(view.questions.map((each) => [each.question, each]));
  return {
    id, request, locale, phase, decision, reason, plan, problems, estimate, revisions,
    approved, running_hash, paused, replans, iterations, rejections, tokens, cost_usd,
    cancel_asked, preview, previewing, preview_approved, reads_again, started_at, steps: view.steps, questions, answer_hash: "", created_at, updated_at, last,
  };
}

// Steps that only a fold in progress has seen: it may change them instead of copying them all.
const owned = new WeakSet<Record<string, StepState>>();

export function fold(events: readonly Event[], from?: RunState): RunState {
  let state = from ?? newRun(events[0]?.run ?? "");
  state = { ...state, steps: { ...state.steps } };
  for (const event of events) {
    owned.add(state.steps);
    state = take(state, event);
  }
  owned.delete(state.steps);
  return state;
}

function withStep(steps: Record<string, StepState>, name: string, step: StepState): Record<string, StepState> {
  if (!owned.has(steps)) return { ...steps, [name]: step };
  steps[name] = step;
  return steps;
}

// The phase, unless a person is waited for or the run is paused.
export function statusOf(run: RunState): RunStatus {
  if (isOver(run.phase)) return run.phase;
  if (run.paused) return "paused";
  const wholes = new Set(Object.keys(run.steps).map((name) => name.slice(0, Math.max(name.lastIndexOf("/"), 0))));
  // A step that only holds others calls nothing: its parts tell whether anything is under way.
  const busy = Object.entries(run.steps).some(([name, step]) => step.status === "running" && !wholes.has(name));
  return Object.keys(run.questions).length > 0 && !busy ? "asking" : run.phase;
}

// Done, or skipped as the plan says.
const isSettled = (step: StepState | undefined): boolean => step !== undefined && (step.status === "done" || step.rule !== "");

// Waiting steps that wait for no other step are ready, but only while the run is running.
export function withReady(run: RunState): Record<string, StepState> {
  const steps: Record<string, StepState> = { ...run.steps };
  for (const [name, step] of Object.entries(steps)) {
    if (step.status === "ready") steps[name] = { ...step, status: "waiting" };
  }
  if (run.plan === null || run.phase !== "running") return steps;
  for (const [name, before] of Object.entries(waitsFor(run.plan))) {
    const step = steps[name];
    if (step?.status === "waiting" && before.every((need) => isSettled(steps[need]))) {
      steps[name] = { ...step, status: "ready" };
    }
  }
  return steps;
}

type Body = Record<string, unknown>;
type Apply = (run: RunState, body: Body, event: Event) => Partial<RunState>;

export class Misfit extends Error {}

export function take(run: RunState, event: Event): RunState {
  if (event.run !== run.id || event.number !== run.last + 1) {
    throw new Misfit(`expected event ${run.last + 1} of run ${run.id}, got ${event.number}`);
  }
  if (isOver(run.phase)) throw new Misfit("the run is over");
  const apply = APPLY[event.body.type];
  // A newer server may tell more than this page knows; what it does not know changes nothing.
  const change = apply ? apply(run, event.body, event) : {};
  return { ...run, ...change, last: event.number, updated_at: event.at };
}

const text = (body: Body, name: string): string => (body[name] as string | undefined) ?? "";

function spend(run: RunState, body: Body): Partial<RunState> {
  const cost = text(body, "cost");
  return {
    tokens: run.tokens + ((body["tokens"] as number | undefined) ?? 0),
    cost_usd: cost ? addMoney(run.cost_usd, cost) : run.cost_usd,
  };
}

// Decimal texts are added as whole numbers of their smallest place: 0.1 and 0.2 are 0.3.
export function addMoney(left: string, right: string): string {
  const [one, other] = [decimal(left), decimal(right)];
  const places = Math.max(one.places, other.places);
  const sum = one.digits * 10n ** BigInt(places - one.places) + other.digits * 10n ** BigInt(places - other.places);
  const text = sum.toString().padStart(places + 1, "0");
  return places ? `${text.slice(0, -places)}.${text.slice(-places)}` : text;
}

function decimal(amount: string): { digits: bigint; places: number } {
  const [base = "0", power = "0"] = amount.toLowerCase().split("e");
  const [whole = "0", part = ""] = base.split(".");
  const places = part.length - Number(power);
  const digits = BigInt(whole + part);
  return places < 0 ? { digits: digits * 10n ** BigInt(-places), places: 0 } : { digits, places };
}

function setStep(run: RunState, body: Body, change: Partial<StepState>): Partial<RunState> {
  const name = text(body, "step");
  const step = run.steps[name] ?? newStep();
  return { steps: withStep(run.steps, name, { ...step, ...change }) };
}

function proposed(run: RunState, body: Body): Partial<RunState> {
  const given = body["plan"] as Partial<Plan> & Pick<Plan, "steps">;
  const plan: Plan = { schema_version: 1, goal: "", ...given };
  const steps: Record<string, StepState> = {};
  for (const step of plan.steps) steps[step.id] = run.steps[step.id] ?? newStep();
  for (const [name, part] of Object.entries(run.steps)) {
    if (name.includes("/") && name.split("/")[0]! in steps) steps[name] = part;
  }
  // A plan of a one.s own is no replan: it stands for itself.
  const own = !["model", "rules", undefined].includes(body["origin"] as string | undefined);
  return {
    plan, steps, locale: plan.locale ?? "en", approved: "", running_hash: "", preview: null, previewing: "",
    problems: (body["problems"] as Problem[] | undefined) ?? [],
    estimate: wholeEstimate(body["estimate"] as Partial<Estimate> | undefined),
    revisions: run.revisions + 1,
    phase: run.phase === "replanning" && !own ? "replanning" : "planning",
    ...spend(run, body),
  };
}

// Journals leave out what is at its default; whoever reads an estimate wants to see it.
function wholeEstimate(given: Partial<Estimate> | undefined): Estimate | null {
  if (!given) return null;
  const measured = Object.entries(given.measured ?? {}).map(([name, each]) => [name, { tokens: 0, ...each }]);
  return {
    seconds: 0, tokens: 0, cost_usd: null, effects: {}, critical_path: [], basis: [], ...given,
    measured: Object.fromEntries(measured) as Estimate["measured"],
  };
}

// Steps wait again that failed before the approval, or were passed over for it.
function triedAgain(steps: Record<string, StepState>): Record<string, StepState> {
  const waits = ({ status, rule, error_kind }: StepState): boolean =>
    rule === "error" || rule === "need" || (["failed", "skipped", "cancelled"].includes(status) && error_kind !== "person");
  return Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, waits(step) ? newStep() : step]));
}

// Those for which `again` is true wait once more; their parts come again with their list.
function reset(steps: Record<string, StepState>, again: (name: string, step: StepState) => boolean): Record<string, StepState> {
  return Object.fromEntries(Object.entries(steps).flatMap(([name, step]) =>
    !again(name, step) ? [[name, step]] : name.includes("/") ? [] : [[name, newStep()]]));
}

// Results are given in place of those of steps that read. A fresh preview forgets what an earlier one read.
function previewStarted(run: RunState, body: Body, event: Event): Partial<RunState> {
  const given = (body["given"] as Record<string, string> | undefined) ?? {};
  const again = downstream(run.plan ? needs(run.plan) : {}, Object.keys(given));
  const kept = body["fresh"] ? reset(run.steps, hasRun) : run.steps;
  const steps = reset(triedAgain(kept), (name) => again.has(name.split("/")[0]!));
  const { kind, name } = event.by;
  const given_by = (kind === "program" ? `program ${name ?? ""}`.trim() : name) || kind;
  for (const [step, result_hash] of Object.entries(given)) steps[step] = { ...newStep(), status: "done", result_hash, given_by, finished_at: event.at };
  return { steps, previewing: text(body, "hash"), preview: null };
}

const hasRun = (_: string, step: StepState): boolean => step.attempts > 0 || step.rule !== "" || step.given_by !== "";

// Whoever approved the plan alone has not seen what was given in place of results.
function beforeStart(run: RunState): Record<string, StepState> {
  const seen = run.preview_approved;
  const forgets = run.reads_again || (!seen && Object.values(run.steps).some((step) => step.given_by));
  return triedAgain(forgets ? reset(run.steps, (name, step) => hasRun(name, step) && !(seen && step.given_by)) : run.steps);
}

function asked(run: RunState, body: Body): Partial<RunState> {
  const { type: _, ...question } = body;
  const questions = { ...run.questions, [text(body, "question")]: question as unknown as Question };
  const step = run.steps[text(body, "step")];
  const asks = Boolean(body["step"]) && step?.status !== "unknown";
  return { questions, ...(asks ? setStep(run, body, { status: "asking" }) : {}) };
}

function closed(run: RunState, body: Body): Partial<RunState> {
  const questions = { ...run.questions };
  delete questions[text(body, "question")];
  return { questions };
}

// A moment some seconds later, to the microsecond as journals write it.
export function later(at: string, seconds: number): string {
  const micros = Number(at.slice(20, 26).replace(/\D.*/, "").padEnd(6, "0")) + Math.round(seconds * 1e6);
  const whole = new Date(Date.parse(`${at.slice(0, 19)}Z`) + Math.floor(micros / 1e6) * 1000).toISOString();
  return `${whole.slice(0, 19)}.${String(micros % 1e6).padStart(6, "0")}Z`;
}

function finishedAt(run: RunState, body: Body, event: Event): string {
  const step = run.steps[text(body, "step")];
  // What a person knows of a call says nothing about how long it took.
  return (step?.status === "unknown" ? step.finished_at : null) ?? event.at;
}

const ended = (status: StepStatus, field = "reason"): Apply => (run, body, event) =>
  setStep(run, body, {
    status, error: text(body, field),
    finished_at: body["died"] ? run.steps[text(body, "step")]?.started_at ?? event.at : event.at,
  });

const APPLY: Record<string, Apply> = {
  run_created: (_, body, event) => ({
    request: text(body, "request"), locale: text(body, "locale") || "en",
    created_at: event.at,
  }),
  triaged: (run, body) => ({
    phase: "planning", decision: text(body, "decision"), reason: text(body, "reason"), ...spend(run, body),
  }),
  planning_failed: (run, body) => ({
    problems: run.plan ? run.problems : (body["problems"] as Problem[] | undefined) ?? [], ...spend(run, body),
  }),
  plan_proposed: proposed,
  review_asked: (run, body) => ({
    phase: "reviewing", approved: run.approved === text(body, "hash") ? "" : run.approved,
  }),
  preview_started: previewStarted,
  // What it shows only the server can tell.
  preview_made: () => ({ previewing: "" }),
  plan_approved: (_, body) => ({
    approved: text(body, "hash"), previewing: "", preview_approved: text(body, "preview") !== "", reads_again: body["fresh"] === true,
  }),
  plan_rejected: (_, body) => ({ approved: "", reason: text(body, "reason") }),
  changes_asked: (run, body) => ({
    approved: "", phase: "planning", reason: text(body, "text"), rejections: run.rejections + 1,
  }),
  question_asked: asked,
  question_answered: closed,
  question_withdrawn: closed,
  run_started: (run, body, event) => ({
    phase: "running", running_hash: text(body, "hash"), started_at: run.started_at ?? event.at,
    ...(run.started_at === null ? { steps: beforeStart(run) } : {}),
  }),
  step_started: (run, body, event) => setStep(run, body, {
    ...newStep(), status: "running", attempts: (body["attempt"] as number | undefined) ?? 1, started_at: event.at,
  }),
  step_progressed: (run, body) => setStep(run, body, { progress: text(body, "text") }),
  step_done: (run, body, event) => ({
    ...setStep(run, body, {
      status: "done", result_hash: text(body, "result"), error: "",
      tokens: (body["tokens"] as number | undefined) ?? 0, finished_at: finishedAt(run, body, event),
    }),
    ...spend(run, body),
  }),
  step_reused: (run, body, event) =>
    setStep(run, body, {
      status: "done", result_hash: text(body, "result"), finished_at: body["done_at"] ? later(text(body, "done_at"), 0) : event.at,
      reused_from: text(body, "run"),
    }),
  step_failed: (run, body, event) => ({
    ...setStep(run, body, {
      status: body["passed"] ? "skipped" : body["again"] ? "waiting" : "failed", error: text(body, "error"),
      error_kind: text(body, "kind") || "tool", finished_at: event.at,
      rule: body["passed"] ? "error" : "", result_hash: text(body, "result"),
    }),
    ...spend(run, body),
  }),
  step_replied: (run, body) => setStep(run, body, { status: "waiting" }),
  step_skipped: (run, body, event) => setStep(run, body, {
    status: "skipped", error: text(body, "reason"), finished_at: event.at,
    error_kind: event.by.kind === "system" ? "" : "person",
    rule: text(body, "rule") as StepState["rule"], result_hash: text(body, "result"),
  }),
  step_waits: (run, body, event) => {
    const seconds = body["seconds"] as number | undefined;
    return setStep(run, body, { wakes_at: seconds ? later(event.at, seconds) : null });
  },
  step_cancelled: ended("cancelled"),
  step_unknown: ended("unknown"),
  step_reset: (run, body) => ({ steps: withStep(run.steps, text(body, "step"), newStep()) }),
  run_paused: (_, body) => ({ paused: true, reason: text(body, "reason") }),
  run_resumed: () => ({ paused: false, reason: "" }),
  run_repaired: (_, body) => ({ paused: true, reason: text(body, "reason") }),
  cancel_asked: (_, body) => ({ cancel_asked: true, reason: text(body, "reason") }),
  step_advised: () => ({}),
  replan_started: (run, body) => {
    const kind = text(body, "kind") || "failure";
    return {
      phase: "replanning", reason: text(body, "cause"),
      replans: run.replans + (kind === "failure" || kind === "advice" ? 1 : 0),
      iterations: run.iterations + (kind === "iteration" ? 1 : 0),
    };
  },
  request_answered: (_, body) => ({ answer_hash: text(body, "result") }),
  run_finished: (_, body) => {
    const status = RUN_STATUSES.find((each) => each === body["status"]) ?? "failed";
    return { phase: status, reason: text(body, "reason"), paused: false, questions: {} };
  },
};

export const EVENT_TYPES = Object.keys(APPLY);

// A step that has not changed stays the same object, and costs nothing.
const valued = new WeakMap<StepState, { known: StepView | undefined; step: StepView }>();

function withValues(step: StepState, known: StepView | undefined): StepView {
  const before = valued.get(step);
  if (before?.known === known && before) return before.step;
  const same = known !== undefined && known.result_hash === step.result_hash;
  // A folded step began as one of the server's and may carry values of then: those told last count.
  const whole = same ? { ...known, ...step, inputs: known.inputs, result: known.result, result_size: known.result_size, clipped: known.clipped } : step;
  valued.set(step, { known, step: whole });
  return whole;
}

// The server's view with the folded state on top; results stay with the steps they belong to.
export function merged(view: RunView, state: RunState): RunView {
  if (state.last === view.last) return view;
  const steps: Record<string, StepView> = {};
  for (const [name, step] of Object.entries(withReady(state))) {
    steps[name] = withValues(step, view.steps[name]);
  }
  const { answer_hash: _, questions, created_at, updated_at, ...rest } = state;
  const planned = state.revisions === view.revisions;
  return {
    ...view, ...rest, steps,
    plan: planned ? view.plan : state.plan,
    hash: planned ? view.hash : null,
    rules: planned ? view.rules : {},
    status: statusOf(state),
    questions: Object.values(questions),
    created_at: created_at ?? view.created_at,
    updated_at: updated_at ?? view.updated_at,
  };
}
