// The consent card: what would happen, to what, with which values, and where each came from.
// Only Plansmith draws it, by the kind of the question; no plan, tool or model can ask for it.

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { editable, shown, typed } from "../data/json";
import { sameJson } from "../data/diff";
import { earlierOf, refsOf } from "../data/refs";
import type { Json, Plan, Question, Step } from "../data/types";
import { ApiError, post, runPath } from "../live/api";
import { useResource } from "../live/hooks";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, Grow, Shown, useAction } from "../ui/parts";
import { callee } from "../views/steptext";
import { bytes, moment, t } from "../words/words";
import { ShownCall, textOf } from "./callpreview";
import { Result } from "./result";
import { isShort } from "./shape";
import { TextDiff } from "./textdiff";
import type { CallPreview, Looked, PreviewedCall, WholeQuestion } from "./types";

interface CardProps { run: string; plan?: Plan | null; question: Question; onAnswered: () => void }

export function ConsentCard({ run, plan, question, onAnswered }: CardProps): JSX.Element {
  const title = useId();
  const whole = useResource<WholeQuestion>(runPath(run, `/questions/${encodeURIComponent(question.question)}`), undefined, undefined, ["values"]);
  const action = useAction();
  const [changing, setChanging] = useState(false);
  const [outdated, setOutdated] = useState("");
  const send = (body: Record<string, Json>): void => action.act(async () => {
    try {
      await post(runPath(run, "/answers"), { question: question.question, hash: whole.value?.hash ?? "", seen: whole.value?.seen ?? "", ...body });
    } catch (error) {
      // The files are not what was looked at: show them as they are now, and let the person look again.
      if (!(error instanceof ApiError) || error.status !== 409) throw error;
      setOutdated(error.message);
      whole.reload();
      onAnswered();
      return;
    }
    onAnswered();
  });
  const values = whole.value?.values;
  return (
    <article class="question own consent" data-kind="consent" aria-labelledby={title}>
      <p class="asker"><Icon name="consent" />{t("consent.asks")}</p>
      <h3 id={title}>{headline(question, whole.value?.now)}</h3>
      <Sources run={run} plan={plan} sources={question.sources} />
      {outdated && <p class="note change" role="alert">{outdated}</p>}
      <Shown of={whole}>{(found) => <Details run={run} plan={plan} question={question} whole={found} />}</Shown>
      {changing && values ? <Change values={values} names={inOrder(stepOf(plan, question), values)} busy={action.busy} yes={t("consent.useMine")}
        preview={whole.value?.now ? (change) => post<Looked>(runPath(run, `/questions/${encodeURIComponent(question.question)}`), { change }) : null}
        onBack={() => setChanging(false)} onSend={(body) => send(body)} /> : (
        <div class="options">
          <Button kind="primary" icon="done" disabled={action.busy || !values} onClick={() => send({ answer: "allow" })}>{t("consent.allow")}</Button>
          <Button kind="danger" icon="failed" disabled={action.busy} onClick={() => send({ answer: "refuse" })}>{t("consent.refuse")}</Button>
          {whole.value?.can_change && <Button icon="planning" disabled={action.busy} onClick={() => setChanging(true)}>{t("consent.change")}</Button>}
        </div>
      )}
      {values && !whole.value?.can_change && <p class="dim small">{t("consent.many")}</p>}
      <p class="dim small">{question.times ? t("consent.often", { times: question.times }) : t("consent.once")}{question.expires_at && ` · ${t("ask.until", { time: moment(question.expires_at) })}`}</p>
      <ErrorNote error={action.error} />
    </article>
  );
}

// What would happen, in one line.
export function headline(question: Question, now: CallPreview | null | undefined): string {
  const called = question.callee || (question.step ?? "");
  if (question.times) return t("consent.callMany", { callee: called, times: question.times });
  const { files = [], moved = [] } = now ?? {};
  if (moved[0]) return moved[1] ? t("consent.move", { path: moved[0], to: moved[1] }) : t("ahead.deletes", { path: moved[0] });
  const [first] = files;
  if (!first) return t("consent.call", { callee: called });
  const size = bytes(first.size_after ?? first.size_before ?? 0);
  if (first.change === "changed") return t("consent.changed", { path: first.path, before: bytes(first.size_before ?? 0), after: size });
  return t(`consent.${first.change}`, { path: first.path, size });
}

export function Sources({ run, plan, sources = [], part }: { run: string; plan?: Plan | null | undefined; sources?: string[] | undefined; part?: "plan" }): JSX.Element {
  return <p class="from"><span class="dim">{t("consent.from")}</span> {sources.map((each) => <SourceChip key={each} run={run} plan={plan} source={each} part={part} />)}</p>;
}

// Where a value came from; leads to that step. Its title is the plan's own word and could say
// anything here: the card tells the step's name and what it called.
function SourceChip({ run, plan, source, part = "run" }: { run: string; plan?: Plan | null | undefined; source: string; part?: "run" | "plan" | undefined }): JSX.Element {
  const earlier = earlierOf(source);
  if (earlier) return <a class="chip origin-step" href={link(["runs", earlier.run, "run", earlier.step])}>{t("ask.earlier", { ...earlier })}</a>;
  const step = plan?.steps.find((each) => each.id === source.split("/")[0]);
  if (!/^[\w-]+(\/[\w-]+)*$/.test(source)) return <span class="chip origin-step">{source}</span>;
  return <a class="chip origin-step" href={link(["runs", run, part, source])}>{source}{step && callee(step) && <> <small>{callee(step)}</small></>}</a>;
}

