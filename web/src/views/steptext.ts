// How a step is called and what it does, in one line.

import type { Problem, Step } from "../data/types";

export const stepName = (step: Step): string => step.title || step.id;

export function callee(step: Step): string {
  if (step.kind === "map" && step.each) return callee(step.each);
  return step.tool ?? step.agent ?? step.template ?? "";
}

export function summary(step: Step): string {
  return callee(step) || step.question || step.instruction || step.task || step.why || "";
}

// A plan of more steps than this opens as a list.
export const LARGE = 200;

export function flagOf(problems: Problem[], step: string): "error" | "warning" | undefined {
  const own = problems.filter((each) => each.step === step).map((each) => each.severity);
  return own.includes("error") ? "error" : own.includes("warning") ? "warning" : undefined;
}
