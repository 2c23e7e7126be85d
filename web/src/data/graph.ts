// The plan as a graph: needs, levels, positions for drawing, and the critical path.

import { needsOf } from "./refs";
import type { Plan } from "./types";

export type Needs = Record<string, string[]>;

const remembered = new WeakMap<Plan, Needs>();

// What each step waits for; needs that name no step of the plan are left out.
export function needs(plan: Plan): Needs {
  const known = remembered.get(plan);
  if (known) return known;
  const graph: Needs = {};
  const ids = new Set(plan.steps.map((step) => step.id));
  for (const step of plan.steps) {
    const before = needsOf(step).filter((need) => ids.has(need));
    graph[step.id] = [...new Set([...(graph[step.id] ?? []), ...before])];
  }
  remembered.set(plan, graph);
  return graph;
}

// The steps that run, each with those it waits for: through a disabled step it waits for what is before that.
export function waitsFor(plan: Plan): Needs {
  const graph = needs(plan);
  const disabled = new Set(plan.steps.filter((step) => step.disabled).map((step) => step.id));
  const found: Needs = {};
  for (const name of disabled.size > 0 ? order(graph) : []) {
    found[name] = [...new Set(graph[name]!.flatMap((need) => (disabled.has(need) ? (found[need] ?? []) : [need])))];
  }
  return disabled.size > 0 ? Object.fromEntries(Object.entries(found).filter(([name]) => !disabled.has(name))) : graph;
}

export function dependents(graph: Needs): Needs {
  const reverse: Needs = {};
  for (const node of Object.keys(graph)) reverse[node] = [];
  for (const [node, before] of Object.entries(graph)) for (const need of before) reverse[need]?.push(node);
  return reverse;
}

// The starts, and everything that directly or indirectly waits for any of them.
export function downstream(graph: Needs, starts: readonly string[]): Set<string> {
  const reverse = dependents(graph);
  const found = new Set<string>();
  const left = [...starts];
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (found.has(name)) continue;
    found.add(name);
    left.push(...(reverse[name] ?? []));
  }
  return found;
}

// Each node after its needs; nodes in a ring come last, so that a wrong plan can be drawn too.
export function order(graph: Needs): string[] {
  const waiting = new Map(Object.entries(graph).map(([node, before]) => [node, before.length]));
  const reverse = dependents(graph);
  const ready = Object.keys(graph).filter((node) => waiting.get(node) === 0);
  for (let index = 0; index < ready.length; index++) {
    for (const follower of reverse[ready[index]!]!) {
      const left = waiting.get(follower)! - 1;
      waiting.set(follower, left);
      if (left === 0) ready.push(follower);
    }
  }
  const seen = new Set(ready);
  return [...ready, ...Object.keys(graph).filter((node) => !seen.has(node))];
}

export function levels(graph: Needs): string[][] {
  const depth = new Map<string, number>();
  const result: string[][] = [];
  for (const node of order(graph)) {
    const level = graph[node]!.reduce((most, need) => Math.max(most, (depth.get(need) ?? -1) + 1), 0);
    depth.set(node, level);
    (result[level] ??= []).push(node);
  }
  return result;
}

// The longest way through the graph by how long each step takes.
export function criticalPath(graph: Needs, seconds: (node: string) => number): string[] {
  const nodes = order(graph);
  const tail = new Map<string, number>();
  const next = new Map<string, string>();
  const reverse = dependents(graph);
  for (const node of nodes.reverse()) {
    let most = 0;
    for (const follower of reverse[node]!) {
      const behind = tail.get(follower) ?? 0;
      if (behind > most || !next.has(node)) {
        most = Math.max(most, behind);
        next.set(node, follower);
      }
    }
    tail.set(node, seconds(node) + most);
  }
  let node = Object.keys(graph).reduce<string | undefined>(
    (best, each) => (best === undefined || tail.get(each)! > tail.get(best)! ? each : best), undefined,
  );
  const path: string[] = [];
  while (node !== undefined && !path.includes(node)) {
    path.push(node);
    node = next.get(node);
  }
  return path;
}
