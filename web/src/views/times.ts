// How long things took, with milliseconds where milliseconds matter.

import type { RunView, StepView } from "../data/types";
import { duration, t } from "../words/words";

// 340 ms, 4.2 s, 2 min 5 s.
export function precise(milliseconds: number): string {
  if (milliseconds < 1) return t("replay.ms", { count: milliseconds > 0 ? "<1" : 0 });
  if (milliseconds < 1000) return t("replay.ms", { count: Math.round(milliseconds) });
  if (milliseconds < 10_000) return t("unit.seconds", { count: (Math.floor(milliseconds / 100) / 10).toFixed(1) });
  return duration(milliseconds / 1000);
}

// How long a step takes or took; whole seconds while it runs, since it is read every second.
export function tookText(state: StepView, now: number): string {
  if (!state.started_at || state.status === "waiting") return "";
  const tries = state.attempts > 1 ? ` ×${state.attempts}` : "";
  const from = Date.parse(state.started_at);
  if (state.finished_at) return precise(Math.max(0, Date.parse(state.finished_at) - from)) + tries;
  return duration(Math.max(1000, now - from) / 1000) + tries;
}

const WAITING = new Set(["asking", "reviewing", "paused"]);

// How long a run took or takes without the time in which it waited for a person.
export function worked(run: RunView, now: number, over: boolean): number | undefined {
  const times = run.times;
  if (!times) return undefined;
  const known = times.planning + times.running;
  const until = over || WAITING.has(run.status) ? Date.parse(run.updated_at) : now;
  return known * 1000 + Math.max(0, until - Date.parse(times.at ?? run.updated_at));
}
