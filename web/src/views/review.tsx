// Review: the plan at a glance, its steps as list and graph, the editor, and the decision.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { isOver } from "../data/run";
import type { Plan, PlanVersion, RunView } from "../data/types";
import { usePreview } from "../live/preview";
import { PlanPreview } from "../results/later";
import { link, go, useRoute } from "../route";
import { Icon } from "../ui/icons";
import { Tabs } from "../ui/parts";
import { t } from "../words/words";
import { Decision } from "./decision";
import { EditBar, Revert } from "./editbar";
import { mayEdit, planOf, useEditor } from "./editing";
import type { Editor } from "./editing";
import { Graph } from "./graph";
import { Hero } from "./hero";
import { StepInspector } from "./inspector";
import { StandIn } from "./noplan";
import { Side } from "./side";
import { StepForm } from "./stepform";
import { AddStep, StepList } from "./steplist";
import { LARGE, flagOf } from "./steptext";
import { Cause, usePlans } from "./versions";

export interface ReviewProps { run: RunView; reload: () => void; onStale: () => void; step: string | undefined; mode: string | null }
const VIEWS = ["list", "both", "graph"] as const;
type View = (typeof VIEWS)[number];

export function Review({ run, reload, onStale, step, mode }: ReviewProps): JSX.Element {
  const route = useRoute();
  const again = isOver(run.status) && route.query.get("edit") === "1";
  const saved = useMemo(() => planOf(run), [run.plan, run.failure]);
  const editor = useEditor(run, saved, reload);
  const editable = again || mayEdit(run);
  const wide = useWide();
  const { plan, checked } = editor;
  const large = plan.steps.length > LARGE;
  const shows = VIEWS.find((each) => each === mode && (wide || each !== "both")) ?? (wide && !large && plan.steps.length > 1 ? "both" : "list");
  const keep = { view: mode ?? undefined, edit: again ? "1" : undefined };
  const selected = plan.steps.find((each) => each.id === step);
  const select = (id: string | undefined): void => go(["runs", run.id, "plan", ...(id ? [id] : [])], keep, true);
  const earlier = useEarlier(run, editor);
  const preview = usePreview(run);
  const decides = run.status === "reviewing" && run.approved !== run.hash;
  const tabs = VIEWS.filter((each) => each !== "both" || wide).map((each) => (
    { id: each, name: t(each === "both" ? "hero.both_views" : `view.${each}`), href: link(["runs", run.id, "plan", ...(step ? [step] : [])], { ...keep, view: each }) }));
  return (
    <div class={`review ${wide ? "wide" : ""}`}>
      <StandIn run={run} />
      <Before run={run} />
      {earlier?.last.cause && <div class="note change"><Cause version={earlier.last} before={earlier.before} /><p><a href={link(["runs", run.id, "versions"])}>{t("tab.versions")}</a></p></div>}
      <Hero run={run} plan={plan} checked={checked}>
        {editable && !again && !editor.dirty && run.revisions > 1 && <Revert run={run} reload={reload} />}
        <Tabs small label={t("view.label")} current={shows} tabs={tabs} />
      </Hero>
      {editable && (editor.dirty || editor.redo || again) && <EditBar editor={editor} again={again} fresh={run.plan === null} />}
      {decides && !editor.dirty && <PlanPreview run={run} shown={preview.shown} error={preview.error} />}
      {large && !mode && <p class="dim">{t("go.large", { count: plan.steps.length })}</p>}
      <Steps run={run} editor={editor} editable={editable} shows={shows} step={step} picked={selected !== undefined}
        before={editor.dirty ? saved : earlier?.before.plan} hrefOf={(id) => link(["runs", run.id, "plan", id], keep)} onSelect={select}>
        {selected && (
          <Side step={selected.id} closes={link(["runs", run.id, "plan"], keep)}>
            {editable ? <StepForm key={selected.id} run={run} step={selected} editor={editor} saved={saved} onSelect={select} />
              : <StepInspector run={run} step={selected} />}
          </Side>
        )}
      </Steps>
      {decides && <Decision run={run} editor={editor} preview={preview.shown} reload={reload} onStale={onStale} />}
    </div>
  );
}

interface StepsProps {
  run: RunView; editor: Editor; editable: boolean; shows: View; step: string | undefined; picked: boolean; before: Plan | undefined;
  hrefOf: (id: string) => string; onSelect: (id: string | undefined) => void; children: JSX.Element | undefined;
}

function Steps({ editor, editable, shows, step, picked, before, hrefOf, onSelect, children }: StepsProps): JSX.Element {
  const { plan, checked } = editor;
  const graph = (
    <Graph plan={plan} selected={step} hrefOf={hrefOf} effectOf={(id) => checked.effects.by_step[id]} flagOf={(id) => flagOf(checked.problems, id)}
      notesOf={(id) => checked.rules[id] ?? []} critical={new Set(checked.estimate?.critical_path ?? [])} />
  );
  return (
    <div class={`split ${picked ? "picked" : shows === "both" ? "paired" : ""}`}>
      <div class="main">
        <h2 class="unseen">{t("review.steps")}</h2>
        {shows === "graph" ? graph : <StepList plan={plan} selected={step} hrefOf={hrefOf} checked={checked} before={before} editor={editable ? editor : undefined} />}
        {editable && <AddStep editor={editor} onAdded={onSelect} />}
      </div>
      {children}
      {shows === "both" && !picked && <div class="beside">{graph}</div>}
    </div>
  );
}

// The plan before the last revision, and why there is a new one: only while the new one is looked at.
function useEarlier(run: RunView, editor: Editor): { before: PlanVersion; last: PlanVersion } | undefined {
  const shows = run.status === "reviewing" && run.revisions > 1 && !editor.dirty;
  const plans = usePlans(run, shows);
  const versions = shows && plans.value ? plans.value : [];
  const [before, last] = [versions.at(-2), versions.at(-1)];
  return before && last ? { before, last } : undefined;
}

// Wide enough for the list and the graph side by side.
function useWide(): boolean {
  const [wide, setWide] = useState(() => matchMedia("(min-width: 1440px)").matches);
  useEffect(() => {
    const query = matchMedia("(min-width: 1440px)");
    const changed = (): void => setWide(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return wide;
}

// What happened before anybody was asked: results taken over.
function Before({ run }: { run: RunView }): JSX.Element | null {
  const taken = Object.values(run.steps).filter((step) => step.reused_from).length;
  if (!run.plan || isOver(run.status) || taken === 0) return null;
  const total = run.plan.steps.filter((step) => !step.disabled).length;
  return (
    <div class="note"><Icon name="done" /><div>
      <p>{t("go.continueWhy", { done: taken, total })} <a href={link(["runs", run.origin.id ?? ""])}>{t("go.original")}</a></p>
    </div></div>
  );
}
