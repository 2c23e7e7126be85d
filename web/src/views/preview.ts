// A result in one line: enough to see that it is the right one.

import { isRawNumber } from "../data/json";
import type { Json } from "../data/types";
import { number, t } from "../words/words";

const LONGEST = 160;

export function previewOf(value: Json | undefined): string {
  if (value === undefined || value === null || value === "") return "";
  const text = Array.isArray(value) ? ofList(value) : typeof value === "object" && !isRawNumber(value) ? ofObject(value) : plain(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

function plain(value: Json): string {
  if (typeof value === "string") return value.slice(0, 4 * LONGEST).replace(/\s+/g, " ").trim();
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function ofList(items: Json[]): string {
  if (items.length === 0) return t("preview.none");
  const rows = items.every((each) => each !== null && typeof each === "object" && !Array.isArray(each));
  const count = counted(items.length, rows);
  const few = rows ? Object.keys(items[0] as object).slice(0, 6) : items.slice(0, 5).map((each) => previewOf(each).slice(0, 40));
  return `${count}: ${few.join(", ")}`;
}

function counted(count: number, rows: boolean): string {
  if (count === 1) return t(rows ? "preview.row" : "preview.item");
  return t(rows ? "preview.rows" : "preview.items", { count: number(count) });
}

// A single field that holds everything is what counts, not its name.
function ofObject(value: { [key: string]: Json }): string {
  const fields = Object.entries(value);
  if (fields.length === 0) return t("preview.none");
  const [only] = fields;
  if (fields.length === 1 && Array.isArray(only![1])) return previewOf(only![1]);
  const rows = fields.find(([name, each]) => name === "rows" && Array.isArray(each));
  if (rows) return previewOf(rows[1]);
  return fields.slice(0, 6).map(([name, each]) => `${name}: ${short(each)}`).join(", ");
}

function short(value: Json): string {
  if (Array.isArray(value)) return counted(value.length, false);
  if (value !== null && typeof value === "object" && !isRawNumber(value)) return "{…}";
  const text = plain(value);
  return text.length > 48 ? `${text.slice(0, 48)}…` : text;
}
