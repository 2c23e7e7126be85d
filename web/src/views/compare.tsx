// Two runs side by side: their plans, what each step came to, what they cost and what they answered.

import type { ComponentChildren, JSX } from "preact";
import { comparedSteps, seconds, tookOf } from "../data/comparison";
import type { ComparedStep } from "../data/comparison";
import { shown } from "../data/json";
import type { RunView, StepView } from "../data/types";
import { runPath } from "../live/api";
import { useResource } from "../live/hooks";
import { link } from "../route";
import type { Route } from "../route";
import { Head, Shown } from "../ui/parts";
import { RunBadge, StepBadge } from "../ui/status";
import { duration, moment, number, spent, t } from "../words/words";
import { DiffView } from "./diffview";
import { AnswerOf } from "./report";
import { stepName } from "./steptext";
import "../styles/desk.css";

const LONGEST = 4000;

export function CompareView({ route }: { route: Route }): JSX.Element {
  const [, one = "", other = ""] = route.parts;
  const left = useResource<RunView>(one ? runPath(one) : null);
  const right = useResource<RunView>(other ? runPath(other) : null);
  return (
    <>
      <p><a href={link(["runs"])}>← {t("runs.title")}</a></p>
      <Head title={t("desk.compareTitle")} lead={t("desk.compareLead")} />
      {!one || !other ? <p class="dim">{t("desk.compareTwo")}</p>
        : <Shown of={left}>{(first) => <Shown of={right}>{(second) => <Both left={first} right={second} />}</Shown>}</Shown>}
    </>
  );
}

function Both({ left, right }: { left: RunView; right: RunView }): JSX.Element {
  const steps = comparedSteps(left, right);
  const different = steps.filter((each) => each.differs).length;
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={t("desk.compareTitle")}>
        <table class="compare">
          <thead><tr><td></td>{[left, right].map((run) => <th key={run.id} scope="col"><a href={link(["runs", run.id])}>{run.plan?.goal || run.request}</a></th>)}</tr></thead>
          <tbody>
            <Row name={t("runs.filter")} of={[left, right]}>{(run) => <RunBadge status={run.status} />}</Row>
            <Row name={t("desk.began")} of={[left, right]}>{(run) => moment(run.created_at)}</Row>
            <Row name={t("desk.stepsTook")} of={[left, right]}>{(run) => duration(tookOf(run))}</Row>
            <Row name={t("review.tokens")} of={[left, right]}>{(run) => number(run.tokens)}</Row>
            <Row name={t("review.cost")} of={[left, right]}>{(run) => spent(run)}</Row>
            <tr class="part"><th colSpan={3} scope="rowgroup">{t("review.steps")} <span class="dim">{different ? t("desk.different", { count: different }) : t("desk.alike")}</span></th></tr>
            {steps.map((each) => <StepRow key={each.id} step={each} />)}
          </tbody>
        </table>
      </div>
      {left.plan && right.plan && <section><h2>{t("desk.plans")}</h2><h3 class="unseen">{t("review.steps")}</h3><DiffView before={left.plan} after={right.plan} /></section>}
      {(left.report || right.report) && (
        <section><h2>{t("report.answer")}</h2>
          <div class="sides">{[left, right].map((run) => <div key={run.id}><AnswerOf run={run} /></div>)}</div></section>
      )}
    </>
  );
}

function Row({ name, of, children }: { name: string; of: RunView[]; children: (run: RunView) => ComponentChildren }): JSX.Element {
  return <tr><th scope="row">{name}</th>{of.map((run) => <td key={run.id}>{children(run)}</td>)}</tr>;
}

function StepRow({ step }: { step: ComparedStep }): JSX.Element {
  return (
    <tr class={step.differs ? "differs" : ""}>
      <th scope="row">{stepName(step.step)}{step.differs && <small>{t(`desk.differs.${step.differs}`)}</small>}</th>
      {[step.left, step.right].map((state, at) => <td key={at}><Side state={state} whole={step.differs === "result"} /></td>)}
    </tr>
  );
}

function Side({ state, whole }: { state: StepView | undefined; whole: boolean }): JSX.Element {
  if (!state) return <span class="dim">–</span>;
  const took = seconds(state);
  const text = shown(state.result, 1);
  return (
    <>
      <StepBadge status={state.status} /> <span class="dim small">{took === undefined ? "" : duration(took)}</span>
      {state.error && <p class="small bad">{state.error}</p>}
      {whole && text && <details><summary>{t("inspect.result")}</summary><pre class="json">{text.slice(0, LONGEST)}{text.length > LONGEST ? "…" : ""}</pre></details>}
    </>
  );
}
