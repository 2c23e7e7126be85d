// When each step waited, ran and asked: spans from the journal, and the way that took longest.

import { criticalPath, needs } from "./graph";
import type { Event, Plan } from "./types";

export type SpanKind = "waiting" | "running" | "person";
export interface Span { kind: SpanKind; from: number; to: number }
export interface Timeline {
  rows: { step: string; spans: Span[]; failed: boolean }[];
  start: number;
  end: number;
  critical: ReadonlySet<string>;
}

const ENDS = new Set(["step_done", "step_failed", "step_cancelled", "step_unknown", "step_skipped", "step_reused"]);

interface Track { spans: Span[]; open: { kind: SpanKind; from: number } | undefined; failed: boolean }

// `now` ends what still goes on.
export function timeline(plan: Plan, events: readonly Event[], now: number): Timeline {
  const graph = needs(plan);
  const tracks = new Map<string, Track>(plan.steps.map((step) => [step.id, { spans: [], open: undefined, failed: false }]));
  const finished = new Map<string, number>();
  const asked = new Map<string, string>();
  let start = Infinity;
  let last = -Infinity;
  // What was read for a preview ran before anybody started the run.
  const begin = events.findIndex((event) => event.body.type === "run_started");
  for (const event of events.slice(Math.max(begin, 0))) {
    const at = Date.parse(event.at);
    const type = event.body.type;
    if (type === "run_started") start = Math.min(start, at);
    if (type === "question_asked" && event.body["step"]) asked.set(event.body["question"] as string, event.body["step"] as string);
    const named = (event.body["step"] as string | undefined) ?? asked.get(event.body["question"] as string);
    const track = named === undefined ? undefined : tracks.get(named);
    if (!track || named === undefined) continue;
    last = Math.max(last, at);
    if (type === "step_started") {
      const ready = Math.max(start, ...graph[named]!.map((need) => finished.get(need) ?? start));
      close(track, at);
      if (track.spans.length === 0 && Number.isFinite(ready) && at > ready) track.spans.push({ kind: "waiting", from: ready, to: at });
      track.open = { kind: "running", from: at };
    } else if (type === "question_asked") {
      close(track, at);
      track.open = { kind: "person", from: at };
    } else if (type === "question_answered" || type === "question_withdrawn") {
      close(track, at);
      track.open = { kind: "waiting", from: at };
    } else if (ENDS.has(type)) {
      close(track, at);
      track.failed = type === "step_failed" && !event.body["again"] && !event.body["passed"];
      if (type === "step_failed" && event.body["again"]) track.open = { kind: "waiting", from: at };
      finished.set(named, at);
    }
  }
  const going = [...tracks.values()].some((track) => track.open);
  const end = Math.max(going ? now : last, start + 1);
  for (const track of tracks.values()) close(track, end);
  const busy = (step: string): number => sum(tracks.get(step)?.spans ?? []);
  const rows = plan.steps.map((step) => ({ step: step.id, spans: tracks.get(step.id)!.spans, failed: tracks.get(step.id)!.failed }));
  return { rows, start, end, critical: new Set(criticalPath(graph, busy).filter((step) => busy(step) > 0)) };
}

function close(track: Track, at: number): void {
  if (track.open && at > track.open.from) track.spans.push({ ...track.open, to: at });
  track.open = undefined;
}

const sum = (spans: Span[]): number =>
  spans.reduce((total, span) => total + (span.kind === "waiting" ? 0 : span.to - span.from), 0);
