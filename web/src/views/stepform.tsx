// The editor of one step: its fields by kind, its arguments with their origin, or all as JSON.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { needs } from "../data/graph";
import { editable, isRawNumber, parseExactly, shown, typed } from "../data/json";
import { sameJson } from "../data/diff";
import type { Json, JsonObject, Plan, Step } from "../data/types";
import { useResource } from "../live/hooks";
import { Icon } from "../ui/icons";
import { Button, Field, Grow } from "../ui/parts";
import { EffectChip, Origin, originClass } from "../ui/status";
import { t } from "../words/words";
import type { Editor } from "./editing";
import { RuleForm } from "./ruleform";
import type { Undo } from "./ruleform";
import { newId } from "./steplist";

interface Props { step: Step; editor: Editor; saved: Plan; onSelect: (id: string | undefined) => void }

export function StepForm({ step, editor, saved, onSelect }: Props): JSX.Element {
  const { plan, checked } = editor;
  const index = plan.steps.findIndex((each) => each.id === step.id);
  const put = (next: Step, field: string): void =>
    editor.edit({ ...plan, steps: plan.steps.map((each) => (each.id === step.id ? next : each)) }, `${step.id}.${field}`);
  const arrange = (steps: Step[], field: string): void => editor.edit({ ...plan, steps }, field);
  const move = (by: number): void => {
    const steps = [...plan.steps];
    steps.splice(index + by, 0, ...steps.splice(index, 1));
    arrange(steps, `move ${step.id}`);
  };
  const copy = (): void => {
    const id = newId(plan, step.id.slice(0, 56));
    arrange(plan.steps.toSpliced(index + 1, 0, { ...structuredClone(step), id }), `copy ${id}`);
    onSelect(id);
  };
  const remove = (): void => { arrange(plan.steps.filter((each) => each.id !== step.id), `remove ${step.id}`); onSelect(undefined); };
  const problems = checked.problems.filter((each) => each.step === step.id);
  return (
    <div class="form">
      <h3>{t(`kind.${step.kind}`)} <code>{step.id}</code> <EffectChip effect={checked.effects.by_step[step.id]} /></h3>
      <div class="actions">
        <Button kind="quiet" icon="up" disabled={index === 0} onClick={() => move(-1)} label={t("edit.up")}>{""}</Button>
        <Button kind="quiet" icon="down" disabled={index === plan.steps.length - 1} onClick={() => move(1)} label={t("edit.down")}>{""}</Button>
        <Button kind="quiet" icon="copy" onClick={copy}>{t("edit.copy")}</Button>
        <Button kind="quiet" icon="remove" onClick={remove}>{t("edit.remove")}</Button>
      </div>
      {problems.length > 0 && <ul class="problems">{problems.map((each, at) => <li key={at} class={each.severity}><Icon name={each.severity} title={each.severity} /><span>{each.message}{each.hint && <small> {each.hint}</small>}</span></li>)}</ul>}
      <Text label={t("edit.title")} value={step.title} onChange={(title) => put({ ...step, title }, "title")} />
      <Body step={step} editor={editor} origins={checked.origins[step.id] ?? {}} prefix="" saved={saved.steps.find((each) => each.id === step.id)} put={put} />
      <After step={step} plan={plan} put={put} />
      <Text label={t("edit.why")} value={step.why} onChange={(why) => put({ ...step, why }, "why")} />
      <div class="row">
        <Field label={t("edit.timeout")}>{(id) => <input id={id} type="number" min="1" value={step.timeout_s === undefined ? "" : shown(step.timeout_s)}
          onInput={(event) => put(timed(step, event.currentTarget.value), "timeout_s")} />}</Field>
        <label class="check"><input type="checkbox" checked={step.disabled ?? false} onChange={(event) => put(switched(step, event.currentTarget.checked), "disabled")} />{t("edit.disabled")}</label>
      </div>
      <RuleForm step={step} prefix="" put={put} undoCall={undoForm(plan)} />
      <AsJson step={step} put={put} />
    </div>
  );
}

function timed(step: Step, text: string): Step {
  const { timeout_s: _, ...rest } = step;
  return Number(text) > 0 ? { ...rest, timeout_s: Number(text) } : rest;
}

function switched(step: Step, off: boolean): Step {
  const { disabled: _, ...rest } = step;
  return off ? { ...rest, disabled: true } : rest;
}

