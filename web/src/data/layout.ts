// Where steps and the lines between them are drawn: columns by level, and lines that pass between
// the steps of a column instead of behind them.

import { dependents, levels } from "./graph";
import type { Needs } from "./graph";

export interface Place { x: number; y: number }
export interface Edge {
  from: string;
  to: string;
  // The heights at which the line crosses the columns between its ends.
  through: Place[];
}
export interface Layout {
  places: Map<string, Place>;
  edges: Edge[];
  width: number;
  height: number;
}

export const NODE = { width: 208, height: 60, across: 60, down: 18 } as const;
const LANE = 16;
const SWEEPS = 6;
// A plan whose lines would need more lanes than this is drawn with straight ones.
const MOST_LANES = 3000;

interface Item { id: string; level: number; size: number; before: Item[]; after: Item[]; rank: number; y: number }

export function layOut(graph: Needs): Layout {
  const columns = levels(graph).map((column, level) => column.map((id) => newItem(id, level, NODE.height + NODE.down)));
  const items = new Map(columns.flat().map((item) => [item.id, item]));
  const lanes = connect(graph, columns, items);
  columns.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) sortColumn(column, forward);
  }
  place(columns);
  return drawn(graph, columns, items, lanes);
}

function newItem(id: string, level: number, size: number): Item {
  return { id, level, size, before: [], after: [], rank: 0, y: 0 };
}

// All lines from one step to the columns beyond the next share a lane; the lanes of each step.
function connect(graph: Needs, columns: Item[][], items: Map<string, Item>): Map<string, Item[]> {
  const lanes = new Map<string, Item[]>();
  let left = MOST_LANES;
  for (const [from, targets] of Object.entries(dependents(graph))) {
    const source = items.get(from)!;
    const farthest = Math.max(0, ...targets.map((to) => items.get(to)!.level));
    const lane: Item[] = [];
    const wanted = farthest - source.level - 1;
    if (wanted > 0 && wanted <= left) {
      left -= wanted;
      for (let level = source.level + 1; level < farthest; level++) {
        const item = newItem(`\0${from}\0${level}`, level, LANE);
        columns[level]!.push(item);
        link(lane.at(-1) ?? source, item);
        lane.push(item);
      }
      lanes.set(from, lane);
    }
    for (const to of targets) {
      const target = items.get(to)!;
      const span = target.level - source.level;
      if (span > 0) link(span === 1 ? source : lane[span - 2] ?? source, target);
    }
  }
  return lanes;
}

function link(before: Item, after: Item): void {
  before.after.push(after);
  after.before.push(before);
}

const number = (column: Item[]): void => column.forEach((item, index) => { item.rank = index; });

// By where the neighbours stand, so that few lines cross.
function sortColumn(column: Item[], forward: boolean): void {
  const middle = new Map(column.map((item) => [item, mean(forward ? item.before : item.after, (each) => each.rank) ?? item.rank]));
  column.sort((left, right) => middle.get(left)! - middle.get(right)!);
  number(column);
}

function mean<T>(items: readonly T[], of: (item: T) => number): number | undefined {
  if (items.length === 0) return undefined;
  return items.reduce((total, item) => total + of(item), 0) / items.length;
}

// Each item as near to its neighbours as the room between the others allows.
function place(columns: Item[][]): void {
  for (const column of columns) settle(column, (item) => item.rank * item.size);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) {
      settle(column, (item) => mean(forward ? item.before : item.after, (each) => each.y) ?? item.y);
    }
  }
}

// The order stays, nothing overlaps, and the squares of what is missed are least: neighbours that
// would overlap become a block at the mean of what its members want.
function settle(column: Item[], wanted: (item: Item) => number): void {
  interface Block { sum: number; count: number; first: number }
  const offsets: number[] = [];
  let offset = 0;
  column.forEach((item, index) => {
    if (index) offset += (column[index - 1]!.size + item.size) / 2;
    offsets.push(offset);
  });
  const blocks: Block[] = [];
  column.forEach((item, index) => {
    let block: Block = { sum: wanted(item) - offsets[index]!, count: 1, first: index };
    for (let last = blocks.at(-1); last && last.sum / last.count > block.sum / block.count; last = blocks.at(-1)) {
      blocks.pop();
      block = { sum: last.sum + block.sum, count: last.count + block.count, first: last.first };
    }
    blocks.push(block);
  });
  for (const block of blocks) {
    for (let index = block.first; index < block.first + block.count; index++) column[index]!.y = block.sum / block.count + offsets[index]!;
  }
}

function drawn(graph: Needs, columns: Item[][], items: Map<string, Item>, lanes: Map<string, Item[]>): Layout {
  const all = columns.flat();
  const top = all.reduce((least, item) => Math.min(least, item.y - item.size / 2), Infinity);
  const bottom = all.reduce((most, item) => Math.max(most, item.y + item.size / 2), -Infinity);
  const x = (level: number): number => level * (NODE.width + NODE.across);
  const y = (item: Item): number => Math.round((item.y - top) * 10) / 10;
  const places = new Map([...items.values()].map((item) => [item.id, { x: x(item.level), y: y(item) - NODE.height / 2 - NODE.down / 2 }]));
  const edges = Object.entries(graph).flatMap(([to, before]) => before.map((from) => {
    const span = items.get(to)!.level - items.get(from)!.level;
    const lane = (lanes.get(from) ?? []).slice(0, Math.max(0, span - 1));
    return { from, to, through: lane.map((item) => ({ x: x(item.level), y: y(item) - NODE.down / 2 })) };
  }));
  return {
    places, edges,
    width: Math.max(1, columns.length) * (NODE.width + NODE.across) - NODE.across,
    height: all.length ? bottom - top - NODE.down : NODE.height,
  };
}

// A line from the right side of a step to the left side of another, level where it crosses columns.
export function edgePath(layout: Layout, { from, to, through }: Edge): string {
  const start = layout.places.get(from)!;
  const end = layout.places.get(to)!;
  let [x, y] = [start.x + NODE.width, start.y + NODE.height / 2];
  let path = `M${x} ${y}`;
  for (const lane of through) {
    path += `${curve(x, y, lane.x, lane.y)}H${lane.x + NODE.width}`;
    [x, y] = [lane.x + NODE.width, lane.y];
  }
  return path + curve(x, y, end.x, end.y + NODE.height / 2);
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const bend = Math.max(24, Math.abs(x2 - x1) / 2);
  return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
