// Report: the answer first, then evidence step by step, and what to do with it next.

import type { ComponentType, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json, RunView, StepDetail, StepStatus } from "../data/types";
import { keyed, post, runPath } from "../live/api";
import { useResource } from "../live/hooks";
import { endsRun } from "../live/wakes";
import { FileList, FilesError, Pictures, useFiles } from "../results/files";
import { Markdown } from "../results/markdown";
import { StepResult, sourcesOf } from "../results/stepresult";
import type { RunFile } from "../results/types";
import { link } from "../route";
import { Button, Dialog, ErrorNote, Field, Shown, useAction } from "../ui/parts";
import { duration, moment, money, number, t } from "../words/words";
import { isOver } from "../data/run";
import { shown } from "../data/json";
import { argumentsOf } from "./steplist";
import { endReason, nameIn, stepName } from "./steptext";

interface Entry { text: string; step: string | null; by: string; at: string | null }
interface ReportJson {
  title: string;
  status: string;
  head: string[];
  answer: { text: string; sources: string[] };
  notes: string[];
  evidence: { step: string; title: string; callee: string; result: string; characters: number; clipped: boolean; at: string | null; taken_from: string | null }[];
  deviations: Entry[];
  assumptions: string[];
  failures: { step: string; status: StepStatus; reason: string }[];
  decisions: Entry[];
  took: { calls: number; tokens: number | null; money_usd: string | null; some_prices_unknown: boolean; seconds: number | null; planning_seconds: number; running_seconds: number; waiting_seconds: number };
}

interface ViewProps { run: RunView; report: ReportJson }

export const Report = ({ run }: { run: RunView }): JSX.Element => <Read run={run} View={Whole} />;
// What a run came to, without how it was found out.
export const AnswerOf = ({ run }: { run: RunView }): JSX.Element => <Read run={run} View={AnswerAlone} />;

function Read({ run, View }: { run: RunView; View: ComponentType<ViewProps> }): JSX.Element {
  const over = isOver(run.status);
  const report = useResource<ReportJson>(over ? runPath(run.id, "/report?format=json") : null, (event) => event.run === run.id && endsRun(event));
  if (!over) return <p class="dim">{t("report.none")}</p>;
  return <Shown of={report}>{(value) => <View run={run} report={value} />}</Shown>;
}

function AnswerAlone({ run, report }: ViewProps): JSX.Element {
  const { files, error } = useFiles(run);
  // Without an answer the notes tell of the evidence below, which is not shown here.
  const told = report.answer.text ? report : { ...report, notes: [] };
  return <><Answer run={run} report={told} files={files} /><FilesError error={error} /></>;
}

function Answer({ run, report, files }: ViewProps & { files: RunFile[] }): JSX.Element {
  return (
    <>
      {report.status !== "answered" && <div class={`head ${report.status === "done" ? "" : "bad"}`}>{report.head.map((each) => <p key={each}>{each}</p>)}</div>}
      <div class="answer-box" role="group" aria-label={t("report.answer")}>
        {report.answer.text ? <Markdown text={report.answer.text} sourceOf={sourcesOf(run)} /> : (run.reason || report.evidence.length === 0) && <p class="dim">{endReason(run) || t("report.noEvidence")}</p>}
        <Pictures run={run} files={files} />
        {report.notes.map((each) => <p key={each} class="dim small">{each}</p>)}
      </div>
    </>
  );
}

function Whole({ run, report }: ViewProps): JSX.Element {
  const [saving, setSaving] = useState(false);
  const { files, error } = useFiles(run);
  const stepLink = (step: string): string => link(["runs", run.id, "run", step]);
  return (
    <article class="report">
      <div class="actions">
        {run.plan && run.status === "done" && <Button icon="templates" onClick={() => setSaving(true)}>{t("report.template")}</Button>}
        {run.plan && <a class="button" href={link(["schedules", "new"], { run: run.id })}>{t("report.schedule")}</a>}
        <span class="grow" />
        <span class="dim small">{t("report.export")}</span>
        {(["md", "html", "json"] as const).map((format) => <a key={format} class="button quiet" download={`report-${run.id}.${format}`} href={keyed(runPath(run.id, `/report?format=${format}`))}>{format.toUpperCase()}</a>)}
      </div>
      <Answer run={run} report={report} files={files} />
      <FileList run={run} files={files} />
      <FilesError error={error} />
      {report.failures.length > 0 && (
        <section><h2>{t("report.failures")}</h2>
          <ul>{report.failures.map((each) => <li key={each.step}><a href={stepLink(each.step)}>{nameIn(run.plan, each.step)}</a> · {t(`step.${each.status}`)} {each.reason && <span class="bad">{each.reason}</span>}</li>)}</ul></section>
      )}
      <section><h2>{t("report.evidence")}</h2>
        {report.evidence.length === 0 && <p class="dim">{t("report.noEvidence")}</p>}
        {report.evidence.map((each) => <EvidenceOf key={each.step} run={run} evidence={each} />)}</section>
      <Entries run={run} title={t("report.deviations")} entries={report.deviations} hrefOf={stepLink} />
      {report.assumptions.length > 0 && <section><h2>{t("report.assumptions")}</h2><ul>{report.assumptions.map((each) => <li key={each}>{each}</li>)}</ul></section>}
      <Entries run={run} title={t("report.decisions")} entries={report.decisions} hrefOf={stepLink} />
      <section><h2>{t("report.took")}</h2><Took took={report.took} /></section>
      {saving && <SaveTemplate run={run} onClose={() => setSaving(false)} />}
    </article>
  );
}

