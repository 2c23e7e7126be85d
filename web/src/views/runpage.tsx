// One run: its header, what it asks, and the part of it the address names or its status suggests.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isOver } from "../data/run";
import type { Draft, RunStatus, RunView } from "../data/types";
import { useNow, useRun } from "../live/hooks";
import type { LiveRun } from "../live/hooks";
import { link } from "../route";
import type { Route } from "../route";
import { Icon } from "../ui/icons";
import { ErrorNote, Head, Loading, Tabs } from "../ui/parts";
import { RunBadge } from "../ui/status";
import { setTitle } from "../ui/title";
import { duration, money, number, t } from "../words/words";
import { Controls } from "./controls";
import { FollowUp } from "./followup";
import { NoPlan, hasNoPlan } from "./noplan";
import { Planning } from "./planning";
import { Questions } from "./questions";
import type { ReviewProps } from "./review";
import { Running } from "./running";
import { endReason } from "./steptext";
import { precise, worked } from "./times";
import { Versions } from "./versions";

const TABS = ["plan", "run", "report", "versions"] as const;
export type TabName = (typeof TABS)[number];

// Where a person wants to be, given where the run stands.
export function tabFor(run: RunView): TabName {
  if (isOver(run.status)) return run.running_hash || run.report ? "report" : "plan";
  return run.running_hash || run.phase === "replanning" ? "run" : "plan";
}

export const RunScreen = ({ route }: { route: Route }): JSX.Element => <RunPage id={route.parts[1] ?? ""} route={route} />;

function RunPage({ id, route }: { id: string; route: Route }): JSX.Element {
  const run = useRun(id);
  const [stale, setStale] = useState(false);
  const view = run.value;
  useEffect(() => { if (view) setTitle(view.plan?.goal || view.request); }, [view?.plan?.goal, view?.request]);
  if (!view && run.error?.status === 404) {
    return <Head title={t("app.gone")}><a class="button" href={link(["runs"])}>{t("runs.title")}</a></Head>;
  }
  if (!view) return run.error ? <ErrorNote error={run.error} onRetry={run.reload} /> : <Loading />;
  // Said here, since the view in which someone decided too late is gone at once.
  const told = stale && <div class="note ask" role="alert"><Icon name="warning" /><p>{t("review.stale")}</p></div>;
  const named = TABS.find((each) => each === route.parts[2]);
  const tab = named ?? tabFor(view);
  return (
    <div class="run">
      <RunHead run={view} drafts={run.drafts} reload={run.reload} />
      {run.error && <ErrorNote error={run.error} onRetry={run.reload} />}
      {told}
      {view.damage && <div class="note ask" role="alert"><Icon name="warning" /><div><p>{t("run.damaged")}</p><p class="dim">{view.damage}</p></div></div>}
      <Questions run={view} onAnswered={run.reload} />
      <Planning run={view} drafts={run.drafts} />
      {hasNoPlan(view) && route.query.get("edit") !== "1" && <NoPlan run={view} />}
      {(view.plan || (isOver(view.status) && !hasNoPlan(view)) || route.query.get("edit") === "1") && (
        <>
          <RunTabs run={view} tab={tab} />
          <Part run={run} view={view} tab={tab} route={route} onStale={() => setStale(true)} />
        </>
      )}
      {!view.damage && <FollowUp key={id} run={view} reload={run.reload} />}
    </div>
  );
}

function RunTabs({ run, tab }: { run: RunView; tab: TabName }): JSX.Element {
  const there = TABS.filter((each) =>
    each === "plan" ? run.plan || hasNoPlan(run) : each === "run" ? run.running_hash || (run.status !== "reviewing" && Object.values(run.steps).some((step) => step.started_at)) || run.started_at
      : each === "report" ? isOver(run.status) : run.revisions > 1);
  return <Tabs label={t("tab.label")} current={tab} tabs={there.map((each) => ({ id: each, name: t(`tab.${each}`), href: link(["runs", run.id, each]) }))} />;
}

