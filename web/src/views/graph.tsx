// The plan as a drawing of our own, which is moved, zoomed, searched, and walked by arrow keys.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { dependents, needs } from "../data/graph";
import { NODE } from "../data/layout";
import type { Layout } from "../data/layout";
import { bestLayout, boxes, centred, fitted, opening, openingScale, stepAt, visible, zoomedAt } from "../data/viewport";
import type { Size, Viewport } from "../data/viewport";
import type { Effect, Plan, StepStatus } from "../data/types";
import { Button } from "../ui/parts";
import { t } from "../words/words";
import { Edges, MiniMap, Node, statusGroups } from "./graphparts";
import { useHands } from "./graphhands";
import { stepName } from "./steptext";

export { KIND_ICONS } from "./graphparts";

export interface GraphProps {
  plan: Plan;
  selected: string | undefined;
  hrefOf: (step: string) => string;
  statusOf?: (step: string) => StepStatus | undefined;
  effectOf?: (step: string) => Effect | undefined;
  flagOf?: (step: string) => "error" | "warning" | undefined;
  // The rules of a step as sentences, and why it was skipped.
  notesOf?: (step: string) => string[];
  // How long it took, or takes.
  timeOf?: (step: string) => string;
  critical?: ReadonlySet<string>;
  // The most of the window's height that it takes.
  share?: number;
}

// More steps than this at once are drawn as boxes without words.
const DETAILED = 160;
const FIRST_ROOM: Size = { width: 900, height: 400 };

export function Graph(props: GraphProps): JSX.Element {
  const { plan, statusOf, share = 0.7 } = props;
  const [moved, setMoved] = useState<Viewport>();
  const [query, setQuery] = useState("");
  const canvas = useRef<HTMLDivElement>(null);
  const room = useRoom(canvas);
  const layout = useMemo(() => bestLayout(needs(plan), { width: room.width, height: innerHeight * share }), [plan, room.width]);
  const running = plan.steps.filter((step) => statusOf?.(step.id) === "running").map((step) => step.id);
  // Until somebody moves it, it shows what happens.
  const view = moved ?? opening(layout, room, running);
  const seen = visible(layout, view, room);
  const found = matches(plan, query);
  const detailed = seen.size <= DETAILED;
  const middle = { x: room.width / 2, y: room.height / 2 };
  const show = (step: string): void => {
    const place = layout.places.get(step);
    if (place) setMoved(centred({ x: place.x + NODE.width / 2, y: place.y + NODE.height / 2 }, room, Math.max(view.scale, 0.8)));
  };
  useHands(canvas, view, setMoved);
  const height = Math.min(innerHeight * share, Math.max(170, layout.height * openingScale({ ...layout, height: 1 }, room) + 64));
  const fits = fitted(layout, room).scale >= view.scale * 0.98;
  return (
    <div class="graph">
      <GraphTools query={query} onQuery={setQuery} found={found} onShow={show} large={plan.steps.length > 12}
        onZoom={(factor) => setMoved(zoomedAt(view, factor, middle))} onFit={() => setMoved(fitted(layout, room))} />
      <div class="canvas" ref={canvas} style={{ height: `${Math.round(height)}px` }}>
        <svg width="100%" height="100%" role="group" aria-label={t("graph.label")}
          onKeyDown={(event) => keyed(event, props, layout, show, (factor) => setMoved(factor ? zoomedAt(view, factor, middle) : fitted(layout, room)))}
          onClick={detailed ? undefined : (event) => openAt(event, layout, view, props.hrefOf)}>
          <g transform={`scale(${view.scale}) translate(${-view.x} ${-view.y})`}>
            <Edges layout={layout} seen={seen} detailed={detailed} selected={props.selected} critical={props.critical} statusOf={statusOf} />
            {detailed ? plan.steps.filter((step) => seen.has(step.id)).map((step) => (
              <Node key={step.id} step={step} place={layout.places.get(step.id)!} found={query !== "" && found.includes(step.id)} graph={props} />))
              : statusGroups(layout, statusOf, seen).map(([status, places]) => <path key={status} class={`many s-${status}`} d={boxes(places)} />)}
          </g>
        </svg>
        {!fits && layout.places.size > 1 && <MiniMap layout={layout} view={view} room={room} statusOf={statusOf}
          onMove={(place) => setMoved(centred(place, room, view.scale))} />}
        {!detailed && <p class="hint">{t("graph.many", { count: seen.size })}</p>}
      </div>
    </div>
  );
}