function Details({ run, plan, question, whole }: Omit<CardProps, "onAnswered"> & { whole: WholeQuestion }): JSX.Element {
  // What is shown to its last letter is not told a second time at full length.
  const told = textOf(whole.now);
  const step = stepOf(plan, question);
  const values = whole.values ?? {};
  return (
    <>
      {whole.previewed && <Since before={whole.previewed} values={values} now={whole.now} />}
      {whole.now && <ShownCall shown={whole.now} address={(path) => runPath(run, `/questions/${encodeURIComponent(question.question)}?path=${encodeURIComponent(path)}`)} />}
      <dl class="values">
        {inOrder(step, values).map((name) => [name, values[name]!] as const).map(([name, value]) => (
          <div key={name}>
            <dt><code>{name}</code> {originsOf(step, name).map((each) => <SourceChip key={each} run={run} plan={plan} source={each} />)}</dt>
            <dd>{typeof value === "string" && told.includes(value) && !isShort(value)
              ? <details><summary>{t("consent.asShown", { count: value.length })}</summary><Result value={value} label={name} /></details>
              : <Result value={value} label={name} />}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

// What has changed since a person approved this call in a preview.
function Since({ before, values, now }: { before: PreviewedCall; values: Record<string, Json>; now: CallPreview | null }): JSX.Element {
  const names = Object.keys(values).filter((name) => !sameJson(before.inputs[name] ?? null, values[name]!));
  const pairs = names.map((name) => [name, written(before.inputs[name] ?? ""), written(values[name]!)] as const);
  const said = [before.shown?.text ?? "", now?.text ?? ""] as const;
  return (
    <section class="since">
      <p class="note change">{t("consent.since")}</p>
      {said[0] !== said[1] && <TextDiff before={said[0]} after={said[1]} label={t("consent.view.changes")} />}
      {(said[0] === said[1] || !said[0]) && pairs.map(([name, old, text]) => (
        <div key={name}><p><code>{name}</code></p><TextDiff before={old} after={text} label={name} /></div>))}
    </section>
  );
}

const stepOf = (plan: Plan | null | undefined, question: Question): Step | undefined =>
  plan?.steps.find((each) => each.id === question.step?.split("/")[0]);

// What came out of other steps is what the question is about: it comes first.
function inOrder(step: Step | undefined, values: Record<string, Json>): string[] {
  const names = Object.keys(values);
  const data = names.filter((name) => originsOf(step, name).length > 0);
  return [...data, ...names.filter((name) => !data.includes(name))];
}

// The steps from which an argument takes its value, as the plan writes it.
export function originsOf(step: Step | undefined, name: string): string[] {
  const inner = step?.each ?? step;
  const found = [...refsOf(name === "over" ? step?.over : name === "task" ? inner?.task : inner?.inputs?.[name])];
  return [...new Set(found.flatMap((each) => (each === "item" ? [...refsOf(step?.over)] : each === "params" ? [] : [each])))];
}

// Values of one's own: they stand as they are in the plan that is approved, or in the answer.
export function Change({ values, names, busy, yes, preview, onBack, onSend }: {
  values: Record<string, Json>; names: string[]; busy: boolean; yes: string;
  preview: ((change: Record<string, Json>) => Promise<Looked>) | null;
  onBack: () => void; onSend: (body: { change: Record<string, Json>; seen?: string }) => void;
}): JSX.Element {
  const [texts, setTexts] = useState<Record<string, string>>(() => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, written(value)])));
  const changed = Object.entries(texts).filter(([name, text]) => text !== written(values[name]!));
  const read = (name: string, text: string): Json => (typeof values[name] === "string" ? text : typed(text));
  const change = Object.fromEntries(changed.map(([name, text]) => [name, read(name, text)]));
  const found = usePreview(preview, change, JSON.stringify(changed));
  const why = useId();
  const place = useId();
  useEffect(() => { document.getElementById(place)?.querySelector("textarea")?.focus(); }, []);
  return (
    <div class="change-values" id={place}>
      <p class="dim">{t("consent.changeWhy")}</p>
      {names.map((name) => (
        <div class="field" key={name}><label for={`${place}-${name}`}><code>{name}</code></label>
          <Grow id={`${place}-${name}`} mono value={texts[name]!} onInput={(text) => setTexts({ ...texts, [name]: text })} /></div>
      ))}
      {changed.length > 0 && found?.now && <ShownCall shown={found.now} />}
      <div class="options">
        <Button kind="primary" icon="done" disabled={busy || changed.length === 0} describedBy={why} onClick={() => onSend({ change, ...(found && { seen: found.seen }) })}>{yes}</Button>
        <Button disabled={busy} onClick={onBack}>{t("app.back")}</Button>
      </div>
      <p class="dim small" id={why}>{changed.length === 0 ? t("consent.nothingChanged") : t("consent.isChanged", { names: changed.map(([name]) => name).join(", ") })}</p>
    </div>
  );
}

// What the call would do with the values as they are typed; null until that is known.
function usePreview(preview: ((change: Record<string, Json>) => Promise<Looked>) | null, change: Record<string, Json>, texts: string): Looked | null {
  const [found, setFound] = useState<Looked | null>(null);
  useEffect(() => {
    setFound(null);
    if (!preview || texts === "[]") return undefined;
    let here = true;
    const timer = setTimeout(() => { preview(change).then((now) => { if (here) setFound(now); }, () => undefined); }, 250);
    return () => { here = false; clearTimeout(timer); };
  }, [texts]);
  return found;
}

export const written = (value: Json): string => (typeof value === "string" ? value : editable(value) || shown(value));
