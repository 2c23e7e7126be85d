// Review: what the plan would do, the editor, and the decision, which is bound to the plan's hash.

import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { readable } from "../data/json";
import { isOver } from "../data/run";
import type { Checked, Plan, Problem, RunView } from "../data/types";
import { ApiError, post, runPath } from "../live/api";
import { go, link, useRoute } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, ErrorNote, Field, Grow, Tabs, useAction } from "../ui/parts";
import { Origin } from "../ui/status";
import { VirtualList } from "../ui/virtual";
import { duration, moment, money, number, short, t } from "../words/words";
import { Changed } from "./changed";
import { DiffView } from "./diffview";
import { mayEdit, useEditor } from "./editing";
import type { Editor } from "./editing";
import { Graph } from "./graph";
import { StepInspector } from "./inspector";
import { Side } from "./side";
import { StepForm } from "./stepform";
import { AddStep, StepList } from "./steplist";
import { LARGE, flagOf } from "./steptext";

interface Props { run: RunView; reload: () => void; onStale: () => void; step: string | undefined; mode: string | null }

export function Review({ run, reload, onStale, step, mode }: Props): JSX.Element {
  const route = useRoute();
  const again = isOver(run.status) && route.query.get("edit") === "1";
  const editor = useEditor(run, run.plan!, reload);
  const editable = again || mayEdit(run);
  const { plan, checked } = editor;
  const large = plan.steps.length > LARGE;
  const shows = mode === "graph" || mode === "list" ? mode : "list";
  const keep = { view: mode ?? undefined, edit: again ? "1" : undefined };
  const hrefOf = (id: string): string => link(["runs", run.id, "plan", id], keep);
  const selected = plan.steps.find((each) => each.id === step);
  const select = (id: string | undefined): void => go(["runs", run.id, "plan", ...(id ? [id] : [])], keep, true);
  return (
    <div class="review">
      {run.status === "reviewing" && (run.review?.reasons.length ?? 0) > 0 && (
        <div class="note ask"><Icon name="reviewing" /><div><b>{t("review.why")}</b><ul>{run.review!.reasons.map((each) => <li key={each}>{each}</li>)}</ul></div></div>
      )}
      <Before run={run} />
      {run.status === "reviewing" && run.revisions > 1 && !editor.dirty && <Changed run={run} title={t("diff.title")} />}
      <Summary plan={plan} checked={checked} folder={run.folder} />
      <Problems problems={checked.problems} hrefOf={hrefOf} />
      {editable && (editor.dirty || editor.redo || again) && <EditBar editor={editor} saved={run.plan!} again={again} />}
      <div class="line">
        <h2>{t("review.steps")} <span class="dim">{plan.steps.length}</span></h2>
        <span class="grow" />
        {editable && !again && !editor.dirty && run.revisions > 1 && <Revert run={run} reload={reload} />}
        <Tabs small label={t("view.label")} current={shows} tabs={(["list", "graph"] as const).map((each) => (
          { id: each, name: t(`view.${each}`), href: link(["runs", run.id, "plan", ...(step ? [step] : [])], { ...keep, view: each }) }))} />
      </div>
      {large && !mode && <p class="dim">{t("go.large", { count: plan.steps.length })}</p>}
      <div class={`split ${selected ? "picked" : ""}`}>
        <div class="main">
          {shows === "graph"
            ? <Graph plan={plan} selected={step} hrefOf={hrefOf} effectOf={(id) => checked.effects.by_step[id]} flagOf={(id) => flagOf(checked.problems, id)}
                notesOf={(id) => checked.rules[id] ?? []}
                critical={new Set(checked.estimate?.critical_path ?? [])} />
            : <StepList plan={plan} selected={step} hrefOf={hrefOf} checked={checked} />}
          {editable && <AddStep editor={editor} onAdded={select} />}
          <p class="legend">{t("review.origins")}: <Origin origin="request" /> <Origin origin="person" /> <Origin origin="model" /> <Origin origin="step:…" /> <Origin origin="default" /></p>
        </div>
        {selected && (
          <Side step={selected.id} closes={link(["runs", run.id, "plan"], keep)}>
            {editable ? <StepForm key={selected.id} step={selected} editor={editor} saved={run.plan!} onSelect={select} />
              : <StepInspector run={run} step={selected} />}
          </Side>
        )}
      </div>
      {run.status === "reviewing" && run.approved !== run.hash && <Decision run={run} editor={editor} reload={reload} onStale={onStale} />}
    </div>
  );
}