function GraphTools({ query, onQuery, found, onShow, onZoom, onFit, large }: {
  query: string; onQuery: (text: string) => void; found: string[]; onShow: (step: string) => void;
  onZoom: (factor: number) => void; onFit: () => void; large: boolean;
}): JSX.Element {
  const at = useRef(0);
  const next = (back: boolean): void => {
    if (found.length === 0) return;
    at.current = (at.current + (back ? found.length - 1 : 1)) % found.length;
    onShow(found[at.current]!);
  };
  const input = (text: string): void => { at.current = -1; onQuery(text); };
  return (
    <div class="tools">
      {large && (
        <span class="find">
          <input type="search" aria-label={t("graph.find")} placeholder={t("graph.find")} value={query} onInput={(event) => input(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === "Enter") next(event.shiftKey); }} />
          {query && <span class="dim small" role="status">{t("graph.found", { count: found.length })}</span>}
        </span>
      )}
      <Button kind="quiet" onClick={() => onZoom(0.8)} label={t("graph.out")}>−</Button>
      <Button kind="quiet" onClick={onFit}>{t("graph.fit")}</Button>
      <Button kind="quiet" onClick={() => onZoom(1.25)} label={t("graph.in")}>+</Button>
    </div>
  );
}

function matches(plan: Plan, query: string): string[] {
  const wanted = query.trim().toLowerCase();
  if (!wanted) return [];
  return plan.steps.filter((step) => `${stepName(step)} ${step.id} ${step.tool ?? step.agent ?? step.template ?? ""}`.toLowerCase().includes(wanted)).map((step) => step.id);
}

function useRoom(canvas: { current: HTMLDivElement | null }): Size {
  const [room, setRoom] = useState(FIRST_ROOM);
  useEffect(() => {
    if (!canvas.current) return undefined;
    const watcher = new ResizeObserver(([entry]) => {
      const { width = 0, height = 0 } = entry?.contentRect ?? {};
      if (width && height) setRoom((old) => (old.width === width && old.height === height ? old : { width, height }));
    });
    watcher.observe(canvas.current);
    return () => watcher.disconnect();
  }, []);
  return room;
}

function openAt(event: MouseEvent, layout: Layout, view: Viewport, hrefOf: (step: string) => string): void {
  const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
  const step = stepAt(layout, { x: view.x + (event.clientX - left) / view.scale, y: view.y + (event.clientY - top) / view.scale });
  if (step !== undefined) location.hash = hrefOf(step);
}

// Along the levels the keys follow needs, across them they stay in the level; + and - zoom, 0 fits.
function keyed(event: KeyboardEvent, { plan }: GraphProps, layout: Layout, show: (step: string) => void, zoom: (factor: number) => void): void {
  const factor = { "+": 1.25, "=": 1.25, "-": 0.8, "0": 0 }[event.key];
  const here = (event.target as Element).closest<SVGAElement>("a[data-step]")?.dataset["step"];
  if (!here || event.ctrlKey || event.metaKey) return;
  if (factor !== undefined) {
    zoom(factor);
    event.preventDefault();
    return;
  }
  const graph = needs(plan);
  const [main, cross] = layout.down ? ["y", "x"] as const : ["x", "y"] as const;
  const level = [...layout.places].filter(([, place]) => place[main] === layout.places.get(here)![main])
    .sort(([, left], [, right]) => left[cross] - right[cross]).map(([id]) => id);
  const [before, after] = [graph[here]?.[0], dependents(graph)[here]?.[0]];
  const [one, other] = [level[level.indexOf(here) - 1], level[level.indexOf(here) + 1]];
  const next = (layout.down ? { ArrowUp: before, ArrowDown: after, ArrowLeft: one, ArrowRight: other }
    : { ArrowLeft: before, ArrowRight: after, ArrowUp: one, ArrowDown: other } as Record<string, string | undefined>)[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const svg = event.currentTarget as Element;
  const focus = (): boolean => {
    const node = [...svg.querySelectorAll<SVGAElement>("a[data-step]")].find((each) => each.dataset["step"] === next);
    node?.focus({ preventScroll: true });
    return node !== undefined;
  };
  if (focus()) return;
  show(next);
  requestAnimationFrame(() => requestAnimationFrame(focus));
}
