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

export function dependents(graph: Needs): Needs {
  const reverse: Needs = {};
  for (const node of Object.keys(graph)) reverse[node] = [];
  for (const [node, before] of Object.entries(graph)) for (const need of before) reverse[need]?.push(node);
  return reverse;
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

export interface Place { x: number; y: number }
export interface Layout {
  places: Map<string, Place>;
  edges: { from: string; to: string }[];
  width: number;
  height: number;
}

export const NODE = { width: 196, height: 52, across: 56, down: 18 } as const;

const SWEEPS = 4;

// Columns by level, each sorted by where its neighbours stand, so that few lines cross.
export function layOut(graph: Needs): Layout {
  const columns = levels(graph);
  const reverse = dependents(graph);
  const rank = new Map<string, number>();
  columns.forEach((column) => column.forEach((node, index) => rank.set(node, index)));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) sortColumn(column, forward ? graph : reverse, rank);
  }
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const places = new Map<string, Place>();
  columns.forEach((column, level) => {
    const top = ((tallest - column.length) * (NODE.height + NODE.down)) / 2;
    column.forEach((node, index) => places.set(node, {
      x: level * (NODE.width + NODE.across), y: top + index * (NODE.height + NODE.down),
    }));
  });
  const edges = Object.entries(graph).flatMap(([to, before]) => before.map((from) => ({ from, to })));
  return {
    places, edges,
    width: Math.max(1, columns.length) * (NODE.width + NODE.across) - NODE.across,
    height: tallest * (NODE.height + NODE.down) - NODE.down,
  };
}

function sortColumn(column: string[], neighbours: Needs, rank: Map<string, number>): void {
  const middle = new Map(column.map((node) => {
    const others = neighbours[node]!.map((each) => rank.get(each)!);
    const sum = others.reduce((total, each) => total + each, 0);
    return [node, others.length ? sum / others.length : rank.get(node)!];
  }));
  column.sort((left, right) => middle.get(left)! - middle.get(right)!);
  column.forEach((node, index) => rank.set(node, index));
}
