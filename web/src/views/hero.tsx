// The plan at a glance: what it does to the world, how long and for how much, and why it is asked about.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Checked, Plan, RunView } from "../data/types";
import { Icon } from "../ui/icons";
import { Prose } from "../ui/prose";
import { Origin } from "../ui/status";
import { duration, money, number, t } from "../words/words";
import { titled } from "./steptext";
import { timesOf } from "./timing";

interface Props { run: RunView; plan: Plan; checked: Checked; children: ComponentChildren }

export function Hero({ run, plan, checked, children }: Props): JSX.Element {
  const { effects, estimate } = checked;
  // A plan that has just come in is shown before the server has told what it does.
  const parts = plan.steps.length === 0 ? [t("hero.noSteps")] : !checked.hash ? [t("edit.checking")] : [
    effects.read > 0 && t("review.reads", { count: effects.read }),
    effects.write > 0 && t("review.writes", { count: effects.write }),
    effects.final > 0 && t("review.finals", { count: effects.final }),
    effects.write + effects.final === 0 && t("review.noEffects"),
  ].filter(Boolean);
  return (
    <section class="hero" aria-label={t("hero.label")}>
      <div class="hero-line">
        <span class={`effects ${effects.final ? "final" : effects.write ? "write" : ""}`}>{parts.join(" · ")}</span>
        {estimate && <span>{t("hero.about", { time: duration(estimate.seconds) })}</span>}
        {estimate && <span>{costOf(estimate.cost_usd, estimate.tokens)}</span>}
        {effects.hosts.length > 0 && <span class="final">{t("review.hosts", { hosts: effects.hosts.join(", ") })}</span>}
        {checked.hash && plan.steps.length > 0 && <Verdict checked={checked} />}
        <span class="grow" />
        {children}
      </div>
      <dl class="hero-notes">
        <Row name={t("schedules.when")} texts={timesOf(plan)} />
        {run.status === "reviewing" && <Row name={t("review.why")} texts={(run.review?.reasons ?? []).map((each) => titled(each, plan))} ask />}
        <Row name={t("review.assumptions")} texts={plan.assumptions ?? []} />
        <Row name={t("hero.thought")} texts={plan.thought ? [plan.thought] : []} />
      </dl>
      <details class="hero-more small">
        <summary>{t("hero.more")}</summary>
        <dl class="hero-notes">
          <Row name={t("review.basis")} texts={estimate?.basis ?? []} />
          <Row name={t("review.folder")} texts={run.folder ? [run.folder] : []} />
          <div><dt>{t("review.origins")}</dt><dd class="legend"><Origin origin="request" /> <Origin origin="person" /> <Origin origin="model" /> <Origin origin="step:…" /> <Origin origin="default" /></dd></div>
        </dl>
      </details>
    </section>
  );
}

function costOf(usd: string | null, tokens: number): string {
  if (tokens === 0) return t("hero.noModel");
  return usd === null ? t("hero.tokens", { count: number(tokens) }) : money(usd);
}

function Verdict({ checked }: { checked: Checked }): JSX.Element {
  const count = (severity: string): number => checked.problems.filter((each) => each.severity === severity).length;
  const [errors, warnings] = [count("error"), count("warning")];
  if (errors) return <span class="bad" role="status"><Icon name="error" />{t("hero.errors", { count: errors })}</span>;
  if (warnings) return <span class="warn" role="status"><Icon name="warning" />{t("hero.warnings", { count: warnings })}</span>;
  return <span class="good" role="status"><Icon name="done" />{t("review.noProblems")}</span>;
}

// One line each; what is longer opens by a press and is never cut for good.
function Row({ name, texts, ask = false }: { name: string; texts: string[]; ask?: boolean }): JSX.Element | null {
  const [open, setOpen] = useState(false);
  if (texts.length === 0) return null;
  const whole = texts.join(" · ");
  const long = whole.length > 110;
  return (
    <div class={ask ? "ask" : ""}>
      <dt>{name}</dt>
      <dd class={long && !open ? "one-line" : ""}>
        {open && texts.length > 1 ? <ul>{texts.map((each) => <li key={each}><Prose text={each} /></li>)}</ul> : <span><Prose text={whole} /></span>}
        {long && <button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)}>{t(open ? "hero.less" : "hero.whole")}</button>}
      </dd>
    </div>
  );
}
