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
  // Whether levels follow each other downwards instead of to the right.
  down: boolean;
}

export const NODE = { width: 208, height: 60, across: 60, down: 18 } as const;
const LANE = 16;
const SWEEPS = 6;
// A plan whose lines would need more lanes than this is drawn with straight ones.
const MOST_LANES = 3000;

interface Item { id: string; level: number; size: number; before: Item[]; after: Item[]; rank: number; y: number }

export function layOut(graph: Needs, down = false): Layout {
  const size = (down ? NODE.width : NODE.height) + NODE.down;
  const columns = levels(graph).map((column, level) => column.map((id) => newItem(id, level, size)));
  const items = new Map(columns.flat().map((item) => [item.id, item]));
  const lanes = connect(graph, columns, items);
  columns.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) sortColumn(column, forward);
  }
  place(columns);
  return drawn(graph, columns, items, lanes, down);
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

function drawn(graph: Needs, columns: Item[][], items: Map<string, Item>, lanes: Map<string, Item[]>, down: boolean): Layout {
  const all = columns.flat();
  const top = all.reduce((least, item) => Math.min(least, item.y - item.size / 2), Infinity);
  const bottom = all.reduce((most, item) => Math.max(most, item.y + item.size / 2), -Infinity);
  const [long, broad, gap] = down ? [NODE.height, NODE.width, NODE.across / 2] : [NODE.width, NODE.height, NODE.across];
  const along = (level: number): number => level * (long + gap);
  const across = (item: Item): number => Math.round((item.y - top) * 10) / 10 - NODE.down / 2;
  const at = (main: number, cross: number): Place => (down ? { x: cross, y: main } : { x: main, y: cross });
  const places = new Map([...items.values()].map((item) => [item.id, at(along(item.level), across(item) - broad / 2)]));
  const edges = Object.entries(graph).flatMap(([to, before]) => before.map((from) => {
    const span = items.get(to)!.level - items.get(from)!.level;
    const lane = (lanes.get(from) ?? []).slice(0, Math.max(0, span - 1));
    return { from, to, through: lane.map((item) => at(along(item.level), across(item))) };
  }));
  const whole = at(Math.max(1, columns.length) * (long + gap) - gap, all.length ? bottom - top - NODE.down : broad);
  return { places, edges, width: whole.x, height: whole.y, down };
}

// A line from the side of a step where the next level is to the near side of another, straight where it crosses levels.
export function edgePath(layout: Layout, { from, to, through }: Edge): string {
  const { down } = layout;
  const [long, broad] = down ? [NODE.height, NODE.width] : [NODE.width, NODE.height];
  const turned = ({ x, y }: Place): [number, number] => (down ? [y, x] : [x, y]);
  const point = (main: number, cross: number): string => (down ? `${cross} ${main}` : `${main} ${cross}`);
  const curve = (a: number, b: number, c: number, d: number): string => {
    const bend = Math.max(down ? 12 : 24, Math.abs(c - a) / 2);
    return `C${point(a + bend, b)} ${point(c - bend, d)} ${point(c, d)}`;
  };
  const [start, end] = [turned(layout.places.get(from)!), turned(layout.places.get(to)!)];
  let [main, cross] = [start[0] + long, start[1] + broad / 2];
  let path = `M${point(main, cross)}`;
  for (const lane of through.map(turned)) {
    path += `${curve(main, cross, ...lane)}L${point(lane[0] + long, lane[1])}`;
    [main, cross] = [lane[0] + long, lane[1]];
  }
  return path + curve(main, cross, end[0], end[1] + broad / 2);
}
