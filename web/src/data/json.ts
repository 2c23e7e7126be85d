// JSON that comes back as it went: 1.0 and 1 are two arguments to a tool, to JavaScript they
// are one. Numbers that JavaScript would rewrite are kept as their own text.

import type { Json } from "./types";

interface RawNumber { rawJSON: string }
type Reviver = (this: unknown, key: string, value: unknown, context?: { source: string }) => unknown;
interface ExactJson {
  rawJSON?: (text: string) => RawNumber;
  isRawJSON?: (value: unknown) => value is RawNumber;
  parse: (text: string, reviver: Reviver) => unknown;
}
const exact = JSON as unknown as ExactJson;

function keep(this: unknown, _key: string, value: unknown, context?: { source: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined || String(value) === source) return value;
  return exact.rawJSON ? exact.rawJSON(source) : value;
}

export function parseExactly(text: string): Json {
  return exact.parse(text, keep) as Json;
}

// The text of one field of an object, so that only what must be exact is read twice.
export function fieldText(text: string, name: string): string | undefined {
  const wanted = JSON.stringify(name);
  let depth = 0;
  let start = -1;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x22) {
      const end = stringEnd(text, index);
      if (depth === 1 && start < 0 && text.slice(index, end) === wanted) {
        const colon = /^\s*:/.exec(text.slice(end, end + 20));
        if (colon) start = end + colon[0].length;
      }
      index = end - 1;
    } else if (code === 0x7b || code === 0x5b) depth++;
    else if (code === 0x7d || code === 0x5d) {
      depth--;
      if (depth === 0 && start >= 0) return text.slice(start, index);
    } else if (code === 0x2c && depth === 1 && start >= 0) return text.slice(start, index);
  }
  return undefined;
}

// Behind the closing quote of the string that begins here.
function stringEnd(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end >= 0) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return end + 1;
    end = text.indexOf('"', end + 1);
  }
  return text.length;
}

export function isRawNumber(value: unknown): value is RawNumber {
  return exact.isRawJSON?.(value) ?? false;
}

// How a value reads: texts as they are, everything else as JSON.
export function shown(value: Json | undefined, indent = 0): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, indent);
}

// As `shown`, with a reference as it stands in text: {{step.key}}.
export function readable(value: Json | undefined): string {
  if (!value || typeof value !== "object" || Array.isArray(value) || isRawNumber(value)) return shown(value);
  const { $from: from, $path: path = [] } = value;
  if (typeof from !== "string" || !Array.isArray(path)) return shown(value);
  return `{{${from}${path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("")}}}`;
}

// What a person typed: JSON where it is some, else the text itself.
export function typed(text: string): Json {
  const trimmed = text.trim();
  if (!/^(?:[[{"\-0-9]|true$|false$|null$)/.test(trimmed)) return text;
  try {
    return parseExactly(trimmed);
  } catch {
    return text;
  }
}

// A text in an editor that `typed` reads back as the same value.
export function editable(value: Json | undefined): string {
  if (typeof value !== "string") return shown(value, 2);
  return typed(value) === value ? value : JSON.stringify(value);
}