// The result of a step, whole; it is read when it is looked at.
function EvidenceOf({ run, evidence }: { run: RunView; evidence: ReportJson["evidence"][number] }): JSX.Element {
  const [open, setOpen] = useState(false);
  const { step, callee } = evidence;
  const title = evidence.title || nameIn(run.plan, step);
  const detail = useResource<StepDetail>(open && run.steps[step] ? runPath(run.id, `/steps/${encodeURIComponent(step)}`) : null, undefined, undefined, ["state"]);
  const whole = detail.value?.state;
  const reading = run.steps[step] !== undefined && !detail.value && !detail.error;
  return (
    <details class="evidence" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title} <code>{callee}</code></summary>
      {open && (
        <div class="file-body">
          {!reading && <StepResult run={run} name={step} label={title} value={whole ? whole.result : evidence.result} size={whole?.result_size ?? evidence.characters} cut={whole ? whole.clipped ?? false : evidence.clipped} />}
          {evidence.taken_from && <p class="dim small">{t("inspect.reused", { at: moment(evidence.at) })} <a href={link(["runs", evidence.taken_from])}>{t("go.original")}</a></p>}
          <p class="small"><a href={link(["runs", run.id, "run", step])}>{t("inspect.title")} {step}</a></p>
        </div>
      )}
    </details>
  );
}

function Entries({ run, title, entries, hrefOf }: { run: RunView; title: string; entries: Entry[]; hrefOf: (step: string) => string }): JSX.Element | null {
  if (entries.length === 0) return null;
  return (
    <section><h2>{title}</h2>
      <ul>{entries.map((each, index) => <li key={index}>{each.step && <><a href={hrefOf(each.step)}>{nameIn(run.plan, each.step)}</a>: </>}{each.text} <small class="dim">{each.text.startsWith(each.by) ? "" : each.by} {moment(each.at)}</small></li>)}</ul></section>
  );
}

function Took({ took }: { took: ReportJson["took"] }): JSX.Element {
  const cost = took.money_usd === null || (took.some_prices_unknown && Number(took.money_usd) === 0) ? t("report.costUnknown") : money(took.money_usd);
  return (
    <p class="facts">
      <span>{t("report.calls", { count: took.calls })}</span>
      <span>{took.tokens === null ? t("app.unknown") : number(took.tokens)} {t("usage.tokens")}</span>
      <span>{cost}</span>
      {took.seconds !== null && <span>{duration(took.seconds)}</span>}
      {took.planning_seconds > 0 && took.running_seconds > 0 && <span class="dim">{t("report.times", { planning: duration(took.planning_seconds), running: duration(took.running_seconds) })}</span>}
      {took.waiting_seconds >= 1 && <span class="dim">{t("report.waited", { time: duration(took.waiting_seconds) })}</span>}
    </p>
  );
}

interface Place { path: string; name: string; value: Json }

// Every value of the plan that could be another one next time.
function places(run: RunView): Place[] {
  return (run.plan?.steps ?? []).flatMap((step) =>
    argumentsOf(step.inputs, {}, "inputs").filter(({ value }) => typeof value !== "object" && !String(value).includes("{{"))
      .map(({ path, value }) => ({ path: `${step.id}.${path}`, name: `${stepName(step)}: ${path.replace("inputs.", "")}`, value })));
}

function SaveTemplate({ run, onClose }: { run: RunView; onClose: () => void }): JSX.Element {
  const action = useAction();
  const [name, setName] = useState("");
  const [names, setNames] = useState<Record<string, string>>({});
  const [saved, setSaved] = useState(false);
  const save = (): void => action.act(async () => {
    const parameters: Record<string, string[]> = {};
    for (const [path, parameter] of Object.entries(names)) if (parameter.trim()) (parameters[parameter.trim()] ??= []).push(path);
    await post(runPath(run.id, "/template"), { name: name.trim(), parameters });
    setSaved(true);
  });
  const found = places(run);
  return (
    <Dialog title={t("report.template")} onClose={onClose}>
      {saved ? <p class="good">{t("report.saved", { name })}</p> : (
        <>
          <Field label={t("report.templateName")}>{(id) => <input id={id} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
          {found.length > 0 && (
            <fieldset><legend>{t("report.parameters")}</legend><p class="dim small">{t("report.parametersWhy")}</p>
              {found.slice(0, 40).map(({ path, name: label, value }) => (
                <Field key={path} label={label} hint={shown(value).slice(0, 80)}>{(id) => <input id={id} value={names[path] ?? ""} onInput={(event) => setNames({ ...names, [path]: event.currentTarget.value })} />}</Field>
              ))}</fieldset>
          )}
          <ErrorNote error={action.error} />
        </>
      )}
      <div class="actions end">
        <Button onClick={onClose}>{t("app.close")}</Button>
        {saved ? <a class="button primary" href={link(["templates", name])}>{t("templates.title")}</a>
          : <Button kind="primary" disabled={!name.trim() || action.busy} onClick={save}>{t("app.save")}</Button>}
      </div>
    </Dialog>
  );
}
