// The steps of a run as a list: what each does now, how long it took, and what came of it.

import type { JSX } from "preact";
import { firstLines } from "../data/conversation";
import { needs } from "../data/graph";
import type { Plan, RunView, Step, StepView } from "../data/types";
import { VirtualList } from "../ui/virtual";
import type { RowProps } from "../ui/virtual";
import { EffectChip, StepIcon } from "../ui/status";
import { t } from "../words/words";
import { previewOf } from "./preview";
import { callee, collectedOf, nameIn, roundText, stepName } from "./steptext";
import { tookText } from "./times";

const ROW = 58;

interface Props { run: RunView; plan: Plan; selected: string | undefined; hrefOf: (id: string) => string; now: number }

export function LiveList({ run, plan, selected, hrefOf, now }: Props): JSX.Element {
  const graph = needs(plan);
  const parts = partsOf(run);
  const chosen = selected?.split("/")[0];
  return (
    <VirtualList items={plan.steps} keyOf={(step) => step.id} guess={ROW} class="steps live" shown={chosen}>
      {(step, index, row) => <Row step={step} place={index + 1} run={run} state={run.steps[step.id]} before={graph[step.id] ?? []} parts={parts.get(step.id) ?? 0}
        on={chosen === step.id} current={selected === step.id} href={hrefOf(step.id)} now={now} row={row} {...{ key: row.key }} />}
    </VirtualList>
  );
}

interface RowOf {
  step: Step; place: number; run: RunView; state: StepView | undefined; before: string[]; parts: number;
  on: boolean; current: boolean; href: string; now: number; row: RowProps;
}

function Row({ step, place, run, state, before, parts, on, current, href, now, row }: RowOf): JSX.Element {
  const { key: _, ...marks } = row;
  const round = roundText(run, step);
  const collected = collectedOf(run, step);
  return (
    <li {...marks} class={`${on ? "on" : ""} ${step.disabled ? "off" : ""}`}>
      <a data-row href={href} aria-current={current ? "true" : undefined}>
        <span class="place">{place}</span>
        <StepIcon status={state?.status ?? "waiting"} />
        <span class="what">
          <b>{stepName(step)}</b>
          <small class="how"><code>{callee(step) || step.id}</code>{before.length > 0 && ` ← ${few(before.map((id) => nameIn(run.plan, id)))}`}{round ? ` · ${round}` : parts > 0 && ` · ${t("go.part", { count: parts })}`}</small>
          {collected > 0 && <small class="bad">{t("go.collected", { count: collected })}</small>}
          <Outcome step={step} state={state} />
        </span>
        <span class="chips"><EffectChip effect={effectShown(run, step.id)} />{state && <span class={`word s-${state.status}`}>{t(`step.${state.status}`)}</span>}<span class="time">{state && tookText(state, now)}</span></span>
      </a>
    </li>
  );
}

// What it does now, why it did not work, or what came of it.
function Outcome({ step, state }: { step: Step; state: StepView | undefined }): JSX.Element | null {
  if (!state) return null;
  if (state.error) return <small class={skippedByPlan(state) ? "" : "bad"}>{state.error.slice(0, 300)}</small>;
  if (state.status === "running") return state.progress ? <small class="says">{state.progress.slice(-300)}</small> : null;
  const { result } = state;
  const preview = state.status === "done" ? previewOf(step.kind === "reply" && typeof result === "string" ? firstLines(result) : result) : "";
  return preview ? <small class="result">{preview}</small> : null;
}

const few = (names: string[]): string => (names.length > 4 ? `${names.slice(0, 4).join(", ")} … ${names.length}` : names.join(", "));

// The plan itself says that a step is skipped if its condition does not hold: that is no failure.
const skippedByPlan = (state: StepView): boolean => state.rule === "when" || state.rule === "need";

// How many parts each map or plan step has, counted in one pass.
function partsOf(run: RunView): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name in run.steps) {
    const slash = name.indexOf("/");
    if (slash > 0) counts.set(name.slice(0, slash), (counts.get(name.slice(0, slash)) ?? 0) + 1);
  }
  return counts;
}

// Reading is what most steps do; only what changes something is worth a mark here.
const effectShown = (run: RunView, step: string): "write" | "final" | undefined => {
  const effect = run.effects.by_step[step];
  return effect === "read" ? undefined : effect;
};
