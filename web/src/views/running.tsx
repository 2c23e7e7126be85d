// Run: the same steps live, as list, graph, timeline or log; a change of plan shows cause and diff.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { needs } from "../data/graph";
import type { Event, Plan, RunView, StepView } from "../data/types";
import { get, runPath } from "../live/api";
import { useNow } from "../live/hooks";
import { live } from "../live/stream";
import { link } from "../route";
import { Tabs, moveByArrows } from "../ui/parts";
import { EffectChip, StepIcon } from "../ui/status";
import { duration, t } from "../words/words";
import { Changed } from "./changed";
import { Graph } from "./graph";
import { StepInspector } from "./inspector";
import { LogView } from "./log";
import { Side } from "./side";
import { LARGE, callee, collectedOf, roundText, stepName } from "./steptext";
import { TimelineView } from "./timelineview";

const MODES = ["list", "graph", "timeline", "log"] as const;

export function Running({ run, step, mode }: { run: RunView; step: string | undefined; mode: string | null }): JSX.Element {
  const plan = run.plan!;
  const large = plan.steps.length > LARGE;
  const shows = MODES.find((each) => each === mode) ?? "list";
  const hrefOf = (id: string): string => link(["runs", run.id, "run", id], { view: mode ?? undefined });
  const selected = plan.steps.find((each) => each.id === step?.split("/")[0]);
  const events = useEvents(run.id, shows === "timeline" || shows === "log");
  return (
    <div class="running">
      {run.revisions > 1 && (run.replans > 0 || run.iterations > 0) && <Changed run={run} title={t("go.replanned")} />}
      <div class="line">
        <h2>{t("review.steps")} <span class="dim">{plan.steps.length}</span></h2>
        <Tabs small label={t("view.label")} current={shows} tabs={MODES.map((each) => (
          { id: each, name: t(`view.${each}`), href: link(["runs", run.id, "run", ...(step ? [step] : [])], { view: each }) }))} />
      </div>
      {large && !mode && <p class="dim">{t("go.large", { count: plan.steps.length })}</p>}
      <div class={`split ${selected ? "picked" : ""}`}>
        <div class="main">
          {shows === "list" && <LiveList run={run} plan={plan} selected={step} hrefOf={hrefOf} />}
          {shows === "graph" && <Graph plan={plan} selected={selected?.id} hrefOf={hrefOf} statusOf={(id) => run.steps[id]?.status} effectOf={(id) => run.effects.by_step[id]}
            notesOf={(id) => [...(run.rules[id] ?? []), run.steps[id]?.status === "skipped" ? run.steps[id].error : ""].filter(Boolean)}
            critical={new Set(run.estimate?.critical_path ?? [])} />}
          {shows === "timeline" && <TimelineView run={run} events={events} hrefOf={hrefOf} />}
          {shows === "log" && <LogView events={events} />}
        </div>
        {selected && (
          <Side step={selected.id} closes={link(["runs", run.id, "run"], { view: mode ?? undefined })}>
            <StepInspector key={step} run={run} step={selected} part={step} />
          </Side>
        )}
      </div>
    </div>
  );
}

// The journal of a run, read once and kept up to date; only for the views that show it.
function useEvents(run: string, wanted: boolean): Event[] {
  const [events, setEvents] = useState<Event[]>([]);
  useEffect(() => {
    if (!wanted) return undefined;
    const add = (more: Event[]): void => setEvents((known) => {
      const last = known.at(-1)?.number ?? 0;
      const fresh = more.filter((event) => event.number > last);
      return fresh.length ? [...known, ...fresh] : known;
    });
    const read = (): void => { void get<{ items: Event[] }>(runPath(run, "/events?after=0")).then(({ items }) => setEvents(items), () => undefined); };
    read();
    return live.listen({ event: (event) => { if (event.run === run) add([event]); }, resync: read });
  }, [run, wanted]);
  return events;
}

function LiveList({ run, plan, selected, hrefOf }: { run: RunView; plan: Plan; selected: string | undefined; hrefOf: (id: string) => string }): JSX.Element {
  const now = useNow(Object.values(run.steps).some((each) => each.status === "running"));
  const graph = needs(plan);
  const parts = partsOf(run);
  return (
    <ol class="steps" onKeyDown={moveByArrows}>
      {plan.steps.map((step, index) => {
        const state = run.steps[step.id];
        const line = state?.error || (state?.status === "running" ? state.progress : "");
        const before = graph[step.id] ?? [];
        const round = roundText(run, step);
        const collected = collectedOf(run, step);
        return (
          <li key={step.id} class={`${selected?.split("/")[0] === step.id ? "on" : ""} ${step.disabled ? "off" : ""}`}>
            <a data-row href={hrefOf(step.id)} aria-current={selected === step.id ? "true" : undefined}>
              <span class="place">{index + 1}</span>
              <StepIcon status={state?.status ?? "waiting"} />
              <span class="what"><b>{stepName(step)}</b><small><code>{callee(step) || step.id}</code>{before.length > 0 && ` ← ${before.join(", ")}`}{round ? ` · ${round}` : parts.has(step.id) && ` · ${t("go.part", { count: parts.get(step.id)! })}`}</small>
                {collected > 0 && <small class="bad">{t("go.collected", { count: collected })}</small>}
                {line && <small class={state?.error && !skippedByPlan(state) ? "bad" : ""}>{line.slice(0, 300)}</small>}</span>
              <span class="chips"><EffectChip effect={effectShown(run, step.id)} />{state && <span class={`word s-${state.status}`}>{t(`step.${state.status}`)}</span>}<span class="time">{state && took(state, now)}</span></span>
            </a>
          </li>
        );
      })}
    </ol>
  );
}

// The plan itself says that a step is skipped if its condition does not hold: that is no failure.
const skippedByPlan = (state: StepView): boolean => state.rule === "when" || state.rule === "need";

// How many parts each map or plan step has, counted in one pass.
function partsOf(run: RunView): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of Object.keys(run.steps)) {
    const [step = "", part] = name.split("/");
    if (part !== undefined) counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  return counts;
}

// Reading is what most steps do; only what changes something is worth a mark here.
const effectShown = (run: RunView, step: string): "write" | "final" | undefined => {
  const effect = run.effects.by_step[step];
  return effect === "read" ? undefined : effect;
};

function took(state: StepView, now: number): string {
  if (!state.started_at || state.status === "waiting") return "";
  const end = state.finished_at ? Date.parse(state.finished_at) : now;
  const tries = state.attempts > 1 ? ` ×${state.attempts}` : "";
  return duration(Math.max(0, end - Date.parse(state.started_at)) / 1000) + tries;
}