// What happened before anybody was asked: results taken over, and reads made early.
function Before({ run }: { run: RunView }): JSX.Element | null {
  const taken = Object.values(run.steps).filter((step) => step.reused_from).length;
  if (isOver(run.status) || (taken === 0 && run.prefetches.length === 0)) return null;
  const total = run.plan!.steps.filter((step) => !step.disabled).length;
  return (
    <div class="note"><Icon name="done" /><div>
      {taken > 0 && <p>{t("go.continueWhy", { done: taken, total })} <a href={link(["runs", run.origin.id ?? ""])}>{t("go.original")}</a></p>}
      {run.prefetches.length > 0 && <><p>{t("review.readEarly")}</p><ul>{run.prefetches.map((each) => (
        <li key={each.key}><code>{each.tool}</code> {readable(each.inputs ?? null)} <small class="dim">{moment(each.started_at)} {each.error}</small></li>))}</ul></>}
    </div></div>
  );
}

function Summary({ plan, checked, folder }: { plan: Plan; checked: Checked; folder: string }): JSX.Element {
  const { effects, estimate } = checked;
  // A plan that has just come in is shown before the server has told what it does.
  const parts = !checked.hash ? [t("edit.checking")] : [
    effects.read > 0 && t("review.reads", { count: effects.read }),
    effects.write > 0 && t("review.writes", { count: effects.write }),
    effects.final > 0 && t("review.finals", { count: effects.final }),
    effects.write + effects.final === 0 && t("review.noEffects"),
  ].filter(Boolean);
  const assumptions = plan.assumptions ?? [];
  return (
    <dl class="summary">
      <div><dt>{t("review.effects")}</dt>
        <dd class={effects.final ? "final" : effects.write ? "write" : ""}>{parts.join(" · ")}{effects.hosts.length > 0 && <small>{t("review.hosts", { hosts: effects.hosts.join(", ") })}</small>}</dd></div>
      {estimate && <div><dt>{t("review.time")}</dt><dd>{duration(estimate.seconds)}</dd></div>}
      {estimate && <div><dt>{t("review.cost")}</dt><dd>{money(estimate.cost_usd)}<small>{number(estimate.tokens)} {t("usage.tokens")}</small></dd></div>}
      {estimate && estimate.basis.length > 0 && <div class="basis"><dt>{t("review.basis")}</dt><dd>{estimate.basis.join(" · ")}</dd></div>}
      {folder && <div class="wide"><dt>{t("review.folder")}</dt><dd><code>{folder}</code></dd></div>}
      <div class="wide"><dt>{t("review.assumptions")}</dt>
        <dd>{assumptions.length ? <ul>{assumptions.map((each) => <li key={each}>{each}</li>)}</ul> : <span class="dim">{t("review.noAssumptions")}</span>}</dd></div>
    </dl>
  );
}

// Worst first is how they come; a thousand of them would push the plan off the screen.
const FEW = 20;

function Problems({ problems, hrefOf }: { problems: Problem[]; hrefOf: (step: string) => string }): JSX.Element {
  const [all, setAll] = useState(false);
  if (problems.length === 0) return <p class="good small"><Icon name="done" />{t("review.noProblems")}</p>;
  return (
    <section class="problems" aria-label={t("review.problems")} aria-live="polite">
      <VirtualList as="ul" items={all ? problems : problems.slice(0, FEW)} keyOf={(_, index) => String(index)} guess={38}>
        {(each, _, { key, ...row }) => (
          <li key={key} {...row} class={each.severity}>
            <Icon name={each.severity} title={each.severity} />
            <span><code>{each.code}</code> {each.step && <a href={hrefOf(each.step)}>{each.step}</a>} {each.message}{each.hint && <small> {each.hint}</small>}</span>
          </li>
        )}
      </VirtualList>
      {!all && problems.length > FEW && <div class="actions"><Button kind="quiet" onClick={() => setAll(true)}>{t("preview.all", { count: problems.length })}</Button></div>}
    </section>
  );
}

