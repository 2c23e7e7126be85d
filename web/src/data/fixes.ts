// Problems of a plan by the step they belong to, and the edits that would mend them.

import type { Json, JsonObject, Plan, Problem, Step } from "./types";

export interface Group {
  problem: Problem;
  // How often the same is said of one step.
  count: number;
}

const WEIGHT = { error: 0, warning: 1, note: 2 } as const;

// By step, the worst first, the same said once; "" has what belongs to no step of the plan.
export function grouped(problems: Problem[], plan: Plan): Map<string, Group[]> {
  const known = new Set(plan.steps.map((step) => step.id));
  const inner = new Map(plan.steps.flatMap((step) => (step.each ? [[step.each.id, step.id] as const] : [])));
  const found = new Map<string, Group[]>();
  for (const problem of problems) {
    const named = problem.step ?? "";
    const step = known.has(named) ? named : inner.get(named) ?? "";
    const groups = found.get(step) ?? [];
    const like = groups.find((each) => each.problem.code === problem.code && each.problem.message === problem.message);
    if (like) like.count += 1;
    else groups.push({ problem, count: 1 });
    found.set(step, groups);
  }
  for (const groups of found.values()) groups.sort((left, right) => WEIGHT[left.problem.severity] - WEIGHT[right.problem.severity]);
  return found;
}

export type FixKind = "remove" | "answer" | "tool" | "argument" | "ask" | "after" | "enable";
export interface Fix {
  kind: FixKind;
  // What the button names: a step, a tool or an argument.
  name: string;
  plan: Plan;
}

export interface KnownTool { name: string; schema?: JsonObject | null }

// What one press can do about a problem; nothing where only a person can know.
export function fixesFor(problem: Problem, plan: Plan, tools: KnownTool[]): Fix[] {
  const step = plan.steps.find((each) => each.id === problem.step);
  if (!step) return problem.code === "PS407" ? replied(plan, lastRead(plan)) : [];
  const [place, at] = problem.path ?? [];
  switch (problem.code) {
    case "PS401": return [...replied(plan, step), ...removal(plan, step)];
    case "PS407": return replied(plan, step.kind === "reply" ? lastRead(plan) : step);
    case "PS404": return removal(plan, step);
    case "PS402": return typeof at === "number" && place === "after" ? unordered(plan, step, at) : [];
    case "PS302": return typeof at === "number" && place === "after" ? unordered(plan, step, at) : [];
    case "PS403": return removal(plan, step);
    case "PS101": return [...renamed(plan, step, tools), ...removal(plan, step)];
    case "PS203": return place === "inputs" && typeof at === "string" ? withoutArgument(plan, step, at) : [];
    case "PS202": return place === "inputs" && typeof at === "string" && problem.path!.length === 2 ? askedFor(plan, step, at) : [];
    case "PS308": return switchedOn(plan, step);
    default: return [];
  }
}

const put = (plan: Plan, next: Step): Plan => ({ ...plan, steps: plan.steps.map((each) => (each.id === next.id ? next : each)) });

// Only a step that no other one uses can go without leaving a hole.
function removal(plan: Plan, step: Step): Fix[] {
  const rest = plan.steps.filter((each) => each.id !== step.id);
  const needed = new RegExp(`(?:\\{\\{\\s*|"\\$from":")${step.id}(?![A-Za-z0-9_-])`);
  if (rest.length === 0 || rest.some((each) => needed.test(JSON.stringify(each)))) return [];
  const loose = rest.map((each) => (each.after?.includes(step.id) ? { ...each, after: each.after.filter((name) => name !== step.id) } : each));
  return [{ kind: "remove", name: step.id, plan: { ...plan, steps: loose } }];
}

function lastRead(plan: Plan): Step | undefined {
  return plan.steps.findLast((each) => each.kind !== "reply" && each.kind !== "ask" && !each.disabled);
}

function replied(plan: Plan, step: Step | undefined): Fix[] {
  if (!step) return [];
  const reply = plan.steps.findLast((each) => each.kind === "reply" && !each.disabled);
  const token = `{{${step.id}}}`;
  if (!reply) {
    const taken = new Set(plan.steps.map((each) => each.id));
    const id = taken.has("answer") ? `answer_${plan.steps.length + 1}` : "answer";
    return [{ kind: "answer", name: step.id, plan: { ...plan, steps: [...plan.steps, { id, kind: "reply", instruction: token }] } }];
  }
  if (reply.id === step.id || (reply.instruction ?? "").includes(token)) return [];
  return [{ kind: "answer", name: step.id, plan: put(plan, { ...reply, instruction: `${reply.instruction ?? ""}\n${token}`.trim() }) }];
}

function unordered(plan: Plan, step: Step, at: number): Fix[] {
  const name = step.after?.[at];
  if (name === undefined) return [];
  return [{ kind: "after", name, plan: put(plan, { ...step, after: step.after!.filter((_, index) => index !== at) }) }];
}

function renamed(plan: Plan, step: Step, tools: KnownTool[]): Fix[] {
  const wrong = step.tool ?? "";
  const near = tools.map((tool) => ({ name: tool.name, far: distance(tool.name, wrong) })).sort((left, right) => left.far - right.far)[0];
  if (!near || near.far > Math.max(3, wrong.length / 2)) return [];
  return [{ kind: "tool", name: near.name, plan: put(plan, { ...step, tool: near.name }) }];
}

function withoutArgument(plan: Plan, step: Step, name: string): Fix[] {
  if (!step.inputs || !(name in step.inputs)) return [];
  const { [name]: _, ...inputs } = step.inputs;
  return [{ kind: "argument", name, plan: put(plan, { ...step, inputs }) }];
}

// A question before the step, whose answer is the argument.
function askedFor(plan: Plan, step: Step, name: string): Fix[] {
  const taken = new Set(plan.steps.map((each) => each.id));
  let id = `ask_${name}`.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 60);
  while (taken.has(id)) id += "_";
  const question: Step = { id, kind: "ask", question: `${name}?` };
  const given: Json = { $from: id };
  const steps = plan.steps.flatMap((each) => (each.id === step.id ? [question, { ...each, inputs: { ...each.inputs, [name]: given } }] : [each]));
  return [{ kind: "ask", name, plan: { ...plan, steps } }];
}

function switchedOn(plan: Plan, step: Step): Fix[] {
  const text = JSON.stringify(step);
  const off = plan.steps.filter((each) => each.disabled && (text.includes(`{{${each.id}`) || text.includes(`"$from":"${each.id}"`)));
  return off.map((each) => {
    const { disabled: _, ...on } = each;
    return { kind: "enable", name: each.id, plan: put(plan, on) };
  });
}

// How many letters two names differ by.
export function distance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (left[i - 1] === right[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[right.length]!;
}
