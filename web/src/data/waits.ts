// Time without the waiting: stretches in which a run only waited for a person are folded to a mark.

import type { Event } from "./types";

export interface Wait { from: number; to: number }

const PLANNING = new Set(["changes_asked", "replan_started"]);
const DECIDING = new Set(["plan_proposed", "review_asked"]);
const ENDING = new Set(["step_done", "step_failed", "step_skipped", "step_cancelled", "step_unknown", "step_reused"]);

// What a run is doing, as `plan/fold.py` counts it: no call is open, and a person is waited for.
class RunClock {
  private readonly calls = new Set<string>();
  private readonly questions = new Set<string>();
  private paused = false;
  private deciding = false;

  get waits(): boolean { return this.calls.size === 0 && (this.paused || this.questions.size > 0 || this.deciding); }

  take({ body }: Event): void {
    const { type } = body;
    const step = String(body["step"] ?? "");
    const question = String(body["question"] ?? "");
    if (type === "step_started" && body["inputs"]) this.calls.add(step);
    else if (ENDING.has(type)) this.calls.delete(step);
    else if (DECIDING.has(type)) this.deciding = true;
    else if (PLANNING.has(type) || type === "run_started" || type === "run_finished") this.deciding = false;
    else if (type === "run_paused" || type === "run_repaired") this.paused = true;
    else if (type === "run_resumed") this.paused = false;
    else if (type === "question_asked") {
      this.questions.add(question);
      this.calls.delete(step);
    } else if (type === "question_answered" || type === "question_withdrawn") this.questions.delete(question);
  }
}

export function waitsOf(events: readonly Event[]): Wait[] {
  const found: Wait[] = [];
  const clock = new RunClock();
  let last: number | undefined;
  for (const event of events) {
    const at = Date.parse(event.at);
    if (last !== undefined && at > last && clock.waits) {
      const before = found.at(-1);
      if (before?.to === last) before.to = at;
      else found.push({ from: last, to: at });
    }
    clock.take(event);
    last = at;
  }
  return found;
}

// How long a wait looks where waiting is hidden: long enough to be seen as a mark.
export interface Folded { length: number; toFilm: (at: number) => number; toReal: (film: number) => number }

// Maps times to a film in which each of the waits takes only `mark` milliseconds.
export function folded(start: number, end: number, waits: readonly Wait[], mark: number): Folded {
  const cuts = waits.map(({ from, to }) => ({ from: Math.max(start, from), to: Math.min(end, to) }))
    .filter(({ from, to }) => to - from > mark);
  const toFilm = (at: number): number => {
    let film = Math.min(end, Math.max(start, at)) - start;
    for (const { from, to } of cuts) {
      if (at >= to) film -= to - from - mark;
      else if (at > from) film -= (at - from) * (1 - mark / (to - from));
    }
    return film;
  };
  const length = toFilm(end);
  const toReal = (film: number): number => {
    // The end is the end: a rounding error would leave out the last event.
    if (film >= length - 1e-6) return end;
    let at = start + film;
    for (const { from, to } of cuts) {
      if (at <= from) break;
      const inside = at - from;
      at = inside >= mark ? at + (to - from - mark) : from + (inside / mark) * (to - from);
    }
    return Math.min(end, at);
  };
  return { length, toFilm, toReal };
}

// Round steps for an axis: at most `most` ticks between two times.
export function ticks(from: number, to: number, most: number): number[] {
  const least = (to - from) / Math.max(1, most);
  const step = STEPS.find((each) => each >= least) ?? Math.ceil(least / 86_400_000) * 86_400_000;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
  1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];
