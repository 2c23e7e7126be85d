// The steps as a list, which is as strong as the graph: kind, effect, needs, arguments, problems.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { needs } from "../data/graph";
import { isRawNumber, readable } from "../data/json";
import { KINDS } from "../data/types";
import type { Checked, Json, Kind, Plan, Step } from "../data/types";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { EffectChip, Origin, originClass } from "../ui/status";
import { VirtualList } from "../ui/virtual";
import { t } from "../words/words";
import type { Editor } from "./editing";
import { KIND_ICONS } from "./graph";
import { callee, flagOf, stepName } from "./steptext";

interface ListProps { plan: Plan; selected: string | undefined; hrefOf: (id: string) => string; checked: Checked }

export function StepList({ plan, selected, hrefOf, checked }: ListProps): JSX.Element {
  const graph = needs(plan);
  return (
    <VirtualList items={plan.steps} keyOf={(step) => step.id} guess={96} class="steps" shown={selected}>
      {(step, index, { key, ...row }) => {
        const flag = flagOf(checked.problems, step.id);
        const before = graph[step.id] ?? [];
        return (
          <li key={key} {...row} class={`${selected === step.id ? "on" : ""} ${step.disabled ? "off" : ""} ${flag ?? ""}`}>
            <a data-row href={hrefOf(step.id)} aria-current={selected === step.id ? "true" : undefined}>
              <span class="place">{index + 1}</span>
              <span class="mark kind"><Icon name={KIND_ICONS[step.kind]} title={t(`kind.${step.kind}`)} /></span>
              <span class="what"><b>{stepName(step)}</b><small><code>{step.id}</code>{callee(step) && <> · <code>{callee(step)}</code></>}{before.length > 0 && ` ← ${before.join(", ")}`}</small></span>
              <span class="chips">
                {step.disabled && <span class="chip">{t("edit.disabled")}</span>}
                <EffectChip effect={checked.effects.by_step[step.id]} />
                {flag && <Icon name={flag} title={flag} />}
              </span>
            </a>
            <Arguments step={step} origins={checked.origins[step.id] ?? {}} />
            <RuleList rules={checked.rules[step.id]} />
          </li>
        );
      }}
    </VirtualList>
  );
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

function Arguments({ step, origins }: { step: Step; origins: Record<string, string> }): JSX.Element | null {
  const texts = (["task", "question", "instruction", "over"] as const).filter((name) => step[name] !== undefined);
  const found = [
    ...texts.map((name) => ({ path: name, value: step[name]!, origin: origins[name] })),
    ...argumentsOf(step.inputs, origins, "inputs"),
    ...argumentsOf(step.each?.inputs, origins, "each.inputs"),
  ];
  if (found.length === 0) return null;
  return (
    <ul class="args">
      {found.map(({ path, value, origin }) => (
        <li key={path} class={originClass(origin)}><span class="name">{path.replace(/^(each\.)?inputs\./, "")}</span> <span class="value">{clip(readable(value))}</span> <Origin origin={origin} /></li>
      ))}
    </ul>
  );
}

const clip = (text: string): string => (text.length > 240 ? `${text.slice(0, 240)}…` : text);

const BLANK: Record<Kind, Partial<Step>> = {
  tool: { tool: "tool", inputs: {} },
  agent: { agent: "researcher", task: "…" },
  ask: { question: "…?" },
  map: { over: [], each: { id: "each", kind: "tool", tool: "tool", inputs: {} } },
  plan: { template: "template" },
  reply: { instruction: "…" },
};

export function newId(plan: Plan, base: string): string {
  const taken = new Set(plan.steps.map((step) => step.id));
  for (let number = 1; ; number++) if (!taken.has(`${base}_${number}`)) return `${base}_${number}`;
}

export function AddStep({ editor, onAdded }: { editor: Editor; onAdded: (id: string) => void }): JSX.Element {
  const [kind, setKind] = useState<Kind>("tool");
  const add = (): void => {
    const id = newId(editor.plan, kind);
    const step: Step = { ...structuredClone(BLANK[kind]), id, kind };
    editor.edit({ ...editor.plan, steps: [...editor.plan.steps, step] }, `add ${id}`);
    onAdded(id);
  };
  return (
    <div class="add">
      <select aria-label={t("edit.add")} value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
        {KINDS.map((each) => <option key={each} value={each}>{t(`kind.${each}`)}</option>)}
      </select>
      <Button icon="new" onClick={add}>{t("edit.add")}</Button>
    </div>
  );
}
