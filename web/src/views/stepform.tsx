// The editor of one step: its fields by kind, its arguments with their origin, or all as JSON.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { needs } from "../data/graph";
import { grouped } from "../data/fixes";
import { parseExactly, shown } from "../data/json";
import type { Json, JsonObject, Plan, RunView, Step } from "../data/types";
import { useResource } from "../live/hooks";
import { Button, Field, Grow } from "../ui/parts";
import { EffectChip } from "../ui/status";
import { t } from "../words/words";
import { Inputs, ValueBox } from "./arguments";
import type { Editor } from "./editing";
import { ProblemList, useTools } from "./problems";
import { RefPicker } from "./refpicker";
import { RuleForm } from "./ruleform";
import type { Undo } from "./ruleform";
import { newId } from "./steplist";
import { nameIn } from "./steptext";

interface Props { run: RunView; step: Step; editor: Editor; saved: Plan; onSelect: (id: string | undefined) => void }

export function StepForm({ run, step, editor, saved, onSelect }: Props): JSX.Element {
  const { plan, checked } = editor;
  const index = plan.steps.findIndex((each) => each.id === step.id);
  // No step stands above one that it waits for: it would look as if it ran before it.
  const [above, below] = [plan.steps[index - 1], plan.steps[index + 1]];
  const graph = needs(plan);
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
  const problems = grouped(checked.problems, plan).get(step.id);
  const tools = useTools(problems !== undefined);
  return (
    <div class="form">
      <h3>{t(`kind.${step.kind}`)} <code>{step.id}</code> <EffectChip effect={checked.effects.by_step[step.id]} /></h3>
      <div class="actions">
        {above && !graph[step.id]?.includes(above.id) && <Button kind="quiet" icon="up" onClick={() => move(-1)} label={t("edit.up")}>{""}</Button>}
        {below && !graph[below.id]?.includes(step.id) && <Button kind="quiet" icon="down" onClick={() => move(1)} label={t("edit.down")}>{""}</Button>}
        <Button kind="quiet" icon="copy" onClick={copy}>{t("edit.copy")}</Button>
        <Button kind="quiet" icon="remove" onClick={remove}>{t("edit.remove")}</Button>
      </div>
      <ProblemList groups={problems} plan={plan} editor={editor} tools={tools} />
      <Text label={t("edit.title")} value={step.title} onChange={(title) => put({ ...step, title }, "title")} />
      <Body run={run} step={step} editor={editor} origins={checked.origins[step.id] ?? {}} prefix="" saved={saved.steps.find((each) => each.id === step.id)} put={put} />
      <After step={step} plan={plan} put={put} />
      <Text label={t("edit.why")} value={step.why} onChange={(why) => put({ ...step, why }, "why")} />
      <div class="row">
        <Field label={t("edit.timeout")}>{(id) => <input id={id} type="number" min="1" value={step.timeout_s === undefined ? "" : shown(step.timeout_s)}
          onInput={(event) => put(timed(step, event.currentTarget.value), "timeout_s")} />}</Field>
        <label class="check"><input type="checkbox" checked={step.disabled ?? false} onChange={(event) => put(switched(step, event.currentTarget.checked), "disabled")} />{t("edit.disabled")}</label>
      </div>
      <RuleForm step={step} prefix="" put={put} undoCall={undoForm(run, plan)} />
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

interface BodyProps { run: RunView; step: Step; editor: Editor; origins: Record<string, string>; prefix: string; saved: Step | undefined; put: (step: Step, field: string) => void }

function Body({ run, step, editor, origins, prefix, saved, put }: BodyProps): JSX.Element {
  const set = (field: keyof Step) => (value: Json): void => put({ ...step, [field]: value }, prefix + field);
  const schema = useSchema(step.kind === "tool" ? step.tool : undefined);
  const outer = prefix ? editor.plan.steps.find((each) => each.each?.id === step.id)?.id ?? step.id : step.id;
  const inputs = (
    <Inputs inputs={step.inputs ?? {}} origins={origins} path={`${prefix}inputs`} saved={saved?.inputs} schema={schema}
      around={{ run, plan: editor.plan, own: outer, inMap: prefix !== "" }} put={(next, field) => put({ ...step, inputs: next }, `${prefix}inputs.${field}`)} />
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
      <Field label={t("edit.over")}>{(id) => <><ValueBox id={id} value={step.over ?? []} onChange={set("over")} />
        <div class="under"><RefPicker run={run} plan={editor.plan} own={outer} inMap={false} name={t("edit.over")} onPick={set("over")} /></div></>}</Field>
      <Field label={t("edit.width")}>{(id) => <input id={id} type="number" min="1" max="256" value={step.width ?? 4} onInput={(event) => set("width")(Number(event.currentTarget.value) || 1)} />}</Field>
      {step.each && <fieldset><legend>{t("edit.each")}</legend><Body run={run} step={step.each} editor={editor} origins={origins} prefix="each." saved={saved?.each} put={(each, field) => put({ ...step, each }, field)} />
        <RuleForm step={step.each} prefix="each." put={(each, field) => put({ ...step, each }, field)} undoCall={undoForm(run, editor.plan)} /></fieldset>}
    </>
  );
}

// The call that takes a step back: its tool and arguments, which may be results of the step itself.
function undoForm(run: RunView, plan: Plan): (undo: Undo, put: (undo: Undo) => void) => JSX.Element {
  return (undo, put) => (
    <>
      <Name label={t("edit.tool")} from="/v1/tools" value={undo.tool} onChange={(tool) => put({ ...undo, tool })} />
      <Inputs inputs={undo.inputs ?? {}} origins={{}} path="undo_with.inputs" saved={undefined} schema={undefined}
        around={{ run, plan, own: "", inMap: false }} put={(inputs) => put({ ...undo, inputs })} />
    </>
  );
}

function useSchema(tool: string | undefined): JsonObject | null | undefined {
  const tools = useResource<{ items: { name: string; schema?: JsonObject | null }[] }>(tool === undefined ? null : "/v1/tools");
  return tools.value?.items.find((each) => each.name === tool)?.schema;
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

function After({ step, plan, put }: { step: Step; plan: Plan; put: (step: Step, field: string) => void }): JSX.Element {
  const after = step.after ?? [];
  const others = plan.steps.map((each) => each.id).filter((each) => each !== step.id && !after.includes(each));
  const implied = (needs(plan)[step.id] ?? []).filter((each) => !after.includes(each));
  return (
    <Field label={t("edit.after")}>{(id) => (
      <div class="after">
        {implied.map((each) => <span key={each} class="chip origin-step">{nameIn(plan, each)}</span>)}
        {after.map((each) => (
          <span key={each} class="chip">{nameIn(plan, each)}<button type="button" aria-label={t("edit.removeArgument", { name: nameIn(plan, each) })} onClick={() => put({ ...step, after: after.filter((name) => name !== each) }, "after")}>×</button></span>
        ))}
        <select id={id} value="" onChange={(event) => { if (event.currentTarget.value) put({ ...step, after: [...after, event.currentTarget.value] }, "after"); }}>
          <option value="">+</option>
          {others.map((each) => <option key={each} value={each}>{nameIn(plan, each)}</option>)}
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
