// No plan came of a request: what happened, and what can be done now. It is never shown as a plan.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isOver } from "../data/run";
import type { RunView } from "../data/types";
import { post, runPath } from "../live/api";
import { go, link } from "../route";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, useAction } from "../ui/parts";
import { currentLocale, t } from "../words/words";
import { ModelDialogLater } from "./modelline";

export const hasNoPlan = (run: RunView): boolean => isOver(run.status) && !run.plan && run.status === "failed";

// The same request as a new run.
export async function askAgain(run: RunView): Promise<void> {
  const made = await post<RunView>("/v1/runs", { request: run.request, mode: "review", locale: run.locale || currentLocale() });
  go(["runs", made.id]);
}

// What kind of failure it was, in plain words; the reason itself stands below.
function kindOf(run: RunView): "noplan.modelFailed" | "noplan.noSteps" | "noplan.rejected" | "noplan.unable" {
  const codes = new Set(run.problems.filter((each) => each.severity !== "note").map((each) => each.code));
  if (codes.has("PS015")) return "noplan.modelFailed";
  if (["PS001", "PS002", "PS004", "PS307"].some((each) => codes.has(each))) return "noplan.noSteps";
  return codes.size > 0 ? "noplan.rejected" : "noplan.unable";
}

export function NoPlan({ run }: { run: RunView }): JSX.Element {
  const action = useAction();
  const [choosing, setChoosing] = useState(false);
  const again = (): void => action.act(async () => go(["runs", (await post<RunView>(runPath(run.id, "/retry"))).id]));
  const reason = run.failure?.reason || run.reason;
  const others = run.problems.filter((each) => each.severity === "error" && !reason.includes(each.message));
  return (
    <section class="panel noplan" aria-labelledby="noplan-title">
      <div class="noplan-head"><span class="mark s-failed"><Icon name="failed" /></span><div><h2 id="noplan-title">{t("noplan.title")}</h2><p class="dim">{t("noplan.nothing")}</p></div></div>
      <p><b>{t(kindOf(run))}</b></p>
      <p class="noplan-why dim small">{reason}</p>
      {others.length > 0 && <ul class="problems">{others.map((each) => (
        <li key={each.code + each.message} class={each.severity}><Icon name={each.severity} /><span>{each.message}{each.hint && <small> {each.hint}</small>}</span></li>))}</ul>}
      <div class="actions">
        <Button kind="primary" icon="replanning" disabled={action.busy} onClick={again}>{t("go.planAgain")}</Button>
        <Button icon="running" onClick={() => setChoosing(true)}>{t("noplan.model")}</Button>
        <Button icon="planning" onClick={() => go(["runs", run.id, "plan"], { edit: "1" })}>{t("noplan.hand")}</Button>
        <a class="button quiet" href={link([], { request: run.request })}>{t("noplan.say")}</a>
      </div>
      <ErrorNote error={action.error} />
      {run.failure?.output && <details><summary>{t("noplan.wrote", { model: run.failure.model || t("app.unknown") })}</summary><pre class="json" tabIndex={0}>{run.failure.output}</pre></details>}
      {choosing && <ModelDialogLater onClose={() => setChoosing(false)} onChosen={() => { setChoosing(false); again(); }} />}
    </section>
  );
}

// A plan that only stands in for one: said above it, in plain words.
export function StandIn({ run }: { run: RunView }): JSX.Element | null {
  if (!run.stand_in || isOver(run.status)) return null;
  return <div class="note ask" role="alert"><Icon name="warning" /><div><b>{t("noplan.stand")}</b><p>{run.plan?.degraded}</p></div></div>;
}
