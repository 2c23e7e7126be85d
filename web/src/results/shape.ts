// How a value wants to be shown: rows as a table, long text folded, the rest as a tree.

import { isRawNumber, parseExactly, shown } from "../data/json";
import type { Json, JsonObject } from "../data/types";

export interface Table { columns: string[]; rows: Json[][] }
export interface Part { name: string; value: Json }
// What an object is made of: short facts first, then what needs room of its own.
export interface Parts { facts: Part[]; blocks: Part[] }

const SHORT = 160;
const MOST_COLUMNS = 60;

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRawNumber(value);

// Rows of objects, or rows of lists where the columns stand beside them.
export function tableOf(value: Json | undefined, columns?: Json): Table | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const named = Array.isArray(columns) && columns.length > 0 && columns.every((each) => typeof each === "string");
  if (value.every(isObject)) {
    // As the data orders them, where it does.
    const names = [...new Set([...(named ? (columns as string[]).filter((each) => value.some((row) => each in row)) : []), ...value.flatMap((row) => Object.keys(row))])];
    if (names.length === 0 || names.length > MOST_COLUMNS) return null;
    return { columns: names, rows: value.map((row) => names.map((name) => row[name] ?? null)) };
  }
  if (!named || !value.every((row) => Array.isArray(row) && row.length === columns.length)) return null;
  return { columns: columns as string[], rows: value as Json[][] };
}

export const isShort = (value: Json): boolean =>
  !isObject(value) && !Array.isArray(value) && shown(value).length <= SHORT && !shown(value).includes("\n");

export function partsOf(value: JsonObject): Parts {
  const entries = Object.entries(value).map(([name, each]) => ({ name, value: each }));
  return { facts: entries.filter((each) => isShort(each.value)), blocks: entries.filter((each) => !isShort(each.value)) };
}

// Numbers by size, all else as a person would sort it; what is empty comes last in both directions.
export function compare(left: Json, right: Json, down: boolean): number {
  const [one, other] = [left === null || left === "", right === null || right === ""];
  if (one || other) return Number(one) - Number(other);
  const [a, b] = [numeric(left), numeric(right)];
  const order = a !== null && b !== null ? a - b : shown(left).localeCompare(shown(right), undefined, { numeric: true });
  return down ? -order : order;
}

function numeric(value: Json): number | null {
  if (typeof value === "number") return value;
  return isRawNumber(value) ? Number(shown(value as Json)) : null;
}

export const isNumeric = (table: Table, column: number): boolean =>
  table.rows.some((row) => row[column] !== null) && table.rows.every((row) => row[column] === null || numeric(row[column]!) !== null);

// A text that a spreadsheet would take for a formula is marked as text; a number is none.
const marked = (value: Json): string => {
  const text = value === null ? "" : shown(value);
  const formula = typeof value === "string" && (/^\s*[=+\-@＝＋－＠]/.test(text) || /^[\t\r]/.test(text)) && !/^\s*[+-]?[\d.,]+%?$/.test(text);
  return formula ? `'${text}` : text;
};

const cell = (value: Json): string => {
  const text = marked(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};

export const toCsv = (table: Table): string =>
  [table.columns, ...table.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";

export const toTabs = (table: Table): string =>
  [table.columns, ...table.rows].map((row) => row.map((each) => marked(each).replace(/[\t\r\n]+/g, " ")).join("\t")).join("\n");

// 007 is a name, and 55.00 has four digits.
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;

// The rows of a file of comma- or tab-separated values; null where it is none.
export function parseCsv(text: string, mark = ","): Table | null {
  const rows: string[][] = [[]];
  let field = "";
  let quoted = false;
  const end = (): void => { rows.at(-1)!.push(field); field = ""; };
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    if (quoted) {
      if (letter !== '"') field += letter;
      else if (text[at + 1] === '"') { field += '"'; at++; } else quoted = false;
    } else if (letter === '"' && field === "") quoted = true;
    else if (letter === mark) end();
    else if (letter === "\n") { end(); rows.push([]); }
    else if (letter !== "\r") field += letter;
  }
  if (field || rows.at(-1)!.length) end(); else rows.pop();
  const [head, ...body] = rows;
  if (quoted || !head || head.length > MOST_COLUMNS || body.some((row) => row.length !== head.length)) return null;
  const numbers = head.map((_, column) => body.length > 0 && body.every((row) => row[column] === "" || NUMBER.test(row[column]!)));
  return { columns: head, rows: body.map((row) => row.map((each, column) => (numbers[column] ? (each === "" ? null : parseExactly(each)) : each))) };
}

// In one short line, for a row of a list.
export function inBrief(value: Json | undefined): string {
  const text = shown(value).replace(/\s+/g, " ").trim();
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
