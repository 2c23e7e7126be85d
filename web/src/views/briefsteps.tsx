// The steps of a plan that is approved, in short: what each calls, with all its values.

import type { JSX } from "preact";
import { readable } from "../data/json";
import type { Effects, Plan, Step } from "../data/types";
import { EffectChip } from "../ui/status";
import { callee, nameIn, stepName, summary } from "./steptext";
import { named } from "./steptitle";
import "../styles/desk.css";

export const BriefSteps = ({ plan, effects }: { plan: Plan; effects?: Effects | undefined }): JSX.Element =>
  <ol class="brief">{plan.steps.map((step) => <Line key={step.id} step={step} effects={effects} nameOf={(id) => nameIn(plan, id)} />)}</ol>;

// Every argument of a step that changes something is here whole: it is what is approved.
function Line({ step, effects, nameOf }: { step: Step; effects: Effects | undefined; nameOf: (id: string) => string }): JSX.Element {
  const inputs = Object.entries((step.kind === "map" ? step.each?.inputs : step.inputs) ?? {});
  return (
    <li class={step.disabled ? "off" : ""}>
      <span class="what"><b>{stepName(step)}</b> <small>{callee(step) ? <code>{callee(step)}</code> : summary(step)}</small>
        {inputs.length > 0 && <span class="inputs">{inputs.map(([name, value]) => <span key={name}><i>{name}</i> {named(readable(value), nameOf)}</span>)}</span>}
      </span>
      <EffectChip effect={effects?.by_step[step.id]} />
    </li>
  );
}
