// Two runs side by side: what they have in common, step by step, and where they differ.

import type { RunView, Step, StepView } from "./types";

export interface ComparedStep { id: string; step: Step; left: StepView | undefined; right: StepView | undefined; differs: "" | "status" | "result" | "only" }

export function seconds(step: StepView | undefined): number | undefined {
  if (!step?.started_at || !step.finished_at) return undefined;
  return (Date.parse(step.finished_at) - Date.parse(step.started_at)) / 1000;
}

// The steps of both plans in the order of the left one, then what only the right one has.
export function comparedSteps(left: RunView, right: RunView): ComparedStep[] {
  const steps = new Map<string, Step>();
  for (const step of [...(left.plan?.steps ?? []), ...(right.plan?.steps ?? [])]) {
    if (!steps.has(step.id)) steps.set(step.id, step);
  }
  const inLeft = new Set(left.plan?.steps.map((each) => each.id));
  const inRight = new Set(right.plan?.steps.map((each) => each.id));
  return [...steps].map(([id, step]) => {
    const one = left.steps[id];
    const other = right.steps[id];
    const both = inLeft.has(id) && inRight.has(id);
    return { id, step, left: one, right: other, differs: both ? differenceOf(one, other) : "only" };
  });
}

function differenceOf(left: StepView | undefined, right: StepView | undefined): ComparedStep["differs"] {
  if (left?.status !== right?.status) return "status";
  return (left?.result_hash ?? "") === (right?.result_hash ?? "") ? "" : "result";
}

// How long a run worked: from its first step to its last, without what came before.
export function tookOf(run: RunView): number {
  const parts = Object.values(run.steps).map(seconds).filter((each): each is number => each !== undefined);
  return parts.reduce((sum, each) => sum + each, 0);
}
