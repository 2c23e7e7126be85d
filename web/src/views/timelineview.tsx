// The timeline: one bar a step on an axis of time, waiting apart from running, zoomed by dragging.

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { timeline } from "../data/timeline";
import type { Span, SpanKind } from "../data/timeline";
import { isOver } from "../data/run";
import type { Event, RunView, Step } from "../data/types";
import { folded, ticks, waitsOf } from "../data/waits";
import { useNow } from "../live/hooks";
import { Button } from "../ui/parts";
import { VirtualList } from "../ui/virtual";
import { t } from "../words/words";
import { stepName } from "./steptext";
import { precise } from "./times";

const ROW = 28;
const WIDTH = 1000;
const MOST_TICKS = 7;
const KINDS: SpanKind[] = ["running", "waiting", "person"];

interface Scale { x: (at: number) => number; ticks: { at: number; x: number }[]; cuts: number[] }
interface Range { from: number; to: number }
interface Tip { left: number; top: number; step: string; span: Span }

export function TimelineView({ run, events, hrefOf }: { run: RunView; events: Event[]; hrefOf: (step: string) => string }): JSX.Element {
  const now = useNow(!isOver(run.status));
  const plan = run.plan!;
  const times = useMemo(() => timeline(plan, events, now), [plan, events, now]);
  const waits = useMemo(() => waitsOf(events).filter(({ to }) => to > times.start), [events, times.start]);
  const [hides, setHides] = useState(false);
  const [range, setRange] = useState<Range>();
  const [tip, setTip] = useState<Tip>();
  if (!Number.isFinite(times.start)) return <p class="dim">{t("time.none")}</p>;
  const scale = scaleOf(times.start, times.end, hides ? waits : [], range);
  const rows = new Map(times.rows.map((row) => [row.step, row]));
  const zoom = (factor: number): void => setRange((old) => narrowed(old ?? { from: 0, to: 1 }, factor));
  return (
    <div class="timeline">
      <div class="line">
        <p class="legend">
          {KINDS.map((kind) => <span key={kind} class={`key k-${kind}`}>{t(`time.${kind}`)}</span>)}
          <span class="key k-critical">{t("time.critical")}</span>
          <span class="dim">{precise(times.end - times.start)}</span>
        </p>
        <div class="actions">
          {waits.length > 0 && <label class="check small"><input type="checkbox" checked={hides} onChange={() => { setHides(!hides); setRange(undefined); }} />{t("time.hide")}</label>}
          <Button kind="quiet" onClick={() => zoom(1.6)} label={t("graph.out")}>−</Button>
          <Button kind="quiet" disabled={!range} onClick={() => setRange(undefined)}>{t("graph.fit")}</Button>
          <Button kind="quiet" onClick={() => zoom(0.6)} label={t("graph.in")}>+</Button>
        </div>
      </div>
      <Chart onZoom={(part) => setRange((old) => inside(old ?? { from: 0, to: 1 }, part))} onTip={setTip} scale={scale}>
        <VirtualList as="div" items={plan.steps} keyOf={(step) => step.id} guess={32}>
          {(step, _, { key, ...row }) => <Row key={key} {...row} step={step} row={rows.get(step.id)!} run={run} scale={scale} critical={times.critical.has(step.id)} href={hrefOf(step.id)} start={times.start} />}
        </VirtualList>
        {tip && <TipCard tip={tip} start={times.start} />}
      </Chart>
    </div>
  );
}

// From times to places between 0 and WIDTH.
function scaleOf(start: number, end: number, waits: Range[], range: Range | undefined): Scale {
  const waited = waits.reduce((total, { from, to }) => total + Math.min(end, to) - Math.max(start, from), 0);
  const film = folded(start, end, waits, Math.max(1, (end - start - waited) * 0.02));
  const [from, to] = [(range?.from ?? 0) * film.length, (range?.to ?? 1) * film.length];
  const x = (at: number): number => ((film.toFilm(at) - from) / (to - from)) * WIDTH;
  const [first, last] = [film.toReal(from), film.toReal(to)];
  const found = waits.length ? ticks(from, to, MOST_TICKS).map((each) => film.toReal(each) - start) : ticks(first - start, last - start, MOST_TICKS);
  return { x, ticks: found.map((at) => ({ at, x: x(start + at) })), cuts: waits.map((wait) => x(Math.max(start, wait.from))) };
}

const narrowed = ({ from, to }: Range, factor: number): Range | undefined => {
  const [middle, half] = [(from + to) / 2, ((to - from) / 2) * factor];
  return half >= 0.5 ? undefined : { from: Math.max(0, middle - half), to: Math.min(1, middle + half) };
};

const inside = ({ from, to }: Range, part: Range): Range => ({ from: from + part.from * (to - from), to: from + part.to * (to - from) });

