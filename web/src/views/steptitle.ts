// A title for a step that has none: what is called and with what, in a few words.

import { readable } from "../data/json";
import type { Json, Step } from "../data/types";
import { t } from "../words/words";

const ROOM = 64;

export function madeTitle(step: Step): string {
  if (step.kind === "ask") return clip(plain(step.question ?? "")) || t("kind.ask");
  if (step.kind === "reply") return t("hero.answers");
  if (step.kind === "map" && step.each) return t("hero.each", { list: source(readable(step.over)), what: madeTitle(step.each) });
  const done = builtIn(step);
  if (done) return clip(done);
  const called = spoken(step.tool ?? step.agent ?? step.template ?? step.id);
  const said = step.kind === "agent" ? plain(step.task ?? "") : values(step.inputs ?? {});
  return clip(said ? `${called}: ${said}` : called);
}

// The tools that come with Plansmith, each with the argument that says most.
const BUILT_IN = {
  "files.read": "path", "files.write": "path", "files.append": "path", "files.replace": "path", "files.move": "path", "files.copy": "path",
  "files.delete": "path", "files.list": "", "tables.describe": "table", "tables.write": "path", "tables.export": "path", "charts.draw": "path",
  "web.fetch": "url",
} as const;

function builtIn(step: Step): string {
  const tool = Object.keys(BUILT_IN).find((each): each is keyof typeof BUILT_IN => each === step.tool);
  if (!tool) return "";
  const it = plain(readable(step.inputs?.[BUILT_IN[tool]] ?? ""));
  return it || !BUILT_IN[tool] ? t(`do.${tool}`, { it }) : "";
}

// `weather.forecast` → "Weather forecast"; the last parts of a long name say most.
export function spoken(name: string): string {
  const words = name.split(/[.:/]/).slice(-2).join(" ").replace(/[_-]+/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function values(inputs: Record<string, Json>): string {
  const short = Object.values(inputs).map((each) => plain(readable(each))).filter((each) => each && each.length <= 40 && !/^[[{]/.test(each));
  return short.slice(0, 3).join(", ");
}

// A reference reads as the step or parameter that it names.
export const plain = (text: string, nameOf?: (id: string) => string): string => named(text, nameOf).replace(/\s+/g, " ").trim();
export const named = (text: string, nameOf = (id: string): string => id): string =>
  text.replace(/\{\{\s*(?:params\.)?([\w-]+)(?![\w-])[^{}]*\}\}/g, (_, id: string) => `‹${clip(nameOf(id), 40)}›`);

const source = (text: string): string => clip(plain(text), 30);
const clip = (text: string, room = ROOM): string => (text.length > room ? `${text.slice(0, room)}…` : text);
