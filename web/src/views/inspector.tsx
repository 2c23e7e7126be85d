// The step inspector: arguments as written and as called, result, attempts, timing, model.

import type { JSX } from "preact";
import { needs } from "../data/graph";
import { isOver } from "../data/run";
import type { Exchange, Json, RunView, Step, StepDetail, StepView } from "../data/types";
import { post, runPath } from "../live/api";
import { useNow, useResource } from "../live/hooks";
import { StepFiles, StepResult, Result as Viewer } from "../results/later";
import { go, link } from "../route";
import { Button, ErrorNote, JsonBox, useAction } from "../ui/parts";
import { Prose } from "../ui/prose";
import { EffectChip, StepBadge } from "../ui/status";
import { moment, number, t } from "../words/words";
import { RuleList } from "./steplist";
import { callee, collectedOf, nameIn, roundText, stepName, titled } from "./steptext";
import { precise } from "./times";

export function StepInspector({ run, step, part }: { run: RunView; step: Step; part?: string }): JSX.Element {
  const name = part ?? step.id;
  const state = run.steps[name];
  const detail = useResource<StepDetail>(
    state ? runPath(run.id, `/steps/${encodeURIComponent(name)}`) : null,
    (event) => event.run === run.id && event.body["step"] === name && event.body.type !== "step_progressed", undefined, ["state", "resolved_inputs"],
  );
  const problems = run.problems.filter((each) => each.step === step.id);
  const before = run.plan ? needs(run.plan)[step.id] ?? [] : [];
  const parts = Object.keys(run.steps).filter((each) => each.startsWith(`${step.id}/`));
  return (
    <div class="inspector">
      <h3>{stepName(step)}</h3>
      <p class="facts">{state && (run.status === "reviewing" && !run.started_at ? state.result_hash && <span class="chip">{t("ahead.read")}</span> : <StepBadge status={state.status} />)}<span>{t(`kind.${step.kind}`)}</span><code>{callee(step) || step.id}</code><EffectChip effect={run.effects.by_step[step.id]} /></p>
      {step.why && <p class="dim">{step.why}</p>}
      {state && <StepActions run={run} name={name} state={state} />}
      {state?.reused_from && <p class="dim small">{t("inspect.reused", { at: moment(state.finished_at) })} <a href={link(["runs", state.reused_from])}>{t("go.original")}</a></p>}
      {state?.progress && state.status === "running" && <p><b>{t("inspect.progress")}:</b> {state.progress}</p>}
      <RuleList rules={run.rules[step.id]} />
      {roundText(run, step) && <p>{roundText(run, step)}</p>}
      {collectedOf(run, step) > 0 && <p class="bad">{t("go.collected", { count: collectedOf(run, step) })}</p>}
      {state?.rule === "when" || state?.rule === "need" ? <div class="note"><div><b>{t("inspect.skipped")}</b><p class="pre">{state.error}</p></div></div>
        : state?.error && <div class="note bad"><div><b>{t("inspect.error")}</b><p class="pre">{state.error}</p></div></div>}
      {problems.length > 0 && <section><h4>{t("inspect.problems")}</h4><ul>{problems.map((each, index) => <li key={index} title={each.code}><Prose text={titled(each.message, run.plan, step.id)} /></li>)}</ul></section>}
      {before.length > 0 && <section><h4>{t("inspect.needs")}</h4><p class="after">{before.map((each) => <a key={each} class="chip" href={link(["runs", run.id, "run", each])}>{nameIn(run.plan, each)}</a>)}</p></section>}
      <Arguments step={step} resolved={detail.value?.resolved_inputs ?? state?.inputs} />
      <Result run={run} name={name} state={state} whole={detail.value?.state} />
      {state?.status === "done" && run.effects.by_step[step.id] !== "read" && <StepFiles run={run} name={name} />}
      {parts.length > 0 && <section><h4>{t("inspect.parts")}</h4><ul class="parts">{parts.map((each) => <li key={each}><a href={link(["runs", run.id, "run", each])}>{each}</a> <StepBadge status={run.steps[each]!.status} /></li>)}</ul></section>}
      {state?.started_at && <Timing state={state} detail={detail.value} />}
      <ErrorNote error={detail.error} />
      <Exchanges exchanges={detail.value?.exchanges ?? []} />
    </div>
  );
}