function Text({ label, value, onChange, mono = false }: { label: string; value: string | undefined; onChange: (text: string) => void; mono?: boolean }): JSX.Element {
  return <Field label={label}>{(id) => <Grow id={id} value={value ?? ""} onInput={onChange} mono={mono} />}</Field>;
}

interface BodyProps { step: Step; editor: Editor; origins: Record<string, string>; prefix: string; saved: Step | undefined; put: (step: Step, field: string) => void }

function Body({ step, editor, origins, prefix, saved, put }: BodyProps): JSX.Element {
  const set = (field: keyof Step) => (value: Json): void => put({ ...step, [field]: value }, prefix + field);
  const inputs = (
    <Inputs inputs={step.inputs ?? {}} origins={origins} path={`${prefix}inputs`} saved={saved?.inputs} plan={editor.plan} own={step.id}
      put={(next, field) => put({ ...step, inputs: next }, `${prefix}inputs.${field}`)} />
  );
  if (step.kind === "tool") return <><Name label={t("edit.tool")} from="/v1/tools" value={step.tool} onChange={set("tool")} />{inputs}</>;
  if (step.kind === "agent") return <><Name label={t("edit.agent")} from="/v1/agents" value={step.agent} onChange={set("agent")} /><Text label={t("edit.task")} value={step.task} onChange={set("task")} />{inputs}</>;
  if (step.kind === "plan") return <><Name label={t("edit.template")} from="/v1/templates" value={step.template} onChange={set("template")} />{inputs}</>;
  if (step.kind === "reply") return <Text label={t("edit.instruction")} value={step.instruction} onChange={set("instruction")} />;
  if (step.kind === "ask") {
    return <><Text label={t("edit.question")} value={step.question} onChange={set("question")} />
      <Text label={t("edit.options")} value={(step.options ?? []).join("\n")} onChange={(text) => set("options")(text.split("\n").filter((each, index, all) => each || index < all.length - 1))} /></>;
  }
  return (
    <>
      <Field label={t("edit.over")}>{(id) => <Grow id={id} mono value={editable(step.over)} onInput={(text) => set("over")(typed(text))} />}</Field>
      <Field label={t("edit.width")}>{(id) => <input id={id} type="number" min="1" max="256" value={step.width ?? 4} onInput={(event) => set("width")(Number(event.currentTarget.value) || 1)} />}</Field>
      {step.each && <fieldset><legend>{t("edit.each")}</legend><Body step={step.each} editor={editor} origins={origins} prefix="each." saved={saved?.each} put={(each, field) => put({ ...step, each }, field)} />
        <RuleForm step={step.each} prefix="each." put={(each, field) => put({ ...step, each }, field)} undoCall={undoForm(editor.plan)} /></fieldset>}
    </>
  );
}

// The call that takes a step back: its tool and arguments, which may be results of the step itself.
function undoForm(plan: Plan): (undo: Undo, put: (undo: Undo) => void) => JSX.Element {
  return (undo, put) => (
    <>
      <Name label={t("edit.tool")} from="/v1/tools" value={undo.tool} onChange={(tool) => put({ ...undo, tool })} />
      <Inputs inputs={undo.inputs ?? {}} origins={{}} path="undo_with.inputs" saved={undefined} plan={plan} own="" put={(inputs) => put({ ...undo, inputs })} />
    </>
  );
}

// A name out of what the server knows; any other may be typed, and the check tells.
function Name({ label, from, value, onChange }: { label: string; from: string; value: string | undefined; onChange: (text: string) => void }): JSX.Element {
  const known = useResource<{ items: { name: string }[] }>(from);
  const items = known.value?.items ?? [];
  return (
    <Field label={label}>{(id) => (
      <>
        <input id={id} class="mono" value={value ?? ""} list={`${id}-known`} autocomplete="off" onInput={(event) => onChange(event.currentTarget.value)} />
        <datalist id={`${id}-known`}>{items.map((each) => <option key={each.name} value={each.name} />)}</datalist>
      </>
    )}</Field>
  );
}

interface InputsProps { inputs: JsonObject; origins: Record<string, string>; path: string; saved: JsonObject | undefined; plan: Plan; own: string; put: (inputs: JsonObject, field: string) => void }

