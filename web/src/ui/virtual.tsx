// A list of any length of which only the rows near the screen are drawn; short ones are drawn whole.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { RowHeights } from "../data/window";

// Below this many rows drawing all of them costs less than watching the scroll bar.
export const WHOLE = 60;
const MARGIN = 300;

export interface RowProps { key: string; "data-key": string; "aria-setsize"?: number; "aria-posinset"?: number }

interface Props<T> {
  items: readonly T[];
  keyOf: (item: T, index: number) => string;
  // One `<li {...row}>` for each item: `row` says where it stands in the whole list.
  children: (item: T, index: number, row: RowProps) => ComponentChildren;
  // The usual height of a row in pixels, until it is drawn and measured.
  guess: number;
  class?: string;
  as?: "ol" | "ul" | "div";
  label?: string;
  // A row that is brought into view when it changes, such as the selected one; it stays drawn.
  shown?: string | undefined;
  // Whether more rows follow than are known here.
  more?: boolean;
}

export function VirtualList<T>({ items, keyOf, children, guess, class: name, as: Tag = "ol", label, shown, more = false }: Props<T>): JSX.Element {
  const box = useRef<HTMLElement>(null);
  const heights = useMemo(() => new RowHeights(guess), [guess]);
  const keys = items.map(keyOf);
  heights.setKeys(keys);
  const whole = items.length <= WHOLE;
  const [strip, setStrip] = useState({ from: 0, to: 1200 });
  const [, measured] = useState(0);
  const [kept, setKept] = useState<string>();

  useEffect(() => {
    if (whole) return undefined;
    const look = (): void => {
      const top = box.current?.getBoundingClientRect().top ?? 0;
      // In steps, so that not every pixel of scrolling draws the list again.
      const from = Math.floor((-top - MARGIN) / 200) * 200;
      const to = from + innerHeight + 2 * MARGIN + 200;
      setStrip((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    look();
    addEventListener("scroll", look, { passive: true, capture: true });
    addEventListener("resize", look);
    return () => { removeEventListener("scroll", look, { capture: true }); removeEventListener("resize", look); };
  }, [whole]);

  const reach = (index: number, focus: boolean): void => {
    const list = box.current;
    if (!list || index < 0) return;
    setKept(keys[index]);
    scrollTo({ top: list.getBoundingClientRect().top + scrollY + heights.top(index) - innerHeight / 3 });
    if (focus) requestAnimationFrame(() => requestAnimationFrame(() => rowOf(list, keys[index]!)?.querySelector<HTMLElement>("a, button")?.focus()));
  };
  useEffect(() => { if (!whole && shown !== undefined && !rowOf(box.current, shown)) reach(keys.indexOf(shown), false); }, [shown, whole]);

  const { first, after } = whole ? { first: 0, after: items.length } : heights.between(strip.from, strip.to);
  const rows = [];
  for (let index = first; index < after; index++) rows.push(index);
  // The row with the focus and the open one stay, wherever the list is scrolled to: what was typed is in them.
  const held = whole ? [] : [...new Set([kept, shown])].map((key) => (key === undefined ? -1 : keys.indexOf(key))).sort((one, other) => one - other);
  const [above, below] = [held.filter((at) => at >= 0 && at < first), held.filter((at) => at >= after)];

  // The room of the rows that are left out is set by hand: drawing all rows again for it would cost twice.
  useLayoutEffect(() => {
    const list = box.current;
    if (!list) return;
    let news = false;
    for (const row of whole ? [] : [...list.children] as HTMLElement[]) {
      const key = row.dataset["key"];
      if (key !== undefined && heights.measure(key, row.getBoundingClientRect().height)) news = true;
    }
    const taken = (rows: number[]): number => rows.reduce((total, at) => total + heights.top(at + 1) - heights.top(at), 0);
    const over = heights.top(first) - taken(above);
    const under = heights.height - heights.top(after) - taken(below);
    // The browser would count the rows that came and not the room that they took, and scroll to and fro.
    list.style.setProperty("overflow-anchor", whole ? "" : "none");
    list.style.paddingTop = !whole && over > 0 ? `${over}px` : "";
    list.style.paddingBottom = !whole && under > 0 ? `${under}px` : "";
    const wanted = heights.between(strip.from, strip.to);
    if (news && (wanted.first < first || wanted.after > after)) measured((count) => count + 1);
  });

  const draw = (index: number): ComponentChildren => children(items[index]!, index, {
    key: keys[index]!, "data-key": keys[index]!, ...(whole ? {} : { "aria-setsize": more ? -1 : items.length, "aria-posinset": index + 1 }),
  });
  return (
    <Tag ref={box as never} class={name} aria-label={label}
      onFocusIn={(event: FocusEvent) => setKept((event.target as HTMLElement).closest<HTMLElement>("[data-key]")?.dataset["key"])}
      onKeyDown={(event: KeyboardEvent) => move(event, keys, box.current, reach)}>
      {[...above, ...rows, ...below].map(draw)}
    </Tag>
  );
}

const rowOf = (list: HTMLElement | null, key: string): HTMLElement | undefined =>
  ([...(list?.children ?? [])] as HTMLElement[]).find((row) => row.dataset["key"] === key);

// Arrow keys move between the rows, Home and End reach the ends, also where they are not drawn yet.
function move(event: KeyboardEvent, keys: readonly string[], list: HTMLElement | null, reach: (index: number, focus: boolean) => void): void {
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  const target = event.target as HTMLElement;
  const here = target.closest<HTMLElement>("[data-key]")?.dataset["key"];
  if (step === undefined || here === undefined || !target.matches("a[data-row]")) return;
  const next = Math.min(keys.length - 1, Math.max(0, keys.indexOf(here) + step));
  const row = rowOf(list, keys[next]!)?.querySelector<HTMLElement>("a[data-row]");
  if (row) row.focus();
  else reach(next, true);
  event.preventDefault();
}
