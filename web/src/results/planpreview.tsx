// What a plan would change, with the data of now, before anybody approves it: files, messages, rows, pictures.
// Only reads run for it. Calls can be left out or changed; a result can be another one, to see what would follow.

import { Fragment } from "preact";
import type { JSX } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { editable, typed } from "../data/json";
import type { Json, Plan, RunView, Step } from "../data/types";
import { ApiError, post, runPath } from "../live/api";
import type { Shown } from "../live/preview";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, Grow, Loading, useAction } from "../ui/parts";
import { nameIn, stepName } from "../views/steptext";
import { number, t } from "../words/words";
import { ShownCall, WouldFail, textOf } from "./callpreview";
import { Change, Sources, written } from "./consent";
import { Result } from "./result";
import { inBrief } from "./shape";
import type { PreviewedCall } from "./types";

const AT_ONCE = 100;
const rootOf = (name: string): string => name.split("/")[0]!;
const givenOf = (run: RunView): Record<string, Json> =>
  Object.fromEntries(Object.entries(run.steps).filter(([, step]) => step.given_by).map(([name, step]) => [name, step.result ?? null]));

export function PlanPreview({ run, shown, error }: { run: RunView; shown: Shown | undefined; error: ApiError | undefined }): JSX.Element | null {
  const action = useAction();
  const title = useId();
  const { plan } = run;
  const changes = run.effects.write + run.effects.final > 0;
  if (!plan || !changes || run.problems.some((each) => each.severity === "error")) return null;
  const make = (body: Making): void => action.act(() => post(runPath(run.id, "/preview"), body));
  const making = run.previewing !== "" || action.busy;
  return (
    <section class="ahead" aria-labelledby={title} aria-busy={making}>
      <div class="line"><h2 id={title}>{t("ahead.title")}</h2>
        {shown && <span class="dim">{counted(shown.calls, shown)}</span>}</div>
      <ErrorNote error={action.error ?? error} />
      {making ? <Reading run={run} plan={plan} />
        : shown ? <Calls run={run} plan={plan} shown={shown} onMake={make} />
          : run.preview ? <Loading />
            : <div class="actions"><Button icon="reviewing" onClick={() => make({})}>{t("ahead.show")}</Button><span class="dim small">{t("ahead.showWhy")}</span></div>}
    </section>
  );
}

function Reading({ run, plan }: { run: RunView; plan: Plan }): JSX.Element {
  const going = plan.steps.filter((step) => run.steps[step.id]?.status === "running").map(stepName);
  return <p class="loading" role="status">{t("ahead.making")} {going.join(", ")}</p>;
}

// Results that are not read but given; what was read before may be forgotten.
interface Making { given?: Record<string, Json>; fresh?: boolean }
interface Props { run: RunView; plan: Plan; shown: Shown }

function Calls({ run, plan, shown, onMake }: Props & { onMake: (body: Making) => void }): JSX.Element {
  const groups = useMemo(() => grouped(shown.calls), [shown.calls]);
  const given = givenOf(run);
  const failed = plan.steps.filter((step) => run.steps[step.id]?.status === "failed");
  const { fresh } = shown.choice;
  return (
    <>
      {Object.keys(given).map((name) => (
        <div class="note change" key={name}><p>{t("ahead.given", { step: nameIn(plan, name), by: run.steps[name]!.given_by })} <b>{inBrief(given[name])}</b></p>
          <Button onClick={() => onMake({ fresh: true, given: Object.fromEntries(Object.entries(given).filter(([each]) => each !== name)) })}>{t("ahead.real")}</Button></div>
      ))}
      {failed.map((step) => (
        <div class="note bad" key={step.id}><Icon name="error" /><p>{t("ahead.failed", { step: stepName(step), error: run.steps[step.id]!.error })}</p>
          <Button onClick={() => onMake({})}>{t("app.retry")}</Button></div>
      ))}
      {groups.length === 0 && shown.open.length === 0 && <p>{t("ahead.nothing")}</p>}
      {groups.map((group) => group[0]!.step.includes("/")
        ? <Items key={group[0]!.step} run={run} plan={plan} shown={shown} calls={group} />
        : <Call key={group[0]!.step} run={run} plan={plan} shown={shown} call={group[0]!} />)}
      {shown.open.length > 0 && (
        <div class="note ask"><Icon name="note" /><div><b>{t("ahead.open")}</b><ul>{shown.open.map(({ step, waits_for: waits = [] }) => (
          <li key={step}>{t("ahead.openWhy", { step: nameIn(plan, step), steps: waits.map((each) => nameIn(plan, each)).join(", ") })}</li>))}</ul></div></div>
      )}
      <Reads run={run} plan={plan} onMake={onMake} />
      <label class="check small"><input type="checkbox" checked={fresh} onChange={() => shown.choose({ fresh: !fresh })} /> {t("ahead.fresh")}</label>
    </>
  );
}

