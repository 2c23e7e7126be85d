// Usage: runs by status, tokens and cost by day and model.

import type { JSX } from "preact";
import { RUN_STATUSES } from "../data/types";
import type { Json } from "../data/types";
import { useResource } from "../live/hooks";
import { endsRun } from "../live/wakes";
import { link } from "../route";
import { Empty, Head, Shown } from "../ui/parts";
import { RunBadge } from "../ui/status";
import { duration, money, number, percent, spent, t } from "../words/words";

interface Day { day: string; runs: number; tokens: number; cost_usd: string }
interface Metrics {
  runs: Record<string, number>;
  tokens: number;
  cost_usd: string;
  by_day: Day[];
  by_model: { model: string; calls: number; tokens: number }[];
  planning: Record<string, Json>;
}

const DAYS = 30;
// What the server tells of planning, in the order in which a person asks.
const FIGURES = [
  "requests", "parse_success", "parsed_at_once", "enough_context", "degraded", "mean_steps", "mean_iterations", "mean_repairs",
  "mean_seconds", "tokens", "cost_usd", "requests_of_unknown_cost",
] as const;
const SHARES: ReadonlySet<string> = new Set(["parse_success", "parsed_at_once", "enough_context", "degraded"]);

function figure(name: string, value: Json | undefined): string {
  if (name === "cost_usd") return typeof value === "string" ? money(value) : "";
  if (typeof value !== "number") return "";
  if (SHARES.has(name)) return percent(value);
  return name === "mean_seconds" ? duration(value) : number(Math.round(value * 10) / 10);
}

export function UsageView(): JSX.Element {
  const metrics = useResource<Metrics>("/v1/metrics", endsRun);
  return (
    <>
      <Head title={t("usage.title")} />
      <Shown of={metrics}>{(value) => Object.keys(value.runs).length === 0
        ? <Empty icon="usage" title={t("usage.empty")} why={t("usage.emptyWhy")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>
        : <All metrics={value} />}</Shown>
    </>
  );
}

function All({ metrics }: { metrics: Metrics }): JSX.Element {
  const planning = FIGURES.flatMap((name) => { const text = figure(name, metrics.planning?.[name]); return text ? [[name, text] as const] : []; });
  return (
    <>
      <dl class="summary">
        <div><dt>{t("runs.title")}</dt><dd>{number(Object.values(metrics.runs).reduce((sum, each) => sum + each, 0))}</dd></div>
        <div><dt>{t("review.tokens")}</dt><dd>{number(metrics.tokens)}</dd></div>
        <div><dt>{t("review.cost")}</dt><dd>{spent(metrics)}</dd></div>
      </dl>
      <section><h2>{t("usage.runs")}</h2>
        <ul class="counts">{RUN_STATUSES.filter((each) => metrics.runs[each]).map((each) => (
          <li key={each}><a href={link(["runs"], { status: each })}><RunBadge status={each} /> {number(metrics.runs[each]!)}</a></li>))}</ul></section>
      <section><h2>{t("usage.days")}</h2><Bars days={metrics.by_day.slice(-DAYS)} /></section>
      {metrics.by_model.length > 0 && (
        <section><h2>{t("usage.models")}</h2>
          <table><thead><tr><th>{t("settings.model")}</th><th class="right">{t("figure.calls")}</th><th class="right">{t("review.tokens")}</th></tr></thead>
            <tbody>{metrics.by_model.map((each) => <tr key={each.model}><td><code>{each.model}</code></td><td class="right">{number(each.calls)}</td><td class="right">{number(each.tokens)}</td></tr>)}</tbody></table></section>
      )}
      {planning.length > 0 && (
        <section><h2>{t("usage.planning")}</h2>
          <table><thead><tr><th>{t("usage.figure")}</th><th class="right">{t("usage.value")}</th></tr></thead>
            <tbody>{planning.map(([name, text]) => <tr key={name}><td>{t(`figure.${name}`)}</td><td class="right">{text}</td></tr>)}</tbody></table></section>
      )}
    </>
  );
}

function Bars({ days }: { days: Day[] }): JSX.Element {
  const most = Math.max(1, ...days.map((day) => day.tokens));
  return (
    <ul class="bars">
      {days.map((day) => (
        <li key={day.day}>
          <span>{day.day}</span>
          <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width={(day.tokens / most) * 100} height="10" rx="1" /></svg>
          <span>{number(day.tokens)} {t("usage.tokens")} · {spent(day)} · {t("figure.runs", { count: number(day.runs) })}</span>
        </li>
      ))}
    </ul>
  );
}
