// The steps as a list: one compact row each, with its problems and what changed in it underneath.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { grouped } from "../data/fixes";
import type { Group } from "../data/fixes";
import { needs } from "../data/graph";
import { isRawNumber, readable } from "../data/json";
import { changesSince } from "../data/listdiff";
import { fieldsOf } from "../data/resulttree";
import type { Change, ListChanges } from "../data/listdiff";
import { KINDS } from "../data/types";
import type { Checked, Json, Kind, Plan, Step } from "../data/types";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { EffectChip, originClass, originText } from "../ui/status";
import { VirtualList } from "../ui/virtual";
import type { RowProps as ListRow } from "../ui/virtual";
import { t } from "../words/words";
import { Fields } from "./diffview";
import type { Editor } from "./editing";
import { KIND_ICONS } from "./graph";
import { ProblemList, useTools } from "./problems";
import { callee, stepName } from "./steptext";
import { plain } from "./steptitle";

interface ListProps {
  plan: Plan; selected: string | undefined; hrefOf: (id: string) => string; checked: Checked;
  // The plan that this one is compared with, step by step in the list.
  before?: Plan | undefined;
  // Only where the plan may be edited: problems then offer what mends them.
  editor?: Editor | undefined;
}

export function StepList({ plan, selected, hrefOf, checked, before, editor }: ListProps): JSX.Element {
  const graph = needs(plan);
  const names = useMemo(() => new Map(plan.steps.map((step) => [step.id, stepName(step)])), [plan]);
  const nameOf = (id: string): string => names.get(id) ?? id;
  const problems = useMemo(() => grouped(checked.problems, plan), [checked.problems, plan]);
  const changes = useMemo(() => changesSince(before, plan), [before, plan]);
  const entries = useMemo(() => entriesOf(plan, changes), [plan, changes]);
  const tools = useTools(editor !== undefined && checked.problems.some((each) => each.severity !== "note"));
  return (
    <>
      <ProblemList groups={problems.get("")} plan={plan} editor={editor} tools={tools} />
      {changes && changes.plan.length > 0 && <Fields fields={changes.plan} />}
      <VirtualList items={entries} keyOf={(entry) => (entry.gone ? `- ${entry.step.id}` : entry.step.id)} guess={45} class="steps compact" shown={selected}>
        {({ step, index, gone }, _, { key, ...row }) => (gone ? <Gone key={key} step={step} row={row} /> : (
          <Row key={key} row={row} step={step} index={index} on={selected === step.id} href={hrefOf(step.id)} checked={checked} change={changes?.of.get(step.id)}
            flag={flagOfGroups(problems.get(step.id))} waitsFor={(graph[step.id] ?? []).map(nameOf)} nameOf={nameOf}>
            <ProblemList groups={problems.get(step.id)} plan={plan} editor={editor} tools={tools} />
          </Row>
        ))}
      </VirtualList>
    </>
  );
}

interface Entry { step: Step; index: number; gone: boolean }

// The steps with those that are gone, where they stood.
function entriesOf(plan: Plan, changes: ListChanges | undefined): Entry[] {
  const gone = (place: number): Entry[] => (changes?.removedAt.get(place) ?? []).map((step) => ({ step, index: place, gone: true }));
  return [...plan.steps.flatMap((step, index) => [...gone(index), { step, index, gone: false }]), ...gone(plan.steps.length)];
}

function flagOfGroups(groups: Group[] | undefined): "error" | "warning" | undefined {
  const worst = groups?.[0]?.problem.severity;
  return worst === "error" || worst === "warning" ? worst : undefined;
}

type Place = Omit<ListRow, "key">;
interface RowProps {
  row: Place; step: Step; index: number; on: boolean; href: string; checked: Checked; change: Change | undefined;
  flag: "error" | "warning" | undefined; waitsFor: string[]; nameOf: (id: string) => string; children: JSX.Element;
}

function Row({ row, step, index, on, href, checked, change, flag, waitsFor, nameOf, children }: RowProps): JSX.Element {
  return (
    <li {...row} class={`${on ? "on" : ""} ${step.disabled ? "off" : ""} ${flag ?? ""} ${change?.added ? "added" : ""}`}>
      <a data-row href={href} aria-current={on ? "true" : undefined}>
        <span class="place">{index + 1}</span>
        <span class="mark kind"><Icon name={KIND_ICONS[step.kind]} title={t(`kind.${step.kind}`)} /></span>
        <span class="what">
          <b>{stepName(step)}</b>
          <small><Said step={step} origins={checked.origins[step.id] ?? {}} nameOf={nameOf} />{waitsFor.length > 0 && <span class="after-what"> {t("hero.after", { steps: waitsFor.join(", ") })}</span>}</small>
        </span>
        <span class="chips">
          {change?.added && <span class="chip plus">+ {t("diff.added")}</span>}
          {change && change.fields.length > 0 && <span class="chip origin-edited">± {t("diff.changed")}</span>}
          {change?.moved && <span class="chip">{t("diff.moved", change.moved)}</span>}
          {step.disabled && <span class="chip">{t("edit.disabled")}</span>}
          <EffectChip effect={checked.effects.by_step[step.id]} />
        </span>
      </a>
      {change && change.fields.length > 0 && <Fields fields={change.fields} />}
      <RuleList rules={checked.rules[step.id]} />
      {children}
    </li>
  );
}

