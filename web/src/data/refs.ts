// References in a step's templates, as `plan/refs.py` reads them.

import type { Json, Step } from "./types";

const STEP_ID = "[A-Za-z0-9_][A-Za-z0-9_-]{0,63}";
// A result of an earlier run is `run:<run>/<step>`.
const EARLIER = "run:";
const SOURCE = `(?:${EARLIER}[^\\s/{}"\\\\]{1,200}/)?${STEP_ID}`;
const QUOTED = '"(?:[^"\\\\]|\\\\.)*"';
const KEY = '[^\\s.\\[\\]{}"]+';
const TOKEN = new RegExp(
  `\\{\\{\\s*(?:(${QUOTED})|(${SOURCE})((?:\\.${KEY}|\\[\\d{1,9}\\]|\\[${QUOTED}\\])*))\\s*\\}\\}`, "g",
);
const RESERVED = new Set(["item", "params"]);

// The steps a template takes values from.
export function refsOf(template: Json | undefined, found: Set<string> = new Set()): Set<string> {
  if (typeof template === "string") {
    if (template.includes("{{")) for (const token of template.matchAll(TOKEN)) if (token[2]) found.add(token[2]);
  } else if (Array.isArray(template)) {
    for (const child of template) refsOf(child, found);
  } else if (template && typeof template === "object") {
    const from = template["$from"];
    if (from !== undefined) {
      if (typeof from === "string") found.add(from);
    } else if (!("$literal" in template && Object.keys(template).length === 1)) {
      for (const child of Object.values(template)) refsOf(child, found);
    }
  }
  return found;
}

export interface EarlierStep { run: string; step: string }

// The run and the step of an earlier result; null for a step of the same plan.
export function earlierOf(source: string): EarlierStep | null {
  if (!source.startsWith(EARLIER)) return null;
  const [run = "", step = ""] = source.slice(EARLIER.length).split("/");
  return { run, step };
}

// The places of a step that may hold references.
export function templatesOf(step: Step): Json[] {
  const own = [step.task, step.inputs, step.question, step.instruction, step.over, step.when].filter((each) => each !== undefined);
  return step.each ? [...own, ...templatesOf(step.each)] : own;
}

// The steps that the rules for afterwards refer to; a step may look at its own result there.
function afterwards(step: Step, own: string[]): string[] {
  const found = [...refsOf(step.repeat?.until), ...refsOf(step.undo_with?.inputs)].filter((each) => !own.includes(each));
  return step.each ? [...found, ...afterwards(step.each, [...own, step.each.id])] : found;
}

export function needsOf(step: Step): string[] {
  const found = new Set(step.after ?? []);
  const refs = [...templatesOf(step).flatMap((template) => [...refsOf(template)]), ...afterwards(step, [step.id])];
  for (const ref of refs) if (!RESERVED.has(ref) && !earlierOf(ref)) found.add(ref);
  return [...found];
}
