// One thing that waits, decided in its place: the plan as it is approved, or the question itself.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { InboxItem, RunView } from "../data/types";
import { post, runPath } from "../live/api";
import { useResource } from "../live/hooks";
import { approvalOf, usePreview } from "../live/preview";
import { PlanPreview } from "../results/later";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, ErrorNote, Shown, useAction } from "../ui/parts";
import { Prose } from "../ui/prose";
import { duration, money, t } from "../words/words";
import { BriefSteps } from "./briefsteps";
import { Questions } from "./questions";
import { titled } from "./steptext";
import { scheduleRun, timesOf } from "./timing";

// A longer plan is looked at on its own page.
const MOST = 12;

export function DecideHere({ item, onDecided }: { item: InboxItem; onDecided: () => void }): JSX.Element {
  const run = item.run ?? "";
  if (item.question) return <div class="here"><Questions run={{ id: run, questions: [item.question] }} onAnswered={onDecided} /></div>;
  return <div class="here"><PlanHere run={run} onDecided={onDecided} /></div>;
}

// It is not read again while it is shown, but for a preview: what is approved is what stands here, by its hash.
function PlanHere({ run, onDecided }: { run: string; onDecided: () => void }): JSX.Element {
  const view = useResource<RunView>(runPath(run), (event) => event.run === run && event.body.type.startsWith("preview_"));
  return <Shown of={view}>{(value) => <Plan view={value} reload={view.reload} onDecided={onDecided} />}</Shown>;
}

function Plan({ view, reload, onDecided }: { view: RunView; reload: () => void; onDecided: () => void }): JSX.Element {
  const action = useAction();
  const [stale, setStale] = useState(false);
  const [sure, setSure] = useState(false);
  const { plan } = view;
  const { shown, error } = usePreview(view);
  const decide = (body: Record<string, unknown>): void => act(() => post(runPath(view.id, "/decision"), body));
  const act = (work: () => Promise<unknown>): void => action.act(async () => {
    try {
      await work();
    } catch (error) {
      if ((error as { status?: number }).status !== 409) throw error;
      setStale(true);
      reload();
      return;
    }
    onDecided();
  });
  const open = <a class="button" href={link(["runs", view.id])}>{t("desk.openPlan")}</a>;
  if (view.status !== "reviewing" || !plan || !view.hash) return <div class="line"><p class="dim">{t("desk.decided")}</p>{open}</div>;
  const why = refusal(view);
  const times = timesOf(plan);
  const approving = { disabled: action.busy || Boolean(why) || (view.preview !== null && !shown), ...(why ? { describedBy: `why-${view.id}` } : {}) };
  return (
    <>
      {stale && <div class="note ask" role="alert"><Icon name="warning" /><p>{t("review.stale")}</p></div>}
      {view.review?.reasons.length ? <p class="dim small">{t("review.why")}: <Prose text={view.review.reasons.map((each) => titled(each, plan)).join(" · ")} /></p> : null}
      {plan.steps.length <= MOST && <BriefSteps plan={plan} effects={view.effects} />}
      {view.preview && <PlanPreview run={view} shown={shown} error={error} />}
      {times.length > 0 && <p><b>{t("schedules.when")}:</b> {times.join(" · ")}</p>}
      <p class="dim small">{facts(view)}</p>
      {why && <p class="small bad" id={`why-${view.id}`}>{why}</p>}
      <ErrorNote error={action.error} />
      <div class="actions">
        {times.length > 0 && <Button kind="primary" icon="schedules" {...approving} onClick={() => act(() => scheduleRun(view))}>{t("review.schedule")}</Button>}
        <Button kind={times.length ? "plain" : "primary"} icon="done" {...approving} onClick={() => decide(approvalOf(view, shown))}>{t(times.length ? "review.once" : "review.approve")}</Button>
        <Button disabled={action.busy} onClick={() => setSure(true)}>{t("review.discard")}</Button>
        {open}
      </div>
      {sure && <Confirm title={t("review.discardSure")} yes={t("review.discard")} onNo={() => setSure(false)} onYes={() => { setSure(false); decide({ reject: true }); }} />}
    </>
  );
}

function refusal(view: RunView): string {
  if (view.cannot_approve) return view.cannot_approve;
  if (view.stand_in || view.plan?.degraded) return t("desk.standIn");
  if (view.problems.some((each) => each.severity === "error")) return t("review.hasErrors");
  return view.plan && view.plan.steps.length > MOST ? t("desk.tooLong", { count: view.plan.steps.length }) : "";
}

function facts(view: RunView): string {
  const { effects, estimate } = view;
  return [
    t("review.reads", { count: effects.read }),
    effects.write + effects.final > 0 ? t("review.writes", { count: effects.write + effects.final }) : t("review.noEffects"),
    effects.final > 0 && t("review.finals", { count: effects.final }),
    effects.hosts.length > 0 && t("review.hosts", { hosts: effects.hosts.join(", ") }),
    estimate && duration(estimate.seconds),
    estimate?.cost_usd && Number(estimate.cost_usd) > 0 && money(estimate.cost_usd),
    `${t("review.folder")}: ${view.folder || t("app.unknown")}`,
  ].filter(Boolean).join(" · ");
}