function StepActions({ run, name, state }: { run: RunView; name: string; state: StepView }): JSX.Element {
  const action = useAction();
  const over = isOver(run.status);
  const skip = (): void => action.act(() => post(runPath(run.id, "/skip"), { step: name }));
  const from = (): void => action.act(async () => go(["runs", (await post<RunView>(runPath(run.id, "/retry"), { from_step: name })).id]));
  const open = state.status === "waiting" || state.status === "ready" || state.status === "asking";
  return (
    <div class="actions">
      {over && !name.includes("/") && <Button icon="replanning" disabled={action.busy} onClick={from}>{t("go.from")}</Button>}
      {over && !name.includes("/") && <Button icon="planning" onClick={() => go(["runs", run.id, "plan", name], { edit: "1" })}>{t("go.edit")}</Button>}
      {!over && open && run.running_hash && <Button icon="skipped" disabled={action.busy} onClick={skip}>{t("go.skip")}</Button>}
      <ErrorNote error={action.error} />
    </div>
  );
}

function Arguments({ step, resolved }: { step: Step; resolved: Json | undefined }): JSX.Element {
  const { id: _i, kind: _k, title: _t, why: _w, after: _a, disabled: _d, timeout_s: _s,
    when: _1, otherwise: _2, repeat: _3, on_error: _4, retry: _5, undo_with: _6, ...written } = step;
  const template = (step.kind === "tool" ? step.inputs ?? {} : written) as Json;
  const called = resolved !== undefined && resolved !== null;
  return (
    <section>
      <h4>{t("inspect.arguments")}</h4>
      {called && <><p class="dim small">{t("inspect.resolved")}</p><Viewer value={resolved} label={t("inspect.resolved")} /></>}
      <details open={!called}><summary>{t("inspect.template")}</summary><JsonBox value={template} label={t("inspect.template")} /></details>
    </section>
  );
}

function Result({ run, name, state, whole }: { run: RunView; name: string; state: StepView | undefined; whole: StepView | undefined }): JSX.Element | null {
  const best = whole?.result_hash && whole.result_hash === state?.result_hash ? whole : state;
  if (!best?.result_hash) return state?.started_at && !state.error ? <p class="dim">{t("inspect.noResult")}</p> : null;
  return (
    <section>
      <h4>{t("inspect.result")}</h4>
      <StepResult run={run} name={name} label={t("inspect.result")} value={best.result} size={best.result_size ?? 0} cut={best.clipped ?? false} />
    </section>
  );
}

function Timing({ state, detail }: { state: StepView; detail: StepDetail | undefined }): JSX.Element {
  const now = useNow(state.status === "running");
  const end = state.finished_at ? Date.parse(state.finished_at) : now;
  return (
    <section>
      <h4>{t("inspect.timing")}</h4>
      <dl class="pairs">
        <div><dt>{t("inspect.started")}</dt><dd>{moment(state.started_at)}</dd></div>
        {state.finished_at && <div><dt>{t("inspect.finished")}</dt><dd>{moment(state.finished_at)}</dd></div>}
        <div><dt>{t("inspect.took")}</dt><dd>{precise(Math.max(0, end - Date.parse(state.started_at!)))}</dd></div>
        {state.tokens > 0 && <div><dt>{t("inspect.tokens")}</dt><dd>{number(state.tokens)}</dd></div>}
        <div><dt>{t("inspect.attempts")}</dt><dd>{state.attempts}</dd></div>
      </dl>
      {(detail?.attempts.length ?? 0) > 1 && (
        <ol class="attempts">{detail!.attempts.map((each) => <li key={each.number}>{moment(each.started_at)} {each.error && <span class="bad">{each.error}</span>}</li>)}</ol>
      )}
    </section>
  );
}

function Exchanges({ exchanges }: { exchanges: Exchange[] }): JSX.Element | null {
  if (exchanges.length === 0) return null;
  return (
    <details>
      <summary>{t("inspect.model")}</summary>
      {exchanges.map((each, index) => (
        <section key={index}>
          {each.model && <p class="dim small">{each.model}</p>}
          <h4>{t("inspect.prompt")}</h4><JsonBox value={each.prompt} label={t("inspect.prompt")} />
          <h4>{t("inspect.output")}</h4><JsonBox value={each.output} label={t("inspect.output")} />
        </section>
      ))}
    </details>
  );
}
