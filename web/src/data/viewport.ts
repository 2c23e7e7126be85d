// Which part of a drawing is seen: moving, zooming about a point, and what of it is worth drawing.

import type { Needs } from "./graph";
import { NODE, layOut } from "./layout";
import type { Layout, Place } from "./layout";

export interface Size { width: number; height: number }
// `x` and `y` are what stands in the upper left corner, `scale` how large one unit is.
export interface Viewport { x: number; y: number; scale: number }

export const CLOSEST = 2;
export const FARTHEST = 0.004;
const EDGE = 24;
// Titles are easy to read above the one, and cannot be read below the other.
const EASY = 0.6;
const READABLE = 0.34;
const MOST_TURNED = 200;

export const clampScale = (scale: number): number => Math.min(CLOSEST, Math.max(FARTHEST, scale));

// The whole drawing in the middle, never larger than it is.
export function fitted(layout: Size, room: Size): Viewport {
  const scale = clampScale(Math.min(1, room.width / (layout.width + 2 * EDGE), room.height / (layout.height + 2 * EDGE)));
  return centred({ x: layout.width / 2, y: layout.height / 2 }, room, scale);
}

export function centred(place: Place, room: Size, scale: number): Viewport {
  return { x: place.x - room.width / scale / 2, y: place.y - room.height / scale / 2, scale };
}

// The layout that can be larger in this room: a narrow one has more of it downwards.
export function bestLayout(graph: Needs, room: Size): Layout {
  const right = layOut(graph);
  if (fitted(right, room).scale >= EASY || right.places.size > MOST_TURNED) return right;
  const down = layOut(graph, true);
  return fitted(down, room).scale > fitted(right, room).scale ? down : right;
}

// How large it is at first: whole if it can be read then.
export function openingScale(layout: Size, room: Size): number {
  const whole = fitted(layout, room).scale;
  return whole >= READABLE ? whole : 0.75;
}

// What is seen at first: the whole, or as much as can be read around what happens now.
export function opening(layout: Layout, room: Size, now: readonly string[]): Viewport {
  const whole = fitted(layout, room);
  const scale = openingScale(layout, room);
  if (whole.scale === scale) return whole;
  const places = now.map((id) => layout.places.get(id)).filter((each) => each !== undefined);
  const wide = layout.width * scale + 2 * EDGE <= room.width;
  const x = wide ? layout.width / 2 - room.width / scale / 2 : -EDGE / scale;
  if (places.length === 0) {
    const first = [...layout.places.values()].find((each) => each.x === 0);
    return { x, y: Math.max(-EDGE / scale, (first?.y ?? 0) - room.height / scale / 2), scale };
  }
  const sum = places.reduce((total, each) => ({ x: total.x + each.x, y: total.y + each.y }), { x: 0, y: 0 });
  const middle = centred({ x: sum.x / places.length + NODE.width / 2, y: sum.y / places.length + NODE.height / 2 }, room, scale);
  return wide ? { ...middle, x } : middle;
}

// Larger or smaller about a point of the screen, which stays where it is.
export function zoomedAt(view: Viewport, factor: number, at: Place): Viewport {
  const scale = clampScale(view.scale * factor);
  return { x: view.x + at.x / view.scale - at.x / scale, y: view.y + at.y / view.scale - at.y / scale, scale };
}

// Two fingers: what was under each of them stays under it, as far as turning is left out.
export function pinched(view: Viewport, before: readonly [Place, Place], now: readonly [Place, Place]): Viewport {
  const apart = ([one, other]: readonly [Place, Place]): number => Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
  const middle = ([one, other]: readonly [Place, Place]): Place => ({ x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 });
  const [from, to] = [middle(before), middle(now)];
  const zoomed = zoomedAt(view, apart(now) / apart(before), from);
  return { ...zoomed, x: zoomed.x - (to.x - from.x) / zoomed.scale, y: zoomed.y - (to.y - from.y) / zoomed.scale };
}

export function visible(layout: Layout, view: Viewport, room: Size): Set<string> {
  const right = view.x + room.width / view.scale;
  const bottom = view.y + room.height / view.scale;
  const found = new Set<string>();
  for (const [id, { x, y }] of layout.places) {
    if (x < right && x + NODE.width > view.x && y < bottom && y + NODE.height > view.y) found.add(id);
  }
  return found;
}

// The step at a point of the drawing.
export function stepAt(layout: Layout, { x, y }: Place): string | undefined {
  for (const [id, place] of layout.places) {
    if (x >= place.x && x <= place.x + NODE.width && y >= place.y && y <= place.y + NODE.height) return id;
  }
  return undefined;
}

// Many boxes in one shape, since one shape costs less than many.
export function boxes(places: Iterable<Place>): string {
  let path = "";
  for (const { x, y } of places) path += `M${x} ${y}h${NODE.width}v${NODE.height}h${-NODE.width}z`;
  return path;
}
