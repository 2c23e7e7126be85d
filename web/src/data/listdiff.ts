// A difference of two plans as a list of steps shows it: by step, and what went where it stood.

import { diffPlans, isEmpty } from "./diff";
import type { FieldChange } from "./diff";
import type { Plan, Step } from "./types";

export interface Change { added: boolean; fields: FieldChange[]; moved?: { before: number; after: number } }
export interface ListChanges {
  plan: FieldChange[];
  of: Map<string, Change>;
  // Steps that are gone, by the place in the new list before which they stood.
  removedAt: Map<number, Step[]>;
}

// The revision's own number always differs and says nothing.
export const unnumbered = (plan: Plan): Plan => ({ ...plan, revision: 1 });

export function changesSince(before: Plan | undefined, after: Plan): ListChanges | undefined {
  if (!before || before === after) return undefined;
  const diff = diffPlans(unnumbered(before), unnumbered(after));
  if (isEmpty(diff)) return undefined;
  const of = new Map<string, Change>();
  for (const { step } of diff.added) of.set(step.id, { added: true, fields: [] });
  for (const { id, fields } of diff.changed) of.set(id, { added: false, fields });
  for (const { id, before: from, after: to } of diff.moved) {
    of.set(id, { ...(of.get(id) ?? { added: false, fields: [] }), moved: { before: from + 1, after: to + 1 } });
  }
  const places = new Map(after.steps.map((step, index) => [step.id, index]));
  const removedAt = new Map<number, Step[]>();
  for (const { position, step } of diff.removed) {
    const next = before.steps.slice(position + 1).find((each) => places.has(each.id));
    const place = next ? places.get(next.id)! : after.steps.length;
    removedAt.set(place, [...(removedAt.get(place) ?? []), step]);
  }
  return { plan: diff.plan.filter((each) => each.path[0] !== "thought"), of, removedAt };
}