function Part({ run, view, tab, route, onStale }: { run: LiveRun; view: RunView; tab: TabName; route: Route; onStale: () => void }): JSX.Element | null {
  const step = route.parts[3];
  if (tab === "report") return <ReportLater run={view} />;
  if (tab === "run") return <Running run={view} step={step} mode={route.query.get("view")} />;
  if (tab === "versions") return <Versions run={view} route={route} />;
  return view.plan || hasNoPlan(view) ? <ReviewLater run={view} reload={run.reload} onStale={onStale} step={step} mode={route.query.get("view")} /> : null;
}

// Who only reads a report or looks at a run needs no editor.
function ReviewLater(props: ReviewProps): JSX.Element {
  const [view, setView] = useState<{ Review: ComponentType<ReviewProps> }>();
  useEffect(() => { void import("./review").then(({ Review }) => setView({ Review })); }, []);
  return view ? <view.Review {...props} /> : <Loading />;
}

// The report brings a Markdown reader with it, which nothing else needs.
function ReportLater({ run }: { run: RunView }): JSX.Element {
  const [view, setView] = useState<{ Report: ComponentType<{ run: RunView }> }>();
  useEffect(() => { void import("./report").then(({ Report }) => setView({ Report })); }, []);
  return view ? <view.Report run={run} /> : <Loading />;
}

// Triage is journaled together with the plan; until then drafts tell that it is over.
function shownStatus(run: RunView, drafts: Draft[]): RunStatus {
  const drafting = drafts.some((draft) => draft.phase !== "triage");
  return run.status === "triaging" && drafting ? "planning" : run.status;
}

function RunHead({ run, drafts, reload }: { run: RunView; drafts: Draft[]; reload: () => void }): JSX.Element {
  const over = isOver(run.status);
  const now = useNow(!over && run.status !== "reviewing" && run.status !== "asking");
  const end = over ? Date.parse(run.updated_at) : now;
  const steps = Object.entries(run.steps).filter(([name]) => !name.includes("/")).map(([, step]) => step.status);
  const count = (status: string): number => steps.filter((each) => each === status).length;
  const goal = run.plan?.goal || run.request;
  const elapsed = worked(run, now, over) ?? Math.max(0, end - Date.parse(run.created_at));
  return (
    <header class="run-head">
      <div class="line">
        <h1>{goal}</h1>
        <Controls run={run} reload={reload} />
      </div>
      {run.request && run.request !== goal && <p class="request">{run.request}</p>}
      <ul class="facts" aria-live="off">
        <li><RunBadge status={shownStatus(run, drafts)} /></li>
        {run.running_hash && <li>{t("go.done", { done: count("done"), total: steps.length })}</li>}
        {run.previewing && <li>{t("ahead.making")}</li>}
        {run.started_at && count("running") > 0 && <li>{t("go.running", { count: count("running") })}</li>}
        {run.started_at && count("failed") > 0 && <li class="bad">{t("go.failed", { count: count("failed") })}</li>}
        {elapsed >= 1 && <li title={t("go.elapsedWhy", { time: duration(Math.max(0, (end - Date.parse(run.created_at)) / 1000)) })}>{precise(elapsed)}</li>}
        {run.tokens > 0 && <li>{number(run.tokens)} {t("usage.tokens")}</li>}
        {Number(run.cost_usd) > 0 && <li>{money(run.cost_usd)}</li>}
        {run.conversation && <li><a href={link(["conversations", run.conversation])}>{t("talk.of")}</a></li>}
        {run.origin.kind === "undo" && <li><a href={link(["runs", run.origin.id ?? ""])}>{t("go.takesBack")}</a></li>}
        {run.origin.kind === "run" && <li><a href={link(["runs", run.origin.id ?? ""])}>{t("go.original")}</a></li>}
      </ul>
      {run.reason && !hasNoPlan(run) && (over || run.paused || run.cancel_asked) && <p class="reason">{endReason(run)}</p>}
    </header>
  );
}
