// The rules of a step in the editor: when it runs, how often, what a failure means, what takes it back.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { BLANK, OPERATORS, edited, rowsOf } from "../data/conditions";
import type { Operator, Row } from "../data/conditions";
import { sameJson } from "../data/diff";
import { editable, shown, typed } from "../data/json";
import type { Json, JsonObject, Step } from "../data/types";
import { Button, Field, Grow } from "../ui/parts";
import { t } from "../words/words";

type Rule = "when" | "otherwise" | "repeat" | "on_error" | "retry" | "undo_with";
export type Undo = NonNullable<Step["undo_with"]>;
// `undoCall` is the form of the call that takes the step back; it needs what the editor knows.
interface Props {
  step: Step; prefix: string; put: (step: Step, field: string) => void;
  undoCall: (undo: Undo, put: (undo: Undo) => void) => JSX.Element;
}

const RULES: Rule[] = ["when", "otherwise", "repeat", "on_error", "retry", "undo_with"];
const REPEATED = new Set(["tool", "agent", "plan", "map"]);
const UNDONE = new Set(["tool", "agent"]);
const RETRIED = new Set(["tool", "agent", "reply"]);
const ERRORS = ["fail", "skip", "collect", "value"] as const;
const FIRST: JsonObject = { equals: ["", ""] };

// The step with one rule changed; undefined takes the rule out. All else stays as it is.
export function withRule<Name extends Rule>(step: Step, name: Name, value: Step[Name] | undefined): Step {
  const { [name]: _, ...rest } = step;
  return (value === undefined ? rest : { ...rest, [name]: value }) as Step;
}

export function RuleForm({ step, prefix, put, undoCall }: Props): JSX.Element {
  const set = <Name extends Rule>(name: Name) => (value: Step[Name] | undefined): void => put(withRule(step, name, value), `${prefix}${name}`);
  const { when, otherwise, repeat, retry, undo_with: undo } = step;
  return (
    <details open={RULES.some((name) => step[name] !== undefined)}>
      <summary>{t("rule.label")}</summary>
      <Switch label={t("rule.when")} on={when !== undefined} set={(on) => set("when")(on ? FIRST : undefined)}>
        {when && <Condition value={when} onChange={set("when")} />}
      </Switch>
      <Switch label={t("rule.otherwise")} on={otherwise !== undefined} set={(on) => set("otherwise")(on ? { value: "" } : undefined)}>
        {otherwise && <Value label={t("rule.value")} value={otherwise.value} onChange={(value) => set("otherwise")({ value })} />}
      </Switch>
      {(repeat || REPEATED.has(step.kind)) && (
        <Switch label={t("rule.repeat")} on={repeat !== undefined}
          set={(on) => set("repeat")(on ? { until: { equals: [`{{${step.id}}}`, ""] }, at_most: 5, every: 60 } : undefined)}>
          {repeat && <>
            <Condition value={repeat.until} onChange={(until) => set("repeat")({ ...repeat, until })} />
            <Pace label={t("rule.rounds")} rule={repeat} onChange={set("repeat")} />
          </>}
        </Switch>
      )}
      {(retry || RETRIED.has(step.kind)) && (
        <Switch label={t("rule.retry")} on={retry !== undefined} set={(on) => set("retry")(on ? { at_most: 3, every: 10 } : undefined)}>
          {retry && <Pace label={t("rule.tries")} rule={retry} onChange={set("retry")} />}
        </Switch>
      )}
      <OnError value={step.on_error} onChange={set("on_error")} />
      {(undo || UNDONE.has(step.kind)) && (
        <Switch label={t("rule.undo")} on={undo !== undefined} set={(on) => set("undo_with")(on ? { tool: "", inputs: {} } : undefined)}>
          {undo && <>
            <p class="dim small">{t("rule.undoWhy", { step: step.id })}</p>
            {undoCall(undo, set("undo_with"))}
          </>}
        </Switch>
      )}
    </details>
  );
}

function Switch({ label, on, set, children }: { label: string; on: boolean; set: (on: boolean) => void; children: JSX.Element | undefined }): JSX.Element {
  return (
    <fieldset class="rule">
      <label class="check"><input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} />{label}</label>
      {children}
    </fieldset>
  );
}

