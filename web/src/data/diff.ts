// The difference of two plans by step id and field, as `plan/diff.py` makes it.

import { isRawNumber } from "./json";
import type { Json, JsonObject, Plan, Step } from "./types";

export type Path = (string | number)[];
export interface FieldChange { path: Path; change: "added" | "removed" | "changed"; before?: Json; after?: Json }
export interface PlanDiff {
  plan: FieldChange[];
  added: { position: number; step: Step }[];
  removed: { position: number; step: Step }[];
  changed: { id: string; fields: FieldChange[] }[];
  moved: { id: string; before: number; after: number }[];
}

export function diffPlans(before: Plan, after: Plan): PlanDiff {
  const old = positions(before);
  const now = positions(after);
  const both = [...old.keys()].filter((id) => now.has(id));
  const changed = both.map((id) => ({
    id, fields: diffValues(asJson(before.steps[old.get(id)!]), asJson(after.steps[now.get(id)!])),
  }));
  return {
    plan: diffValues(head(before), head(after)),
    added: placed(after, now, old),
    removed: placed(before, old, now),
    changed: changed.filter((each) => each.fields.length > 0),
    moved: moves(both, old, now),
  };
}

export function isEmpty(diff: PlanDiff): boolean {
  return !(diff.plan.length || diff.added.length || diff.removed.length || diff.changed.length || diff.moved.length);
}

const RULES = new Set(["when", "otherwise", "repeat", "on_error", "retry", "undo_with"]);

// Whether a path leads to a rule of a step, or of the inner step of a map.
export function isRule(path: Path): boolean {
  return RULES.has(String(path.at(-1))) && (path.length === 1 || (path.length === 2 && path[0] === "each"));
}

// Fields that differ; lists of other lengths and rules differ as a whole.
export function diffValues(before: Json, after: Json, path: Path = []): FieldChange[] {
  if (!isRule(path) && isObject(before) && isObject(after)) {
    const keys = [...Object.keys(before), ...Object.keys(after).filter((key) => !(key in before))];
    return keys.flatMap((key): FieldChange[] => {
      const here = [...path, key];
      if (!(key in after)) return [{ path: here, change: "removed", before: before[key]! }];
      if (!(key in before)) return [{ path: here, change: "added", after: after[key]! }];
      return diffValues(before[key]!, after[key]!, here);
    });
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    return before.flatMap((child, index) => diffValues(child, after[index]!, [...path, index]));
  }
  return sameJson(before, after) ? [] : [{ path, change: "changed", before, after }];
}

export function sameJson(left: Json | undefined, right: Json | undefined): boolean {
  if (left === right) return true;
  if (isRawNumber(left) || isRawNumber(right)) return JSON.stringify(left) === JSON.stringify(right);
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((each, index) => sameJson(each, right[index]));
  }
  if (!isObject(left) || !isObject(right)) return false;
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => key in right && sameJson(left[key], right[key]));
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRawNumber(value);
const asJson = (value: unknown): Json => value as Json;

function head(plan: Plan): Json {
  const { steps: _steps, ...rest } = plan;
  return asJson(rest);
}

const positions = (plan: Plan): Map<string, number> => new Map(plan.steps.map((step, index) => [step.id, index]));

function placed(plan: Plan, here: Map<string, number>, there: Map<string, number>): PlanDiff["added"] {
  return [...here].filter(([id]) => !there.has(id)).map(([, position]) => ({ position, step: plan.steps[position]! }));
}

function moves(both: string[], old: Map<string, number>, now: Map<string, number>): PlanDiff["moved"] {
  const stay = longestRise(both.map((id) => now.get(id)!));
  return both.filter((id) => !stay.has(now.get(id)!)).map((id) => ({ id, before: old.get(id)!, after: now.get(id)! }));
}

// The members of a longest increasing subsequence: the steps that need not be called moved.
function longestRise(numbers: number[]): Set<number> {
  const ends: number[] = [];
  const previous = new Map<number, number | undefined>();
  for (const number of numbers) {
    let place = ends.findIndex((end) => end >= number);
    if (place < 0) place = ends.length;
    previous.set(number, place ? ends[place - 1] : undefined);
    ends[place] = number;
  }
  const members = new Set<number>();
  for (let member = ends.at(-1); member !== undefined; member = previous.get(member)) members.add(member);
  return members;
}
