// Runs: all of them, newest first, with a filter that is part of the address.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { RUN_STATUSES } from "../data/types";
import type { RunRow, RunStatus } from "../data/types";
import { get } from "../live/api";
import { useNow, useResource } from "../live/hooks";
import { changesRows } from "../live/wakes";
import { go, link } from "../route";
import type { Route } from "../route";
import { Button, Empty, Head, Shown, moveByArrows } from "../ui/parts";
import { RunBadge } from "../ui/status";
import { ago, money, t } from "../words/words";

interface Rows { items: RunRow[]; next: string | null }

export function RunsView({ route }: { route: Route }): JSX.Element {
  const q = route.query.get("q") ?? "";
  const status = route.query.get("status") ?? "";
  const search = new URLSearchParams({ limit: "50", ...(q ? { q } : {}), ...(status ? { status } : {}) });
  const path = `/v1/runs?${search.toString()}`;
  const rows = useResource<Rows>(path, changesRows);
  const [older, setOlder] = useState<Rows>();
  useEffect(() => setOlder(undefined), [path]);
  const next = older ? older.next : rows.value?.next;
  const more = (): void => {
    void get<Rows>(`${path}&cursor=${encodeURIComponent(next!)}`).then((page) =>
      setOlder({ items: [...(older?.items ?? []), ...page.items], next: page.next }));
  };
  const filter = (change: Record<string, string>): void => go(["runs"], { q, status, ...change }, true);
  return (
    <>
      <Head title={t("runs.title")}><a class="button primary" href="#/">{t("rail.new")}</a></Head>
      <div class="filters">
        <input type="search" aria-label={t("app.search")} placeholder={t("app.search")} value={q} onInput={(event) => filter({ q: event.currentTarget.value })} />
        <select aria-label={t("runs.filter")} value={status} onChange={(event) => filter({ status: event.currentTarget.value })}>
          <option value="">{t("app.all")}</option>
          {RUN_STATUSES.map((each) => <option key={each} value={each}>{t(`run.${each}`)}</option>)}
        </select>
      </div>
      <Shown of={rows}>{({ items }) => {
        const seen = new Set(items.map((each) => each.id));
        const all = [...items, ...(older?.items ?? []).filter((each) => !seen.has(each.id))];
        if (!all.length && (q || status)) return <Empty icon="runs" title={t("runs.noMatch")} why=""><Button onClick={() => filter({ q: "", status: "" })}>{t("runs.clear")}</Button></Empty>;
        if (!all.length) return <Empty icon="runs" title={t("runs.empty")} why={t("runs.emptyWhy")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>;
        return <><RunRows rows={all} />{next && <div class="actions"><Button onClick={more}>{t("runs.more")}</Button></div>}</>;
      }}</Shown>
    </>
  );
}

const MOVES: ReadonlySet<RunStatus> = new Set(["triaging", "planning", "running", "replanning", "reporting"]);

export function RunRows({ rows }: { rows: RunRow[] }): JSX.Element {
  const now = useNow(rows.some((row) => MOVES.has(row.status)));
  return (
    <ul class="rows" onKeyDown={moveByArrows}>
      {rows.map((row) => (
        <li key={row.id}>
          <a data-row href={link(["runs", row.id])}>
            <span class="what"><b>{row.request || row.goal}</b>{row.goal && row.goal !== row.request && <small>{row.goal}</small>}</span>
            <RunBadge status={row.status} />
            <Progress steps={row.steps} />
            <span class="cost">{Number(row.cost_usd) > 0 ? money(row.cost_usd) : ""}</span>
            <time dateTime={row.created_at}>{ago(row.created_at, now)}</time>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Progress({ steps }: { steps: RunRow["steps"] }): JSX.Element {
  if (!steps.total) return <span class="progress" />;
  return (
    <span class="progress">
      <progress max={steps.total} value={steps.done} aria-label={t("go.done", { done: steps.done, total: steps.total })} />
      <small>{steps.done}/{steps.total}</small>
    </span>
  );
}
