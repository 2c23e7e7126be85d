// Edits that two people, or two tabs, made of one plan: what does not touch the same thing is joined.

import { sameJson } from "./diff";
import type { Json, Plan, Step } from "./types";

export interface Merged {
  plan: Plan;
  // Steps that both changed in different ways; "" for the plan itself or the order of its steps.
  conflicts: string[];
}

const same = (left: unknown, right: unknown): boolean =>
  left === right || (left !== undefined && right !== undefined && sameJson(left as Json, right as Json));

// `mine` over `theirs`, both made from `base`; where both changed a step, mine is taken and named.
export function mergePlans(base: Plan, mine: Plan, theirs: Plan): Merged {
  const conflicts: string[] = [];
  const pick = <T>(was: T, own: T, other: T, name: string): T => {
    if (same(own, was)) return other;
    if (!same(other, was) && !same(other, own)) conflicts.push(name);
    return own;
  };
  const [old, own, other] = [base, mine, theirs].map(byId) as [Steps, Steps, Steps];
  const kept = new Map<string, Step>();
  for (const id of new Set([...other.keys(), ...own.keys()])) {
    const step = pick(old.get(id), own.get(id), other.get(id), id);
    if (step) kept.set(id, step);
  }
  const common = new Set([...kept.keys()].filter((id) => old.has(id) && own.has(id) && other.has(id)));
  const order = pick(ids(base, common), ids(mine, common), ids(theirs, common), "");
  const head = { ...theirs } as Record<string, unknown>;
  for (const name of Object.keys({ ...base, ...mine })) {
    if (name === "steps" || name === "revision") continue;
    const field = name as keyof Plan;
    const value = pick<unknown>(base[field], mine[field], theirs[field], "");
    if (value === undefined) delete head[name];
    else head[name] = value;
  }
  const steps = placed(order, [mine, theirs], kept).map((id) => kept.get(id)!);
  return { plan: { ...(head as unknown as Plan), steps }, conflicts: [...new Set(conflicts)] };
}

type Steps = Map<string, Step>;

const byId = (plan: Plan): Steps => new Map(plan.steps.map((step) => [step.id, step]));

function ids(plan: Plan, wanted: ReadonlySet<string>): string[] {
  return plan.steps.map((step) => step.id).filter((id) => wanted.has(id));
}

// Steps that are missing in an order stand behind the one they follow in the plan that has them.
function placed(order: string[], plans: Plan[], kept: Steps): string[] {
  const result = [...order];
  for (const plan of plans) {
    plan.steps.forEach(({ id }, index) => {
      if (result.includes(id) || !kept.has(id)) return;
      const before = plan.steps.slice(0, index).map((step) => step.id).findLast((each) => result.includes(each));
      result.splice(before === undefined ? 0 : result.indexOf(before) + 1, 0, id);
    });
  }
  return result;
}
