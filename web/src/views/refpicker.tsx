// Picking a value out of what an earlier step gives: a tree of its result, so that nobody types a reference.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { dependents, needs } from "../data/graph";
import { partsOfResult, partsOfSchema } from "../data/resulttree";
import type { Part } from "../data/resulttree";
import type { Json, JsonObject, Plan, RunView, Step } from "../data/types";
import { useResource } from "../live/hooks";
import { Button } from "../ui/parts";
import { t } from "../words/words";
import { stepName } from "./steptext";

interface Props { run: RunView; plan: Plan; own: string; inMap: boolean; name: string; onPick: (token: string) => void }

// Steps that do not wait for this one: their results can be used in it.
export function usable(plan: Plan, own: string): Step[] {
  const reverse = dependents(needs(plan));
  const behind = new Set([own]);
  for (const id of behind) for (const next of reverse[id] ?? []) behind.add(next);
  return plan.steps.filter((step) => !behind.has(step.id) && step.kind !== "reply");
}

export function RefPicker({ run, plan, own, inMap, name, onPick }: Props): JSX.Element | null {
  const [open, setOpen] = useState(false);
  const steps = usable(plan, own);
  if (steps.length === 0 && !inMap) return null;
  const pick = (token: string): void => { setOpen(false); onPick(token); };
  return (
    <div class="picker">
      <Button kind="quiet" icon="right" expanded={open} label={t("pick.for", { name })} onClick={() => setOpen(!open)}>{t("edit.fromStep")}</Button>
      {open && (
        <ul class="tree" aria-label={t("edit.fromStep")}>
          {inMap && <li><button type="button" class="part" onClick={() => pick("{{item}}")}>{t("pick.item")}</button></li>}
          {steps.map((step) => <Source key={step.id} run={run} step={step} onPick={pick} />)}
        </ul>
      )}
    </div>
  );
}

interface Known { items: { name: string; output?: JsonObject | null }[] }

function Source({ run, step, onPick }: { run: RunView; step: Step; onPick: (token: string) => void }): JSX.Element {
  const [open, setOpen] = useState(false);
  const result = run.steps[step.id]?.result;
  const has = result !== undefined && result !== null && !run.steps[step.id]?.clipped;
  const tools = useResource<Known>(open && !has && step.tool ? "/v1/tools" : null);
  const schema = tools.value?.items.find((each) => each.name === step.tool)?.output;
  const fromSchema = partsOfSchema(schema ?? undefined);
  const last = useResource<{ result: Json }>(open && tools.value && fromSchema.length === 0 ? `/v1/tools/last-result?tool=${encodeURIComponent(step.tool!)}` : null);
  const parts = has ? partsOfResult(result) : fromSchema.length ? fromSchema : partsOfResult(last.value?.result ?? undefined);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{stepName(step)}</summary>
        <ul>
          <li><button type="button" class="part" onClick={() => onPick(`{{${step.id}}}`)}>{t("pick.whole")}</button></li>
          {parts.map((part) => <Leaf key={part.path} step={step.id} part={part} onPick={onPick} />)}
          {open && parts.length === 0 && <li class="dim small">{t("pick.unknown")}</li>}
        </ul>
      </details>
    </li>
  );
}

function Leaf({ step, part, onPick }: { step: string; part: Part; onPick: (token: string) => void }): JSX.Element {
  const button = <button type="button" class="part" onClick={() => onPick(`{{${step}${part.path}}}`)}><b>{part.name}</b> <small>{part.hint}</small></button>;
  if (part.parts.length === 0) return <li>{button}</li>;
  return <li>{button}<ul>{part.parts.map((each) => <Leaf key={each.path} step={step} part={each} onPick={onPick} />)}</ul></li>;
}
