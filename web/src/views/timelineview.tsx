// The timeline: one bar a step, waiting apart from running, the critical path marked.

import type { JSX } from "preact";
import { timeline } from "../data/timeline";
import type { SpanKind } from "../data/timeline";
import { isOver } from "../data/run";
import type { Event, RunView } from "../data/types";
import { useNow } from "../live/hooks";
import { duration, t } from "../words/words";
import { stepName } from "./steptext";

const ROW = 28;
const WIDTH = 1000;
const KINDS: SpanKind[] = ["running", "waiting", "person"];

export function TimelineView({ run, events, hrefOf }: { run: RunView; events: Event[]; hrefOf: (step: string) => string }): JSX.Element {
  const now = useNow(!isOver(run.status));
  const plan = run.plan!;
  const times = timeline(plan, events, now);
  if (!Number.isFinite(times.start)) return <p class="dim">{t("time.none")}</p>;
  const span = times.end - times.start;
  const x = (at: number): number => ((at - times.start) / span) * WIDTH;
  const rows = times.rows;
  return (
    <div class="timeline">
      <p class="legend">
        {KINDS.map((kind) => <span key={kind} class={`key k-${kind}`}>{t(`time.${kind}`)}</span>)}
        <span class="key k-critical">{t("time.critical")}</span>
        <span class="dim">{duration(span / 1000)}</span>
      </p>
      <div class="gantt" role="group" aria-label={t("time.label")}>
        {rows.map(({ step, spans, failed }) => {
          const of = plan.steps.find((each) => each.id === step)!;
          const ran = spans.filter((each) => each.kind === "running").reduce((total, each) => total + each.to - each.from, 0);
          return (
            <a key={step} href={hrefOf(step)} class={times.critical.has(step) ? "critical" : ""}>
              <span class="name">{stepName(of)}</span>
              <svg viewBox={`0 0 ${WIDTH} ${ROW}`} preserveAspectRatio="none" aria-hidden="true">
                {spans.map((each, index) => (
                  <rect key={index} class={`${each.kind} ${failed && index === spans.length - 1 ? "bad" : ""}`} x={x(each.from)} y={each.kind === "waiting" ? 11 : 6}
                    width={Math.max(2, x(each.to) - x(each.from))} height={each.kind === "waiting" ? 6 : 16} rx="2" />
                ))}
              </svg>
              <span class="time" title={run.steps[step]?.error}>{run.steps[step]?.status === "skipped" ? t("step.skipped") : spans.length ? duration(ran / 1000) : ""}</span>
            </a>
          );
        })}
      </div>
    </div>
  );
}