function Revert({ run, reload }: { run: RunView; reload: () => void }): JSX.Element {
  const action = useAction();
  const revert = (): void => action.act(async () => { await post(runPath(run.id, "/undo")); reload(); });
  return <><Button kind="quiet" icon="undo" disabled={action.busy} onClick={revert}>{t("edit.revert")}</Button><ErrorNote error={action.error} /></>;
}

function EditBar({ editor, saved, again }: { editor: Editor; saved: Plan; again: boolean }): JSX.Element {
  const action = useAction();
  const errors = editor.checked.problems.some((each) => each.severity === "error");
  const retry = (): void => action.act(async () => go(["runs", (await editor.retry()).id]));
  return (
    <div class={`editbar ${editor.dirty ? "dirty" : ""}`}>
      <div class="actions">
        {editor.dirty && <b role="status">{editor.checking ? t("edit.checking") : t("edit.unsaved")}</b>}
        <Button kind="quiet" icon="undo" disabled={!editor.undo} onClick={() => editor.undo?.()}>{t("edit.undo")}</Button>
        <Button kind="quiet" icon="redo" disabled={!editor.redo} onClick={() => editor.redo?.()}>{t("edit.redo")}</Button>
        {editor.dirty && <Button kind="quiet" onClick={editor.drop}>{t("edit.drop")}</Button>}
        <span class="grow" />
        {again ? <Button kind="primary" disabled={action.busy || errors} onClick={retry}>{t("edit.retry")}</Button>
          : editor.dirty && <Button kind="primary" disabled={action.busy || editor.checking || errors} onClick={() => action.act(editor.save)}>{t("edit.save")}</Button>}
      </div>
      {editor.restored && <p class="dim small">{t("edit.kept")}</p>}
      {editor.outdated && !again && <p class="bad small" role="alert">{t("edit.outdated")}</p>}
      <ErrorNote error={editor.failed} />
      <ErrorNote error={action.error} />
      {editor.dirty && <details><summary>{t("diff.edits")}</summary><DiffView before={saved} after={editor.plan} /></details>}
    </div>
  );
}

// Approving is this button and nothing else: it names the hash it approves.
function Decision({ run, editor, reload, onStale }: { run: RunView; editor: Editor; reload: () => void; onStale: () => void }): JSX.Element {
  const action = useAction();
  const [text, setText] = useState("");
  const [asking, setAsking] = useState(false);
  const [sure, setSure] = useState(false);
  const why = useId();
  const send = (body: Record<string, unknown>): void => action.act(async () => {
    try {
      await post(runPath(run.id, "/decision"), body);
      // The address without a part follows the run: to its steps, or to the next plan.
      go(["runs", run.id]);
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) onStale();
      throw error;
    } finally {
      reload();
    }
  });
  const errors = run.problems.some((each) => each.severity === "error");
  const barred = run.cannot_approve ?? "";
  const reason = barred ? barred : editor.dirty ? t("review.saveFirst") : errors ? t("review.hasErrors") : t("review.approveHash", { hash: short(run.hash) });
  return (
    <section class="decision" aria-label={t("review.title")}>
      <ErrorNote error={action.error} />
      <div class="actions">
        <Button kind="primary" icon="done" describedBy={why} disabled={action.busy || editor.dirty || errors || !run.hash || barred !== ""}
          onClick={() => send({ approve: run.hash })}>{t("review.approve")}</Button>
        <span id={why} class="dim small">{reason}</span>
        <a class="button quiet" href={link(["schedules", "new"], { run: run.id })}>{t("report.schedule")}</a>
        <Button icon="planning" onClick={() => setAsking(!asking)}>{t("review.changes")}</Button>
        <Button kind="danger" icon="remove" disabled={action.busy} onClick={() => setSure(true)}>{t("review.discard")}</Button>
      </div>
      {asking && (
        <div class="changes">
          <Field label={t("review.changesLabel")}>{(id) => <Grow id={id} rows={2} value={text} onInput={setText} />}</Field>
          <Button kind="primary" disabled={action.busy || !text.trim()} onClick={() => { send({ changes: text.trim() }); setText(""); setAsking(false); }}>{t("review.changesSend")}</Button>
        </div>
      )}
      {sure && <Confirm title={t("review.discardSure")} yes={t("review.discard")} onNo={() => setSure(false)} onYes={() => { setSure(false); send({ reject: true }); }} />}
    </section>
  );
}