function Pace<Kind extends { at_most: number; every?: number }>({ label, rule, onChange }: { label: string; rule: Kind; onChange: (rule: Kind) => void }): JSX.Element {
  return (
    <div class="row">
      <Field label={label}>{(id) => <input id={id} type="number" min="1" value={shown(rule.at_most)} onInput={(event) => onChange({ ...rule, at_most: Math.trunc(Number(event.currentTarget.value)) || 1 })} />}</Field>
      <Field label={t("rule.every")}>{(id) => <input id={id} type="number" min="0" value={shown(rule.every ?? 0)} onInput={(event) => onChange({ ...rule, every: Math.max(0, Number(event.currentTarget.value)) })} />}</Field>
    </div>
  );
}

function OnError({ value, onChange }: { value: Step["on_error"]; onChange: (value: Step["on_error"] | undefined) => void }): JSX.Element {
  const instead = typeof value === "object" ? value : undefined;
  const choose = (chosen: string): void => {
    const known = ERRORS.find((each) => each === chosen) ?? "fail";
    onChange(known === "value" ? { value: "" } : known === "fail" ? undefined : known);
  };
  return (
    <fieldset class="rule">
      <Field label={t("rule.onError")}>{(id) => (
        <select id={id} value={instead ? "value" : (value as string | undefined) ?? "fail"} onChange={(event) => choose(event.currentTarget.value)}>
          {ERRORS.map((each) => <option key={each} value={each}>{t(`rule.error.${each}`)}</option>)}
        </select>
      )}</Field>
      {instead && <Value label={t("rule.value")} value={instead.value} onChange={(next) => onChange({ value: next })} />}
    </fieldset>
  );
}

// What is typed stays as typed while it means the value: `{"a": 1` on its way to JSON is text.
function Value({ label, value, onChange }: { label: string; value: Json; onChange: (value: Json) => void }): JSX.Element {
  const [text, setText] = useState(editable(value));
  const shownText = sameJson(typed(text), value) ? text : editable(value);
  return <Field label={label}>{(id) => <Grow id={id} mono value={shownText} onInput={(next) => { setText(next); onChange(typed(next)); }} />}</Field>;
}

// Rows of comparisons; a condition that is nested deeper is shown, and changed as JSON below.
function Condition({ value, onChange }: { value: JsonObject; onChange: (value: JsonObject) => void }): JSX.Element {
  const known = rowsOf(value);
  if (!known) return <p class="dim small"><code>{shown(value)}</code> {t("rule.nested")}</p>;
  const { join, rows } = known;
  const put = (next: Row[], as = join): void => onChange(edited(value, { join: as, rows: next }));
  return (
    <>
      {rows.length > 1 && (
        <select aria-label={t("rule.join")} value={join} onChange={(event) => put(rows, event.currentTarget.value === "any" ? "any" : "all")}>
          <option value="all">{t("rule.all")}</option>
          <option value="any">{t("rule.any")}</option>
        </select>
      )}
      {rows.map((row, index) => (
        <Comparison key={index} row={row} onChange={(next) => put(rows.with(index, next))}
          onRemove={rows.length > 1 ? () => put(rows.toSpliced(index, 1)) : undefined} />
      ))}
      <Button kind="quiet" icon="new" onClick={() => put([...rows, BLANK])}>{t("rule.more")}</Button>
    </>
  );
}

function Comparison({ row, onChange, onRemove }: { row: Row; onChange: (row: Row) => void; onRemove: (() => void) | undefined }): JSX.Element {
  const unary = row.operator === "empty" || row.operator === "not_empty";
  return (
    <div class="comparison">
      <Value label={t("rule.left")} value={row.left} onChange={(left) => onChange({ ...row, left })} />
      <select aria-label={t("rule.operator")} value={row.operator} onChange={(event) => onChange({ ...row, operator: event.currentTarget.value as Operator })}>
        {OPERATORS.map((each) => <option key={each} value={each}>{t(`rule.is.${each}`)}</option>)}
      </select>
      {!unary && <Value label={t("rule.right")} value={row.right} onChange={(right) => onChange({ ...row, right })} />}
      {onRemove && <Button kind="quiet" icon="remove" onClick={onRemove} label={t("rule.less")}>{""}</Button>}
    </div>
  );
}
