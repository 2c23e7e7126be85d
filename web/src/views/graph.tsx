// The plan as a drawing of our own: columns by level, curves for needs, arrow keys to walk.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { NODE, dependents, layOut, needs } from "../data/graph";
import type { Layout } from "../data/graph";
import type { Effect, Kind, Plan, Step, StepStatus } from "../data/types";
import { pathOf } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { Button } from "../ui/parts";
import { t } from "../words/words";
import { callee, stepName } from "./steptext";

interface Props {
  plan: Plan;
  selected: string | undefined;
  hrefOf: (step: string) => string;
  statusOf?: (step: string) => StepStatus | undefined;
  effectOf?: (step: string) => Effect | undefined;
  flagOf?: (step: string) => "error" | "warning" | undefined;
  // The rules of a step as sentences, and why it was skipped.
  notesOf?: (step: string) => string[];
  critical?: ReadonlySet<string>;
}

const EDGE = 24;
const CLOSEST = 2;
const FARTHEST = 0.05;

export function Graph(props: Props): JSX.Element {
  const { plan } = props;
  const layout = useMemo(() => layOut(needs(plan)), [plan]);
  const [zoom, setZoom] = useState<number | "fit">("fit");
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useEffect(() => {
    if (!box.current) return undefined;
    const watcher = new ResizeObserver(([entry]) => setRoom(entry?.contentRect.width ?? 0));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const width = layout.width + 2 * EDGE;
  const height = layout.height + 2 * EDGE;
  const fit = room ? Math.min(1, Math.max(0.62, room / width)) : 1;
  const scale = zoom === "fit" ? fit : zoom;
  const closer = (factor: number): void => setZoom(Math.min(CLOSEST, Math.max(FARTHEST, scale * factor)));
  return (
    <div class="graph">
      <div class="tools">
        <Button kind="quiet" onClick={() => closer(0.8)} label={t("graph.out")}>−</Button>
        <Button kind="quiet" onClick={() => setZoom("fit")}>{t("graph.fit")}</Button>
        <Button kind="quiet" onClick={() => closer(1.25)} label={t("graph.in")}>+</Button>
      </div>
      <div class="canvas" ref={box}>
        <svg width={width * scale} height={height * scale} viewBox={`${-EDGE} ${-EDGE} ${width} ${height}`}
          role="group" aria-label={t("graph.label")} onKeyDown={(event) => walk(event, plan, layout)}>
          <Edges layout={layout} selected={props.selected} critical={props.critical} />
          {plan.steps.map((step) => <Node key={step.id} step={step} layout={layout} {...props} />)}
        </svg>
      </div>
    </div>
  );
}

function Edges({ layout, selected, critical }: { layout: Layout; selected: string | undefined; critical: ReadonlySet<string> | undefined }): JSX.Element {
  return (
    <g class="edges" aria-hidden="true">
      {layout.edges.map(({ from, to }) => {
        const on = from === selected || to === selected ? "on" : "";
        const hot = critical?.has(from) && critical.has(to) ? "critical" : "";
        return <path key={`${from} ${to}`} class={`${on} ${hot}`} d={curve(layout, from, to)} />;
      })}
    </g>
  );
}

function curve(layout: Layout, from: string, to: string): string {
  const start = layout.places.get(from)!;
  const end = layout.places.get(to)!;
  const [x1, y1] = [start.x + NODE.width, start.y + NODE.height / 2];
  const [x2, y2] = [end.x, end.y + NODE.height / 2];
  const bend = Math.max(24, Math.abs(x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

function Node({ step, layout, selected, hrefOf, statusOf, effectOf, flagOf, notesOf, critical }: Props & { step: Step; layout: Layout }): JSX.Element {
  const { x, y } = layout.places.get(step.id)!;
  const status = statusOf?.(step.id);
  const effect = effectOf?.(step.id);
  const flag = flagOf?.(step.id);
  const classes = ["node", status ? `s-${status}` : "", effect ? `effect-${effect}` : "", flag ? `flag-${flag}` : "",
    selected === step.id ? "on" : "", step.disabled ? "off" : "", critical?.has(step.id) ? "critical" : ""];
  const name = clipped(stepName(step), 21);
  const called = clipped(callee(step) || t(`kind.${step.kind}`), 24);
  // The name for screen readers begins with what is seen, so that speech input finds it.
  const notes = notesOf?.(step.id) ?? [];
  const words = [`${name} ${called}`, t(`kind.${step.kind}`), status && t(`step.${status}`), effect && t(`effect.${effect}`), ...notes];
  return (
    <g transform={`translate(${x} ${y})`}>
      <a href={hrefOf(step.id)} class={classes.filter(Boolean).join(" ")} data-step={step.id}
        aria-label={words.filter(Boolean).join(", ")} aria-current={selected === step.id ? "true" : undefined}>
        {notes.length > 0 && <title>{notes.join("\n")}</title>}
        <rect class={step.when ? "maybe" : undefined} width={NODE.width} height={NODE.height} rx="8" />
        <path class="sign" transform="translate(12 15) scale(.92)" d={pathOf(status ?? KIND_ICONS[step.kind])} />
        <text x="44" y="22" class="name">{name}</text>{" "}
        <text x="44" y="39" class="callee">{called}</text>
        {notes.length > 0 && <text x={NODE.width - 20} y="21" class="callee" aria-hidden="true">{step.repeat ? "↻" : "?"}</text>}
      </a>
    </g>
  );
}

export const KIND_ICONS: Record<Kind, IconName> = {
  tool: "tools", agent: "running", ask: "asking", map: "replanning", plan: "templates", reply: "answered",
};

// Wide characters take twice the room.
function clipped(text: string, room: number): string {
  let used = 0;
  let kept = "";
  for (const each of text) {
    used += each.codePointAt(0)! > 0x2e7f ? 1.8 : 1;
    if (used > room) return `${kept}…`;
    kept += each;
  }
  return kept;
}

// Left and right follow needs, up and down stay in the column.
function walk(event: KeyboardEvent, plan: Plan, layout: Layout): void {
  const here = (event.target as Element).closest<SVGAElement>("a[data-step]")?.dataset["step"];
  if (!here) return;
  const graph = needs(plan);
  const column = [...layout.places].filter(([, place]) => place.x === layout.places.get(here)!.x)
    .sort(([, left], [, right]) => left.y - right.y).map(([id]) => id);
  const next = {
    ArrowLeft: graph[here]?.[0],
    ArrowRight: dependents(graph)[here]?.[0],
    ArrowUp: column[column.indexOf(here) - 1],
    ArrowDown: column[column.indexOf(here) + 1],
  }[event.key];
  if (next === undefined) return;
  const nodes = [...(event.currentTarget as Element).querySelectorAll<SVGAElement>("a[data-step]")];
  nodes.find((node) => node.dataset["step"] === next)?.focus();
  event.preventDefault();
}
