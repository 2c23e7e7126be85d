// Planning, seen while it happens: phases, time, tokens, steps as they are written, repairs.

import type { JSX } from "preact";
import type { Draft, RunView, Step } from "../data/types";
import { useNow } from "../live/hooks";
import { Icon } from "../ui/icons";
import { duration, number, t } from "../words/words";
import { stepName, summary } from "./steptext";

const PHASES = ["triage", "context", "shortlist", "draft", "check", "repair"] as const;
type Phase = (typeof PHASES)[number];
const SAME: Record<string, Phase> = { parse: "check", mend: "check", lint: "check", estimate: "check", background: "context", triaging: "triage", planning: "draft" };

const phaseOf = (name: string): Phase | undefined => PHASES.find((each) => each === name) ?? SAME[name];

export function Planning({ run, drafts }: { run: RunView; drafts: Draft[] }): JSX.Element | null {
  const plans = run.phase === "triaging" || run.phase === "planning" || run.phase === "replanning";
  const shows = plans && run.status !== "asking" && (run.plan === null || drafts.length > 0);
  const now = useNow(shows);
  if (!shows) return null;
  const last = drafts.at(-1);
  const seen = new Set(drafts.map((draft) => phaseOf(draft.phase)).filter(Boolean));
  const current = (last && phaseOf(last.phase)) ?? (run.phase === "triaging" ? "triage" : "draft");
  const steps = written(drafts);
  const told = drafts.filter((draft) => draft.begins && draft.text && phaseOf(draft.phase) === "repair");
  const raw = writing(drafts);
  const tokens = drafts.reduce((most, draft) => Math.max(most, draft.tokens ?? 0), 0);
  return (
    <section class="panel planning" aria-labelledby="planning-title">
      <div class="line">
        <h2 id="planning-title">{t("planning.title")}</h2>
        <span class="facts">
          <span>{duration((now - Date.parse(run.plan ? run.updated_at : run.created_at)) / 1000)}</span>
          <span>{number(run.tokens + tokens)} {t("usage.tokens")}</span>
        </span>
      </div>
      <ol class="phases" aria-label={t("planning.phases")}>
        {PHASES.filter((phase) => phase !== "repair" || seen.has("repair")).map((phase) => {
          const state = phase === current ? "running" : seen.has(phase) || PHASES.indexOf(phase) < PHASES.indexOf(current) ? "done" : "waiting";
          return <li key={phase} class={`s-${state}`} aria-current={state === "running" ? "step" : undefined}><Icon name={state} />{t(`planning.${phase}`)}</li>;
        })}
      </ol>
      <Progress draft={drafts.findLast((draft) => draft.progress || draft.begins || draft.text || draft.step)} pace={drafts.findLast((draft) => draft.pace)?.pace} />
      <h3>{t("planning.steps")}</h3>
      {steps.length === 0 ? <p class="dim">{t("planning.noSteps")}</p> : (
        <ol class="written">
          {steps.map((step) => <li key={step.id}><b>{stepName(step)}</b><small>{summary(step)}</small></li>)}
        </ol>
      )}
      {told.length > 0 && (
        <details class="strip" open>
          <summary>{t("planning.problems")}</summary>
          <ul>{told.slice(-6).map((draft, index) => <li key={index}>{draft.text}</li>)}</ul>
        </details>
      )}
      {raw && <details class="raw"><summary>{t("planning.raw")}</summary><pre class="json" tabIndex={0}>{raw}</pre></details>}
      <p class="dim small">{t("planning.safe")}</p>
    </section>
  );
}

// How far a slow model is: the share of the prompt it has read, then how fast it writes.
function Progress({ draft, pace }: { draft: Draft | undefined; pace: string | undefined }): JSX.Element | null {
  if (draft?.share !== undefined) {
    return <div class="reading"><progress value={draft.share} max={100} aria-label={t("planning.reading", { share: draft.share })} /><span class="small">{t("planning.reading", { share: draft.share })}</span></div>;
  }
  if (pace) return <p class="small dim">{t("planning.speed", { count: pace })}</p>;
  return draft?.progress ? <p class="small dim">{draft.progress}</p> : null;
}

// What the model writes in the stage that goes on.
function writing(drafts: Draft[]): string {
  const from = drafts.findLastIndex((draft) => draft.begins);
  return drafts.slice(from + 1).map((draft) => (draft.step ? "" : draft.text ?? "")).join("");
}

// The steps of the newest draft: a step drafted again replaces its older self.
function written(drafts: Draft[]): Step[] {
  const from = drafts.findLastIndex((draft) => draft.begins && draft.phase === "draft");
  const steps = new Map<string, Step>();
  for (const { step } of drafts.slice(Math.max(0, from))) if (step?.id) steps.set(step.id, { kind: "tool", ...step, id: step.id });
  return [...steps.values()];
}
