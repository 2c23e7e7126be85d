// Run: the same steps live, as graph, list, timeline or log, and afterwards as a film of all that.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isOver } from "../data/run";
import type { Event, RunView } from "../data/types";
import { useNow } from "../live/hooks";
import { useEvents } from "../live/journal";
import { link, parse, useRoute } from "../route";
import { Loading, Tabs } from "../ui/parts";
import { t } from "../words/words";
import { Changed } from "./changed";
import { StepInspector } from "./inspector";
import { Overview } from "./overview";
import { Side } from "./side";
import { StepOutput } from "./stepoutput";
import { LARGE } from "./steptext";

const MODES = ["both", "list", "graph", "timeline", "log", "replay"] as const;
type Mode = (typeof MODES)[number];
const FROM_EVENTS: ReadonlySet<Mode> = new Set(["timeline", "log", "replay"]);

// The graph by default, where it can be read: not on a phone, and not of a thousand steps.
function usualMode(steps: number): Mode {
  return steps > LARGE || innerWidth < 760 ? "list" : "both";
}

export function Running({ run, step, mode }: { run: RunView; step: string | undefined; mode: string | null }): JSX.Element {
  const plan = run.plan!;
  const there = MODES.filter((each) => each !== "replay" || isOver(run.status));
  const [usual] = useState(() => usualMode(plan.steps.length));
  const shows = there.find((each) => each === mode) ?? usual;
  const hrefOf = (id: string): string => link(["runs", run.id, "run", id], { view: mode ?? undefined });
  const selected = plan.steps.find((each) => each.id === step?.split("/")[0]);
  const events = useEvents(run.id, FROM_EVENTS.has(shows));
  return (
    <div class="running">
      {run.revisions > 1 && (run.replans > 0 || run.iterations > 0) && <Changed run={run} title={t("go.replanned")} />}
      <div class="line">
        <h2>{t("review.steps")} <span class="dim">{plan.steps.length}</span></h2>
        <Tabs small label={t("view.label")} current={shows} tabs={there.map((each) => (
          { id: each, name: t(`view.${each}`), href: link(["runs", run.id, "run", ...(step ? [step] : [])], { view: each }) }))} />
      </div>
      {plan.steps.length > LARGE && !mode && <p class="dim">{t("go.large", { count: plan.steps.length })}</p>}
      <div class={`split ${selected ? "picked" : ""}`}>
        <div class="main">
          {FROM_EVENTS.has(shows) ? <FromEvents shows={shows} run={run} events={events} step={step} hrefOf={hrefOf} /> : <Live shows={shows} run={run} step={step} hrefOf={hrefOf} />}
        </div>
        {selected && (
          <Side step={selected.id} closes={link(["runs", run.id, "run"], { view: mode ?? undefined })}>
            <StepInspector key={step} run={run} step={selected} part={step} />
            <StepOutput run={run} name={step ?? selected.id} />
          </Side>
        )}
      </div>
    </div>
  );
}

interface Shown { shows: Mode; run: RunView; step: string | undefined; hrefOf: (id: string) => string }

function Live({ shows, run, step, hrefOf }: Shown): JSX.Element {
  const now = useNow(Object.values(run.steps).some((each) => each.status === "running"));
  return <Overview run={run} step={step} hrefOf={hrefOf} now={now} parts={shows === "both" ? ["graph", "list"] : shows === "graph" ? ["graph"] : ["list"]} />;
}

interface Views {
  Timeline: ComponentType<{ run: RunView; events: Event[]; hrefOf: (step: string) => string }>;
  Log: ComponentType<{ run: RunView; events: Event[] }>;
  Replay: ComponentType<{ run: RunView; events: Event[]; step: string | undefined; at: string | null }>;
}

// Views of the whole journal come when they are opened.
async function loadViews(): Promise<Views> {
  const [{ TimelineView }, { LogView }, { Replay }] = await Promise.all([import("./timelineview"), import("./log"), import("./replay")]);
  return { Timeline: TimelineView, Log: LogView, Replay };
}

function FromEvents({ shows, run, events, step, hrefOf }: Shown & { events: Event[] }): JSX.Element {
  useRoute();
  const [views, setViews] = useState<Views>();
  useEffect(() => { void loadViews().then(setViews); }, []);
  // A run that is looked at has a journal: until that is here, nothing is known of it.
  if (!views || events.length === 0) return <Loading />;
  if (shows === "timeline") return <views.Timeline run={run} events={events} hrefOf={hrefOf} />;
  return shows === "log" ? <views.Log run={run} events={events} /> : <views.Replay run={run} events={events} step={step} at={parse(location.hash).query.get("at")} />;
}