// The calls for the items of one list stand together, in the order of the list.
function grouped(calls: PreviewedCall[]): PreviewedCall[][] {
  const found = new Map<string, PreviewedCall[]>();
  for (const call of calls) {
    const key = call.step.includes("/") ? rootOf(call.step) : ` ${call.step}`;
    const known = found.get(key);
    if (known) known.push(call);
    else found.set(key, [call]);
  }
  for (const group of found.values()) group.sort((a, b) => a.step.localeCompare(b.step, "en", { numeric: true }));
  return [...found.values()];
}

function counted(calls: PreviewedCall[], { choice: { out } }: Shown): string {
  const does = calls.filter((each) => !out.has(each.step)).length;
  return t(does < calls.length ? "ahead.count" : "ahead.countAll", { count: number(does), total: number(calls.length) });
}

function Tick({ shown, calls, label }: { shown: Shown; calls: PreviewedCall[]; label: string }): JSX.Element {
  const { out } = shown.choice;
  const off = calls.filter((each) => out.has(each.step)).length;
  const press = (): void => {
    const next = new Set(out);
    for (const { step } of calls) if (off === 0) next.add(step); else next.delete(step);
    shown.choose({ out: next });
  };
  return <input type="checkbox" aria-label={label} checked={off === 0} indeterminate={off > 0 && off < calls.length} onChange={press} />;
}

function Call({ run, plan, shown, call, bare = false }: Props & { call: PreviewedCall; bare?: boolean }): JSX.Element {
  const [changing, setChanging] = useState(false);
  const { out, change } = shown.choice;
  const own = change[call.step];
  const inputs = { ...call.inputs, ...own };
  const name = nameIn(plan, call.step);
  const put = (values: Record<string, Json> | undefined): void => {
    const { [call.step]: _, ...rest } = change;
    shown.choose({ change: values ? { ...rest, [call.step]: values } : rest });
    setChanging(false);
  };
  const off = out.has(call.step);
  return (
    <article class={`ahead-call ${off ? "off" : ""}`} aria-label={name}>
      {!bare && <div class="head-line"><Tick shown={shown} calls={[call]} label={t("ahead.do", { name })} /><h3>{name}</h3> <code>{call.callee}</code>{off && <span class="chip minus">{t("ahead.leftOut")}</span>}</div>}
      {call.sources && call.sources.length > 0 && <Sources run={run.id} plan={plan} part="plan" sources={call.sources} />}
      {own ? <p class="note change">{t("ahead.mine", { names: Object.keys(own).join(", ") })}</p> : call.shown && <ShownCall shown={call.shown} address={(path) => runPath(run.id, `/preview/${call.step.split("/").map(encodeURIComponent).join("/")}?path=${encodeURIComponent(path)}`)} />}
      <Inputs inputs={inputs} told={own ? "" : textOf(call.shown)} />
      {call.times !== undefined && call.times > 1 && <p class="dim small">{t("ahead.times", { times: call.times })}</p>}
      {changing ? <Change values={inputs} names={Object.keys(inputs)} busy={false} yes={t("ahead.useMine")} preview={null} onBack={() => setChanging(false)} onSend={(body) => put({ ...own, ...body.change })} /> : (
        <div class="options">
          {Object.keys(inputs).length > 0 && !off && <Button kind="quiet" icon="planning" onClick={() => setChanging(true)}>{t("consent.change")}</Button>}
          {own && <Button kind="quiet" onClick={() => put(undefined)}>{t("ahead.useShown")}</Button>}
        </div>
      )}
    </article>
  );
}

// All values that the call would get; what is read above to its last letter is folded.
function Inputs({ inputs, told }: { inputs: Record<string, Json>; told: string }): JSX.Element {
  return (
    <dl class="values">{Object.entries(inputs).map(([name, value]) => (
      <div key={name}><dt><code>{name}</code></dt><dd>{typeof value === "string" && value.length > 40 && told.includes(value)
        ? <details><summary>{t("consent.asShown", { count: number(value.length) })}</summary><Result value={value} label={name} /></details>
        : <Result value={value} label={name} />}</dd></div>))}</dl>
  );
}