// A step of the plan before that is not in this one.
function Gone({ step, row }: { step: Step; row: Place }): JSX.Element {
  return (
    <li {...row} class="removed"><p class="gone"><span class="place" /><span class="mark kind"><Icon name={KIND_ICONS[step.kind]} /></span>
      <span class="what"><b>{stepName(step)}</b>{callee(step) && <small><code>{callee(step)}</code></small>}</span><span class="chips"><span class="chip minus">− {t("diff.removed")}</span></span></p></li>
  );
}

// What is called, and its values in one line; their colour says where each comes from.
function Said({ step, origins, nameOf }: { step: Step; origins: Record<string, string>; nameOf: (id: string) => string }): JSX.Element {
  const found = spokenArguments(step, origins);
  return (
    <>
      {callee(step) && <code>{callee(step)}</code>}
      {found.map(({ path, value, origin }) => (
        <span key={path} class={`said ${originClass(origin)}`} title={originText(origin, nameOf)}>
          {" "}<i>{path.replace(/^(each\.)?inputs\./, "")}</i> {origin?.startsWith("step:run:") ? originText(origin) : <>{clip(plain(readable(value), nameOf))}<span class="unseen"> ({originText(origin, nameOf)})</span></>}
        </span>
      ))}
    </>
  );
}

function spokenArguments(step: Step, origins: Record<string, string>): Argument[] {
  const texts = (["task", "question", "instruction", "over"] as const).filter((name) => step[name] !== undefined);
  return [
    ...texts.map((name) => ({ path: t(`edit.${name}`), value: step[name]!, origin: origins[name] })),
    ...argumentsOf(step.inputs, origins, "inputs"),
    ...argumentsOf(step.each?.inputs, origins, "each.inputs"),
  ];
}

// The rules of a step, as the server says them.
export function RuleList({ rules }: { rules: string[] | undefined }): JSX.Element | null {
  if (!rules?.length) return null;
  return <ul class="args rules" aria-label={t("rule.label")}>{rules.map((each) => <li key={each}>{each}</li>)}</ul>;
}

export interface Argument { path: string; value: Json; origin: string | undefined }

// Arguments down to where their origins differ.
export function argumentsOf(value: Json | undefined, origins: Record<string, string>, path: string): Argument[] {
  const own = origins[path];
  const inside = Object.keys(origins).some((each) => each.startsWith(`${path}.`));
  const plain = value !== null && typeof value === "object" && !Array.isArray(value) && !isRawNumber(value) && !("$from" in value);
  if (plain && (inside || own === undefined)) {
    return Object.entries(value).flatMap(([name, child]) => argumentsOf(child, origins, `${path}.${name}`));
  }
  if (value === undefined) return [];
  const nested = Object.entries(origins).find(([each]) => each.startsWith(`${path}.`))?.[1];
  return [{ path, value, origin: own ?? nested }];
}

const clip = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text);

const BLANK: Record<Kind, Partial<Step>> = {
  tool: {},
  agent: { agent: "researcher", task: "…" },
  ask: { question: "…?" },
  map: { over: [] },
  plan: { template: "template" },
  reply: { instruction: "…" },
};

export function newId(plan: Plan, base: string): string {
  const taken = new Set(plan.steps.map((step) => step.id));
  for (let number = 1; ; number++) if (!taken.has(`${base}_${number}`)) return `${base}_${number}`;
}

export function AddStep({ editor, onAdded }: { editor: Editor; onAdded: (id: string) => void }): JSX.Element {
  const [wanted, setWanted] = useState("kind:tool");
  const [asked, setAsked] = useState(false);
  const tools = useTools(asked);
  const add = (): void => {
    const chosen = tools.find((each) => `tool:${each.name}` === wanted);
    const kind = chosen ? "tool" : (wanted.slice(5) as Kind);
    // What calls a tool begins with one that is there.
    const tool = chosen ?? (kind === "tool" || kind === "map" ? tools[0] : undefined);
    const id = newId(editor.plan, chosen ? chosen.name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 50) : kind);
    // The arguments that the tool needs are there at once, to be filled in.
    const inputs = Object.fromEntries(fieldsOf(tool?.schema).filter((each) => each.required).map((each) => [each.name, ""]));
    const call = { tool: tool?.name ?? "", inputs };
    const step: Step = { ...structuredClone(BLANK[kind]), ...(kind === "tool" ? call : kind === "map" ? { each: { id: "each", kind: "tool", ...call } } : {}), id, kind };
    editor.edit({ ...editor.plan, steps: [...editor.plan.steps, step] }, `add ${id}`);
    onAdded(id);
  };
  return (
    <div class="add">
      <select aria-label={t("edit.add")} value={wanted} onFocus={() => setAsked(true)} onPointerEnter={() => setAsked(true)} onChange={(event) => { setAsked(true); setWanted(event.currentTarget.value); }}>
        {KINDS.map((each) => <option key={each} value={`kind:${each}`}>{t(`kind.${each}`)}</option>)}
        {tools.length > 0 && <optgroup label={t("hero.tools")}>{tools.map((each) => <option key={each.name} value={`tool:${each.name}`}>{each.name}</option>)}</optgroup>}
      </select>
      <Button icon="new" onClick={add}>{t("edit.add")}</Button>
    </div>
  );
}
