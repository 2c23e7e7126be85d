// What the drawing of a plan is made of: steps, lines that light up, and the small map of it all.

import type { JSX } from "preact";
import { NODE, edgePath } from "../data/layout";
import type { Edge, Layout, Place } from "../data/layout";
import { boxes } from "../data/viewport";
import type { Size, Viewport } from "../data/viewport";
import type { Kind, Step, StepStatus } from "../data/types";
import { pathOf } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { t } from "../words/words";
import type { GraphProps } from "./graph";
import { callee, stepName } from "./steptext";

export const KIND_ICONS: Record<Kind, IconName> = {
  tool: "tools", agent: "running", ask: "asking", map: "replanning", plan: "templates", reply: "answered",
};

type StatusOf = GraphProps["statusOf"];

const LINE = 20;

export function Node({ step, place, graph, found }: { step: Step; place: Place; graph: GraphProps; found: boolean }): JSX.Element {
  const { selected, hrefOf, statusOf, effectOf, flagOf, notesOf, timeOf, critical } = graph;
  const status = statusOf?.(step.id);
  const effect = effectOf?.(step.id);
  const flag = flagOf?.(step.id);
  const classes = ["node", status ? `s-${status}` : "", effect ? `effect-${effect}` : "", flag ? `flag-${flag}` : "", found ? "found" : "",
    selected === step.id ? "on" : "", step.disabled ? "off" : "", critical?.has(step.id) ? "critical" : ""];
  const whole = stepName(step);
  const lines = wrapped(whole, LINE);
  const time = timeOf?.(step.id) ?? "";
  const called = clipped(callee(step) || t(`kind.${step.kind}`), 24 - (time ? time.length + 1 : 0));
  // The name for screen readers begins with what is seen, so that speech input finds it.
  const notes = notesOf?.(step.id) ?? [];
  const words = [`${lines.join(" ")} ${called} ${time}`.trim(), t(`kind.${step.kind}`), status && t(`step.${status}`), effect && t(`effect.${effect}`), ...notes];
  const title = [...(lines.join(" ") === whole ? [] : [whole]), ...notes];
  const first = lines.length > 1 ? 19 : 27;
  return (
    <g transform={`translate(${place.x} ${place.y})`}>
      <a href={hrefOf(step.id)} class={classes.filter(Boolean).join(" ")} data-step={step.id}
        aria-label={words.filter(Boolean).join(", ")} aria-current={selected === step.id ? "true" : undefined}>
        {title.length > 0 && <title>{title.join("\n")}</title>}
        <rect class={step.when ? "maybe" : undefined} width={NODE.width} height={NODE.height} rx="9" />
        <path class="sign" transform="translate(12 19) scale(.92)" d={pathOf(status ?? KIND_ICONS[step.kind])} />
        {lines.map((line, index) => <text key={index} x="44" y={first + 15 * index} class="name">{`${line} `}</text>)}
        <text x="44" y={first + 15 * lines.length + 1} class="callee">{called}</text>{" "}
        {time && <text x={NODE.width - 10} y={NODE.height - 9} class="took">{time}</text>}
        {notes.length > 0 && <text x={NODE.width - 18} y="19" class="callee" aria-hidden="true">{step.repeat ? "↻" : "?"}</text>}
      </a>
    </g>
  );
}

// Wide characters take nearly twice the room, wide letters half of it more.
const widthOf = (each: string): number => (each.codePointAt(0)! > 0x2e7f ? 1.8 : /[mwMW]/.test(each) ? 1.4 : 1);

export function clipped(text: string, room: number): string {
  let used = 0;
  let kept = "";
  for (const each of text) {
    used += widthOf(each);
    if (used > room) return `${kept}…`;
    kept += each;
  }
  return kept;
}

// A title in at most two lines, broken between words where there are any.
export function wrapped(text: string, room: number): string[] {
  let used = 0;
  let fits = 0;
  let space = -1;
  for (const each of text) {
    used += widthOf(each);
    if (used > room) break;
    fits += each.length;
    if (each === " ") space = fits;
  }
  if (fits >= text.length) return [text];
  const cut = text[fits] === " " || space <= 0 ? fits : space;
  return [text.slice(0, cut).trim(), clipped(text.slice(cut).trim(), room - 1)];
}

// A line is lit once its value is there, and flows while the step behind it works with it.
function edgeState(from: StepStatus | undefined, to: StepStatus | undefined): string {
  if (from !== "done" && from !== "skipped") return "";
  if (to === "running") return "flows";
  return to === "waiting" || to === "ready" || to === "asking" || to === undefined ? "ready" : "lit";
}

export function Edges({ layout, seen, detailed, selected, critical, statusOf }: {
  layout: Layout; seen: ReadonlySet<string>; detailed: boolean; selected: string | undefined; critical: ReadonlySet<string> | undefined; statusOf: StatusOf;
}): JSX.Element {
  const near = layout.edges.filter(({ from, to }) => seen.has(from) || seen.has(to));
  const classOf = ({ from, to }: Edge): string => [
    statusOf ? edgeState(statusOf(from), statusOf(to)) : "",
    from === selected || to === selected ? "on" : "",
    critical?.has(from) && critical.has(to) ? "critical" : "",
  ].filter(Boolean).join(" ");
  if (detailed && near.length <= 400) {
    return <g class="edges" aria-hidden="true">{near.map((edge) => <path key={`${edge.from} ${edge.to}`} class={classOf(edge)} d={edgePath(layout, edge)} />)}</g>;
  }
  // One shape for each kind of line: a thousand of them cost as much as one.
  const paths = new Map<string, string>();
  for (const edge of near) paths.set(classOf(edge), (paths.get(classOf(edge)) ?? "") + edgePath(layout, edge));
  return <g class="edges" aria-hidden="true">{[...paths].map(([name, path]) => <path key={name} class={name.replace("flows", "lit")} d={path} />)}</g>;
}

export function statusGroups(layout: Layout, statusOf: StatusOf, seen?: ReadonlySet<string>): [string, Place[]][] {
  const groups = new Map<string, Place[]>();
  for (const [id, place] of layout.places) {
    if (seen && !seen.has(id)) continue;
    const status = statusOf?.(id) ?? "waiting";
    const group = groups.get(status);
    if (group) group.push(place);
    else groups.set(status, [place]);
  }
  return [...groups];
}

const MAP: Size = { width: 168, height: 96 };

export function MiniMap({ layout, view, room, statusOf, onMove }: {
  layout: Layout; view: Viewport; room: Size; statusOf: StatusOf; onMove: (place: Place) => void;
}): JSX.Element {
  const scale = Math.min(MAP.width / layout.width, MAP.height / layout.height);
  const [width, height] = [Math.max(24, layout.width * scale), Math.max(24, layout.height * scale)];
  const move = (event: PointerEvent): void => {
    if (event.buttons === 0) return;
    const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
    onMove({ x: ((event.clientX - left) / width) * layout.width, y: ((event.clientY - top) / height) * layout.height });
  };
  return (
    <svg class="minimap" width={width} height={height} viewBox={`0 0 ${layout.width} ${layout.height}`} preserveAspectRatio="none" aria-hidden="true"
      onPointerDown={move} onPointerMove={move}>
      {statusGroups(layout, statusOf).map(([status, places]) => <path key={status} class={`many s-${status}`} d={boxes(places)} />)}
      <rect class="frame-of-view" x={view.x} y={view.y} width={room.width / view.scale} height={room.height / view.scale} />
    </svg>
  );
}