// One row for each item: some can be left out, and each can be looked at and changed.
function Items({ run, plan, shown, calls }: Props & { calls: PreviewedCall[] }): JSX.Element {
  const [most, setMost] = useState(AT_ONCE);
  const [open, setOpen] = useState("");
  const { out, change } = shown.choice;
  const root = rootOf(calls[0]!.step);
  const columns = useMemo(() => [...new Set(calls.flatMap((each) => Object.keys(each.inputs)))], [calls]);
  const fails = calls.filter((each) => each.shown?.fails).length;
  const left = calls.length - most;
  return (
    <article class="ahead-call" aria-label={nameIn(plan, root)}>
      <div class="head-line"><h3>{nameIn(plan, root)}</h3> <code>{calls[0]!.callee}</code> <span class="dim small">{counted(calls, shown)}</span></div>
      {calls[0]!.sources && <Sources run={run.id} plan={plan} part="plan" sources={[...new Set(calls.slice(0, AT_ONCE).flatMap((each) => each.sources ?? []))]} />}
      {fails > 0 && <WouldFail why={t("ahead.fails", { count: number(fails) })} />}
      <div class="scroll" tabIndex={0} role="group" aria-label={nameIn(plan, root)}>
        <table class="calls items">
          <thead><tr><th><Tick shown={shown} calls={calls} label={t("ahead.all", { count: number(calls.length) })} /></th><th>{t("ahead.item")}</th>{columns.map((each) => <th key={each}><code>{each}</code></th>)}</tr></thead>
          <tbody>{calls.slice(0, most).map((call) => {
            const part = call.step.slice(root.length + 1);
            const label = /^\d+$/.test(part) ? String(Number(part) + 1) : part;
            const values = { ...call.inputs, ...change[call.step] };
            return (
              <Fragment key={call.step}>
                <tr class={out.has(call.step) ? "off" : ""}>
                  <td><Tick shown={shown} calls={[call]} label={t("ahead.do", { name: label })} /></td>
                  <td><button type="button" class="link" aria-expanded={open === call.step} onClick={() => setOpen(open === call.step ? "" : call.step)}>{t("ahead.look", { item: label })}</button>
                    {call.shown?.fails && <p class="bad small">{call.shown.fails}</p>}{change[call.step] && <p class="small warn">{t("diff.changed")}</p>}</td>
                  {columns.map((name) => <td key={name}>{name in values ? inBrief(values[name]) : ""}</td>)}
                </tr>
                {open === call.step && <tr><td colSpan={columns.length + 2}><Call run={run} plan={plan} shown={shown} call={call} bare /></td></tr>}
              </Fragment>
            );
          })}</tbody>
        </table>
      </div>
      {left > 0 && <p class="result-tools"><Button kind="quiet" onClick={() => setMost(most + 1000)}>{t("result.moreRows", { count: number(Math.min(left, 1000)) })}</Button></p>}
    </article>
  );
}

// What was read for the preview, and what would follow if one result were another.
function Reads({ run, plan, onMake }: { run: RunView; plan: Plan; onMake: (body: Making) => void }): JSX.Element | null {
  const read = plan.steps.filter((step) => run.steps[step.id]?.status === "done" && run.effects.by_step[step.id] === "read" && !run.steps[step.id]!.reused_from);
  if (read.length === 0) return null;
  const some = read.filter((step) => !run.steps[step.id]!.clipped);
  return (
    <>
      <details class="evidence"><summary>{t("ahead.reads", { count: read.length })}</summary>
        {read.map((step) => <div key={step.id}><p><b>{stepName(step)}</b> {run.steps[step.id]!.given_by ? "" : <span class="chip">{t("ahead.read")}</span>}</p><Result value={run.steps[step.id]!.result} label={stepName(step)} /></div>)}
      </details>
      {some.length > 0 && !run.started_at && <WhatIf run={run} steps={some} onMake={onMake} />}
    </>
  );
}

function WhatIf({ run, steps, onMake }: { run: RunView; steps: Step[]; onMake: (body: Making) => void }): JSX.Element {
  const id = useId();
  const [name, setName] = useState(steps[0]!.id);
  const known = run.steps[name]?.result ?? null;
  const [texts, setTexts] = useState<Record<string, string>>({});
  const text = texts[name] ?? (typeof known === "string" ? editable(known) : written(known));
  return (
    <details class="evidence"><summary>{t("ahead.whatIf")}</summary>
      <p class="dim">{t("ahead.whatIfWhy")}</p>
      <div class="field"><label for={id}>{t("ahead.resultOf")}</label>
        <select id={id} value={name} onChange={(event) => setName(event.currentTarget.value)}>{steps.map((step) => <option key={step.id} value={step.id}>{stepName(step)}</option>)}</select></div>
      <div class="field"><label for={`${id}-value`}>{t("ahead.wouldBe")}</label><Grow id={`${id}-value`} mono value={text} onInput={(now) => setTexts({ ...texts, [name]: now })} /></div>
      <div class="actions"><Button onClick={() => onMake({ given: { [name]: typed(text) } })}>{t("ahead.follow")}</Button></div>
    </details>
  );
}
