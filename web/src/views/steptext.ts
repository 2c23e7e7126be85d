// How a step is called and what it does, in one line.

import type { Plan, Problem, RunView, Step } from "../data/types";
import { moment, t } from "../words/words";
import { madeTitle } from "./steptitle";

export const stepName = (step: Step): string => step.title || madeTitle(step);

// A step or part of a run by its title, where the plan has it.
export function nameIn(plan: Plan | null | undefined, id: string): string {
  const [first, ...part] = id.split("/");
  const step = plan?.steps.find((each) => each.id === first);
  return step ? [stepName(step), ...part].join(" · ") : id;
}

// A sentence in which the plan's steps are called by their titles: it has their ids in quotes. A title
// is the plan's own word, so it stands between backticks, which no title can leave: it is drawn as a name.
export function titled(text: string, plan: Plan | null | undefined, own?: string): string {
  const tools = new Set(plan?.steps.map(callee));
  const said = new Set<string>();
  return text.replace(/`([\w-]+)`|'([\w-]+)'|“([\w-]+)”/g, (whole, ...found: (string | undefined)[]) => {
    const id = found.slice(0, 3).find(Boolean) ?? "";
    // A tool that is called as a step is named after it.
    if (tools.has(id) && said.has(id)) return whole;
    said.add(id);
    if (id === own) return t("hero.this");
    return plan?.steps.some((each) => each.id === id) ? `\`${nameIn(plan, id).replaceAll("`", "'").slice(0, 80)}\`` : whole;
  });
}

const STOPPED: ReadonlySet<string | undefined> = new Set(["failed", "unknown", "skipped", "cancelled"]);

// Why a run ended, with the steps that did not by their titles: it lists their ids after a colon.
export function endReason(run: Pick<RunView, "reason" | "plan" | "steps">): string {
  return run.reason.replace(/([:：]\s*)([^:：;；]+)/g, (_, colon: string, names: string) =>
    colon + names.replace(/[\w-]+/g, (id) => (STOPPED.has(run.steps[id]?.status) ? nameIn(run.plan, id) : id)));
}

export function callee(step: Step): string {
  if (step.kind === "map" && step.each) return callee(step.each);
  return step.tool ?? step.agent ?? step.template ?? "";
}

export function summary(step: Step): string {
  return callee(step) || step.question || step.instruction || step.task || step.why || "";
}

// Where a repeated step is: its round, and when the next one begins.
export function roundText(run: RunView, step: Step): string {
  const repeat = step.repeat;
  if (!repeat) return "";
  const rounds = Object.keys(run.steps).filter((name) => name.startsWith(`${step.id}/`) && !name.slice(step.id.length + 1).includes("/"));
  if (rounds.length === 0) return "";
  const last = Math.max(...rounds.map((name) => Number(name.slice(step.id.length + 1)) || 0));
  const next = run.steps[`${step.id}/${last}`]?.wakes_at;
  const begun = next ? last - 1 : last;
  const text = t("go.round", { round: begun, most: repeat.at_most });
  return next ? `${text}, ${t("go.nextAt", { at: moment(next) })}` : text;
}

// How many items of a map step failed whose errors are in its result.
export function collectedOf(run: RunView, step: Step): number {
  if (step.kind !== "map") return 0;
  return Object.entries(run.steps).filter(([name, part]) => name.startsWith(`${step.id}/`) && part.rule === "error").length;
}

// A plan of more steps than this opens as a list.
export const LARGE = 200;

export function flagOf(problems: Problem[], step: string): "error" | "warning" | undefined {
  const own = problems.filter((each) => each.step === step).map((each) => each.severity);
  return own.includes("error") ? "error" : own.includes("warning") ? "warning" : undefined;
}
