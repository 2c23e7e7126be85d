// Conditions of steps as rows that a person can edit; what has no such form is left as it is.

import { sameJson } from "./diff";
import type { Json, JsonObject } from "./types";

export const COMPARISONS = ["equals", "not_equals", "below", "at_most", "above", "at_least", "in", "contains"] as const;
export const OPERATORS = [...COMPARISONS, "empty", "not_empty"] as const;
export type Operator = (typeof OPERATORS)[number];
export interface Row { operator: Operator; left: Json; right: Json }
export interface Rows { join: "all" | "any"; rows: Row[] }

export const BLANK: Row = { operator: "equals", left: "", right: "" };

function only(condition: Json | undefined): [string, Json] | null {
  if (!condition || typeof condition !== "object" || Array.isArray(condition)) return null;
  const entries = Object.entries(condition);
  return entries.length === 1 ? entries[0]! : null;
}

function rowOf(condition: Json): Row | null {
  const [name, given] = only(condition) ?? ["", null];
  if (name === "empty") return { operator: "empty", left: given, right: "" };
  if (name === "not") {
    const [inner, value] = only(given) ?? ["", null];
    return inner === "empty" ? { operator: "not_empty", left: value, right: "" } : null;
  }
  const operator = COMPARISONS.find((each) => each === name);
  return operator && Array.isArray(given) && given.length === 2 ? { operator, left: given[0]!, right: given[1]! } : null;
}

// The rows of a condition; null for one that is nested deeper than rows can show.
export function rowsOf(condition: Json | undefined): Rows | null {
  const [name, given] = only(condition) ?? ["", null];
  if ((name === "all" || name === "any") && Array.isArray(given) && given.length > 0) {
    const rows = given.map(rowOf).filter((each) => each !== null);
    return rows.length === given.length ? { join: name, rows } : null;
  }
  const row = condition === undefined ? null : rowOf(condition);
  return row && { join: "all", rows: [row] };
}

function one({ operator, left, right }: Row): JsonObject {
  if (operator === "empty") return { empty: left };
  if (operator === "not_empty") return { not: { empty: left } };
  return { [operator]: [left, right] };
}

export function conditionOf({ join, rows }: Rows): JsonObject {
  return rows.length === 1 ? one(rows[0]!) : { [join]: rows.map(one) };
}

// An edit that changes nothing leaves the condition as it was written.
export function edited(condition: JsonObject, rows: Rows): JsonObject {
  const known = rowsOf(condition);
  return known && sameJson(known as unknown as Json, rows as unknown as Json) ? condition : conditionOf(rows);
}
