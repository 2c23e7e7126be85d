// Runs: all of them, newest first; filters are part of the address and can be kept by name.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { askedOf, dropView, filterOf, isFiltered, keepView, nameOf, readViews, WHENS } from "../data/savedviews";
import type { Filter } from "../data/savedviews";
import { ORIGINS, RUN_STATUSES } from "../data/types";
import type { RunRow } from "../data/types";
import { get } from "../live/api";
import { useResource } from "../live/hooks";
import { changesRows } from "../live/wakes";
import { go } from "../route";
import type { Route } from "../route";
import { Button, Dialog, Empty, Field, Head, Shown, isEnter } from "../ui/parts";
import { t } from "../words/words";
import { ChosenRuns } from "./chosenruns";
import { RunRows } from "./runs";
import "../styles/desk.css";

interface Rows { items: RunRow[]; next: string | null }

export function RunsView({ route }: { route: Route }): JSX.Element {
  const filter = filterOf(route.query);
  // The same address asks for the same all day long; without that each second would ask anew.
  const today = new Date().toDateString();
  const path = useMemo(() => `/v1/runs?${askedOf(filter, new Date()).toString()}`, [route.query.toString(), today]);
  const rows = useResource<Rows>(path, changesRows);
  const [older, setOlder] = useState<Rows>();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => { setOlder(undefined); setChosen(new Set()); }, [path]);
  const next = older ? older.next : rows.value?.next;
  const more = (): void => {
    void get<Rows>(`${path}&cursor=${encodeURIComponent(next!)}`).then((page) =>
      setOlder({ items: [...(older?.items ?? []), ...page.items], next: page.next }));
  };
  const set = (change: Filter): void => go(["runs"], { ...filter, ...change }, true);
  const choose = (id: string): void => {
    const others = new Set(chosen);
    if (!others.delete(id)) others.add(id);
    setChosen(others);
  };
  return (
    <>
      <Head title={t("runs.title")}><a class="button primary" href="#/">{t("rail.new")}</a></Head>
      <Filters filter={filter} onChange={set} />
      <Shown of={rows}>{({ items }) => {
        const seen = new Set(items.map((each) => each.id));
        const all = [...items, ...(older?.items ?? []).filter((each) => !seen.has(each.id))];
        if (!all.length && isFiltered(filter)) return <Empty icon="runs" title={t("runs.noMatch")} why=""><Button onClick={() => go(["runs"], {}, true)}>{t("runs.clear")}</Button></Empty>;
        if (!all.length) return <Empty icon="runs" title={t("runs.empty")} why={t("runs.emptyWhy")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>;
        const some = all.filter((each) => chosen.has(each.id));
        const gone = (ids: string[]): void => {
          if (older) setOlder({ ...older, items: older.items.filter((each) => !ids.includes(each.id)) });
          setChosen(new Set());
          rows.reload();
        };
        return (
          <>
            {some.length > 0 && <ChosenRuns runs={some} onDone={gone} onClear={() => setChosen(new Set())} />}
            <RunRows rows={all} choosing={{ chosen, onChoose: choose }} />
            {next && <div class="actions"><Button onClick={more}>{t("runs.more")}</Button></div>}
          </>
        );
      }}</Shown>
    </>
  );
}

function Filters({ filter, onChange }: { filter: Filter; onChange: (change: Filter) => void }): JSX.Element {
  const own = Boolean(filter.since || filter.until) || filter.when === "days";
  return (
    <>
      <SavedViews filter={filter} />
      <div class="filters">
        <input type="search" aria-label={t("app.search")} placeholder={t("app.search")} value={filter.q ?? ""} onInput={(event) => onChange({ q: event.currentTarget.value })} />
        <select aria-label={t("runs.filter")} value={filter.status ?? ""} onChange={(event) => onChange({ status: event.currentTarget.value })}>
          <option value="">{t("desk.anyStatus")}</option>
          <option value="open">{t("desk.open")}</option>
          {RUN_STATUSES.map((each) => <option key={each} value={each}>{t(`run.${each}`)}</option>)}
        </select>
        <select aria-label={t("desk.origin")} value={filter.origin ?? ""} onChange={(event) => onChange({ origin: event.currentTarget.value })}>
          <option value="">{t("desk.anyOrigin")}</option>
          {ORIGINS.map((each) => <option key={each} value={each}>{t(`desk.from.${each}`)}</option>)}
        </select>
        <select aria-label={t("desk.when")} value={own ? "days" : filter.when ?? ""} onChange={(event) => onChange({ when: event.currentTarget.value, since: "", until: "" })}>
          <option value="">{t("desk.anyTime")}</option>
          {WHENS.map((each) => <option key={each} value={each}>{t(`desk.${each}`)}</option>)}
          <option value="days">{t("desk.days")}</option>
        </select>
        {own && (
          <span class="days">
            <input type="date" aria-label={t("desk.since")} value={filter.since ?? ""} onChange={(event) => onChange({ since: event.currentTarget.value })} />
            <input type="date" aria-label={t("desk.until")} value={filter.until ?? ""} onChange={(event) => onChange({ until: event.currentTarget.value })} />
          </span>
        )}
      </div>
    </>
  );
}

function SavedViews({ filter }: { filter: Filter }): JSX.Element | null {
  const [views, setViews] = useState(readViews());
  const [naming, setNaming] = useState(false);
  const [name, setName] = useState("");
  const current = nameOf(views, filter);
  if (!views.length && !isFiltered(filter)) return null;
  const save = (): void => {
    if (!name.trim()) return;
    setViews(keepView(views, name.trim(), filter));
    setNaming(false);
    setName("");
  };
  return (
    <div class="views">
      {views.map((each) => (
        <Button key={each.name} kind={each.name === current ? "primary" : "plain"} pressed={each.name === current} onClick={() => go(["runs"], each.name === current ? {} : { ...each.filter }, true)}>{each.name}</Button>
      ))}
      {isFiltered(filter) && !current && <Button kind="quiet" icon="new" onClick={() => setNaming(true)}>{t("desk.saveView")}</Button>}
      {current && <Button kind="quiet" icon="remove" onClick={() => setViews(dropView(views, current))}>{t("desk.dropView")}</Button>}
      {isFiltered(filter) && <Button kind="quiet" onClick={() => go(["runs"], {}, true)}>{t("runs.clear")}</Button>}
      {naming && (
        <Dialog title={t("desk.saveView")} onClose={() => setNaming(false)}>
          <Field label={t("desk.viewName")} hint={t("desk.viewWhy")}>{(id) => <input id={id} value={name} maxLength={60} onInput={(event) => setName(event.currentTarget.value)} onKeyDown={(event) => { if (isEnter(event)) save(); }} />}</Field>
          <div class="actions end"><Button onClick={() => setNaming(false)}>{t("app.cancel")}</Button><Button kind="primary" disabled={!name.trim()} onClick={save}>{t("app.save")}</Button></div>
        </Dialog>
      )}
    </div>
  );
}