// The axis, and the area in which a drag chooses what to see larger.
function Chart({ scale, onZoom, onTip, children }: {
  scale: Scale; onZoom: (part: Range) => void; onTip: (tip: Tip | undefined) => void; children: JSX.Element | (JSX.Element | undefined | false)[];
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<Range>();
  const part = (event: MouseEvent): number | undefined => {
    const axis = box.current?.querySelector(".axis svg")?.getBoundingClientRect();
    return axis && (event.clientX - axis.left) / axis.width;
  };
  const down = (event: PointerEvent): void => {
    const at = part(event);
    if (event.button === 0 && event.pointerType === "mouse" && at !== undefined && at >= 0 && at <= 1) setDrag({ from: at, to: at });
  };
  const move = (event: PointerEvent): void => {
    onTip(tipAt(event, box.current!));
    const at = part(event);
    if (drag && at !== undefined) setDrag({ ...drag, to: Math.min(1, Math.max(0, at)) });
  };
  const up = (): void => {
    if (!drag) return;
    setDrag(undefined);
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if (to - from < 0.01) return;
    onZoom({ from, to });
    addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); }, { capture: true, once: true, signal: AbortSignal.timeout(50) });
  };
  return (
    <div class="gantt" ref={box} role="group" aria-label={t("time.label")} onPointerDown={down} onPointerMove={move} onPointerUp={up}
      onPointerLeave={() => { setDrag(undefined); onTip(undefined); }} onDragStart={(event) => event.preventDefault()}>
      <div class="axis" aria-hidden="true">
        <span />
        <div class="ticks">
          <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none">{drag && <rect class="drag" x={Math.min(drag.from, drag.to) * WIDTH} y="0" width={Math.abs(drag.to - drag.from) * WIDTH} height="10" />}</svg>
          {scale.ticks.map((tick) => <span key={tick.at} style={{ left: `${tick.x / 10}%` }}>{precise(tick.at)}</span>)}
        </div>
        <span />
      </div>
      {children}
    </div>
  );
}

function tipAt(event: PointerEvent, box: HTMLElement): Tip | undefined {
  const bar = (event.target as Element).closest<SVGRectElement>("rect[data-from]");
  if (!bar) return undefined;
  const { left, top, width } = box.getBoundingClientRect();
  const { from, to, kind, step } = bar.dataset as Record<string, string>;
  return { left: Math.min(event.clientX - left + 14, width - 190), top: event.clientY - top + 16, step: step!, span: { kind: kind as SpanKind, from: Number(from), to: Number(to) } };
}

function TipCard({ tip: { left, top, step, span }, start }: { tip: Tip; start: number }): JSX.Element {
  return (
    <div class="tip" style={{ left: `${left}px`, top: `${top}px` }} aria-hidden="true">
      <b>{step}</b><span>{t(`time.${span.kind}`)} · {precise(span.to - span.from)}</span>
      <small>{t("time.span", { from: precise(span.from - start), to: precise(span.to - start) })}</small>
    </div>
  );
}

function Row({ step, row, run, scale, critical, href, start, ...marks }: {
  step: Step; row: { spans: Span[]; failed: boolean }; run: RunView; scale: Scale; critical: boolean; href: string; start: number;
}): JSX.Element {
  const { spans, failed } = row;
  const name = stepName(step);
  const sum = (kind: SpanKind): number => spans.filter((each) => each.kind === kind).reduce((total, each) => total + each.to - each.from, 0);
  // A question does nothing but wait: that is its time.
  const ran = sum("running") || sum("person");
  const state = run.steps[step.id];
  const time = state?.status === "skipped" ? t("step.skipped") : spans.length ? precise(ran) : "";
  const begins = spans[0] ? t("time.span", { from: precise(spans[0].from - start), to: precise(spans.at(-1)!.to - start) }) : "";
  const { "aria-setsize": _s, "aria-posinset": _p, ...rest } = marks as Record<string, unknown>;
  return (
    <a {...rest} href={href} data-row class={critical ? "critical" : ""} aria-label={`${name} ${time}${begins && `, ${begins}`}`}>
      <span class="name">{name}</span>
      <svg viewBox={`0 0 ${WIDTH} ${ROW}`} preserveAspectRatio="none" aria-hidden="true">
        {scale.ticks.map((tick) => <path key={tick.at} class="grid" d={`M${tick.x} 0V${ROW}`} />)}
        {scale.cuts.map((cut) => <path key={cut} class="cut" d={`M${cut} 0V${ROW}`} />)}
        {spans.map((each, index) => {
          const [from, to] = [Math.max(-5, scale.x(each.from)), Math.min(WIDTH + 5, scale.x(each.to))];
          if (to < 0 || from > WIDTH) return null;
          return <rect key={index} class={`${each.kind} ${failed && index === spans.length - 1 ? "bad" : ""}`} x={from} y={each.kind === "waiting" ? 11 : 6}
            width={Math.max(2, to - from)} height={each.kind === "waiting" ? 6 : 16} rx="2" data-from={each.from} data-to={each.to} data-kind={each.kind} data-step={name} />;
        })}
      </svg>
      <span class="time" title={state?.error}>{time}</span>
    </a>
  );
}