function Inputs({ inputs, origins, path, saved, plan, own, put }: InputsProps): JSX.Element {
  const [name, setName] = useState("");
  const names = Object.keys(inputs);
  const remove = (each: string): void => {
    const { [each]: _, ...rest } = inputs;
    put(rest, each);
  };
  const add = (): void => { if (name.trim() && !(name in inputs)) { put({ ...inputs, [name.trim()]: "" }, name); setName(""); } };
  const originOf = (each: string): string | undefined => {
    if (saved && !sameJson(saved[each], inputs[each])) return "edited";
    const here = `${path}.${each}`;
    return origins[here] ?? Object.entries(origins).find(([key]) => key.startsWith(`${here}.`))?.[1];
  };
  return (
    <fieldset class="inputs">
      <legend>{t("edit.arguments")}</legend>
      {names.length === 0 && <p class="dim">{t("edit.noArguments")}</p>}
      {names.map((each) => (
        <div key={each} class={`input ${originClass(originOf(each))}`}>
          <Argument name={each} value={inputs[each]!} origin={originOf(each)} others={plan.steps.filter((step) => step.id !== own).map((step) => step.id)}
            onChange={(value) => put({ ...inputs, [each]: value }, each)} onRemove={() => remove(each)} />
        </div>
      ))}
      <div class="row add">
        <input aria-label={t("edit.argumentName")} placeholder={t("edit.argumentName")} class="mono" value={name} onInput={(event) => setName(event.currentTarget.value)} />
        <Button icon="new" disabled={!name.trim()} onClick={add}>{t("edit.addArgument")}</Button>
      </div>
    </fieldset>
  );
}

function Argument({ name, value, origin, others, onChange, onRemove }: {
  name: string; value: Json; origin: string | undefined; others: string[]; onChange: (value: Json) => void; onRemove: () => void;
}): JSX.Element {
  // What is typed stays as typed while it means the value: `{"a": 1` on its way to JSON is text.
  const [text, setText] = useState(editable(value));
  const shownText = sameJson(typed(text), value) ? text : editable(value);
  const write = (next: string): void => { setText(next); onChange(typed(next)); };
  const complex = typeof value === "object" && value !== null && !isRawNumber(value);
  return (
    <Field label={name}>{(id) => (
      <>
        <Grow id={id} mono={complex || typeof value === "number"} value={shownText} onInput={write} />
        <div class="under">
          <Origin origin={origin} />
          <span class="grow" />
          {others.length > 0 && (
            <select aria-label={t("edit.fromStep")} value="" onChange={(event) => { if (event.currentTarget.value) write(`{{${event.currentTarget.value}}}`); event.currentTarget.value = ""; }}>
              <option value="">{t("edit.fromStep")}</option>
              {others.map((each) => <option key={each} value={each}>{each}</option>)}
            </select>
          )}
          <Button kind="quiet" icon="remove" onClick={onRemove} label={t("edit.removeArgument", { name })}>{""}</Button>
        </div>
      </>
    )}</Field>
  );
}

function After({ step, plan, put }: { step: Step; plan: Plan; put: (step: Step, field: string) => void }): JSX.Element {
  const after = step.after ?? [];
  const others = plan.steps.map((each) => each.id).filter((each) => each !== step.id && !after.includes(each));
  const implied = (needs(plan)[step.id] ?? []).filter((each) => !after.includes(each));
  return (
    <Field label={t("edit.after")}>{(id) => (
      <div class="after">
        {implied.map((each) => <span key={each} class="chip origin-step">{each}</span>)}
        {after.map((each) => (
          <span key={each} class="chip">{each}<button type="button" aria-label={t("edit.removeArgument", { name: each })} onClick={() => put({ ...step, after: after.filter((name) => name !== each) }, "after")}>×</button></span>
        ))}
        <select id={id} value="" onChange={(event) => { if (event.currentTarget.value) put({ ...step, after: [...after, event.currentTarget.value] }, "after"); }}>
          <option value="">+</option>
          {others.map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
      </div>
    )}</Field>
  );
}

function AsJson({ step, put }: { step: Step; put: (step: Step, field: string) => void }): JSX.Element {
  const [text, setText] = useState<string>();
  const [flaw, setFlaw] = useState("");
  const write = (next: string): void => {
    setText(next);
    try {
      const value = parseExactly(next) as unknown as Step;
      setFlaw("");
      put({ ...value, id: step.id }, "json");
    } catch (error) {
      setFlaw(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <details onToggle={() => { setText(undefined); setFlaw(""); }}>
      <summary>{t("edit.json")}</summary>
      <Grow mono label={t("edit.json")} rows={6} value={text ?? shown(step as unknown as Json, 2)} onInput={write} invalid={flaw !== ""} />
      {flaw && <p class="bad small" role="alert">{t("edit.badJson", { why: flaw })}</p>}
    </details>
  );
}
