// Every status is an icon, a word and a colour, so that none of the three is needed alone.

import type { JSX } from "preact";
import { earlierOf } from "../data/refs";
import type { Effect, RunStatus, StepStatus } from "../data/types";
import { link } from "../route";
import { t } from "../words/words";
import { Icon } from "./icons";

export function RunBadge({ status }: { status: RunStatus }): JSX.Element {
  return <span class={`badge s-${status}`}><Icon name={status} />{t(`run.${status}`)}</span>;
}

export function StepBadge({ status }: { status: StepStatus }): JSX.Element {
  return <span class={`badge s-${status}`}><Icon name={status} />{t(`step.${status}`)}</span>;
}

export function StepIcon({ status }: { status: StepStatus }): JSX.Element {
  return <span class={`mark s-${status}`}><Icon name={status} title={t(`step.${status}`)} /></span>;
}

export function EffectChip({ effect }: { effect: Effect | undefined }): JSX.Element | null {
  return effect ? <span class={`chip effect-${effect}`}>{t(`effect.${effect}`)}</span> : null;
}

const ORIGINS = ["person", "request", "model", "rules", "template", "parameter", "submitted", "program", "rerun", "default", "edited"] as const;

type NameOf = (step: string) => string;
const own: NameOf = (step) => step;

export function Origin({ origin, nameOf = own }: { origin: string | undefined; nameOf?: NameOf }): JSX.Element | null {
  const text = originText(origin, nameOf);
  if (!origin || !text) return null;
  const step = origin.startsWith("step:") ? origin.slice(5) : "";
  const earlier = earlierOf(step);
  if (earlier) return <a class="chip origin-step" href={link(["runs", earlier.run, "run", earlier.step])}>{text}</a>;
  return <span class={`chip origin-${step ? "step" : origin}`}>{text}</span>;
}

// Where a value comes from, as a text; empty where nobody knows.
export function originText(origin: string | undefined, nameOf = own): string {
  if (!origin) return "";
  const step = origin.startsWith("step:") ? origin.slice(5) : "";
  const earlier = earlierOf(step);
  if (earlier) return t("origin.earlier", { step: earlier.step });
  if (step) return t("origin.step", { step: nameOf(step) });
  const known = ORIGINS.find((each) => each === origin);
  return known ? t(`origin.${known}`) : "";
}

export const originClass = (origin: string | undefined): string =>
  !origin ? "" : origin.startsWith("step:") ? "from-step" : `from-${origin}`;
