// What a step gives, as a tree of parts that a person can pick: from a result, or from a schema.

import { isRawNumber } from "./json";
import type { Json, JsonObject } from "./types";

export interface Part {
  name: string;
  // Text to stand behind the step's id in a reference.
  path: string;
  // An example, or the type that the schema says.
  hint: string;
  parts: Part[];
}

const MOST = 40;
const DEEPEST = 6;
const PLAIN_KEY = /^[^\s.[\]{}"]+$/;

const keyed = (name: string): string => (PLAIN_KEY.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`);
const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRawNumber(value);

export function partsOfResult(value: Json | undefined, path = "", depth = 0): Part[] {
  if (depth >= DEEPEST) return [];
  if (Array.isArray(value)) {
    return value.slice(0, 3).map((each, index) => part(String(index + 1), `${path}[${index}]`, each, depth));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).slice(0, MOST).map(([name, each]) => part(name, path + keyed(name), each, depth));
}

function part(name: string, path: string, value: Json, depth: number): Part {
  return { name, path, hint: sample(value), parts: partsOfResult(value, path, depth + 1) };
}

function sample(value: Json): string {
  if (Array.isArray(value)) return `[${value.length}]`;
  if (isObject(value)) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

export function partsOfSchema(schema: Json | undefined, path = "", depth = 0): Part[] {
  if (!isObject(schema) || depth >= DEEPEST) return [];
  const properties = schema["properties"];
  if (isObject(properties)) {
    return Object.entries(properties).slice(0, MOST).map(([name, inner]) => ({
      name, path: path + keyed(name), hint: typeOf(inner), parts: partsOfSchema(inner, path + keyed(name), depth + 1),
    }));
  }
  const items = schema["items"];
  if (!isObject(items)) return [];
  return [{ name: "1", path: `${path}[0]`, hint: typeOf(items), parts: partsOfSchema(items, `${path}[0]`, depth + 1) }];
}

export function typeOf(schema: Json | undefined): string {
  if (!isObject(schema)) return "";
  const type = schema["type"];
  return typeof type === "string" ? type : Array.isArray(type) ? type.filter((each) => each !== "null").join(" / ") : "";
}

export interface Field { name: string; required: boolean; type: string; about: string; options: Json[] }

// The arguments that a tool takes, as its schema says; the needed ones first.
export function fieldsOf(schema: JsonObject | null | undefined): Field[] {
  const properties = schema?.["properties"];
  if (!isObject(properties)) return [];
  const required = Array.isArray(schema!["required"]) ? schema!["required"] : [];
  const fields = Object.entries(properties).map(([name, inner]) => ({
    name, required: required.includes(name), type: typeOf(inner),
    about: isObject(inner) && typeof inner["description"] === "string" ? inner["description"] : "",
    options: isObject(inner) && Array.isArray(inner["enum"]) ? inner["enum"] : [],
  }));
  return [...fields.filter((each) => each.required), ...fields.filter((each) => !each.required)];
}
