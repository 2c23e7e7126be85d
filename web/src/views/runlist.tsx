// Runs: all of them, newest first; filters are part of the address and can be kept by name.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { chosenWith } from "../data/pages";
import { askedOf, dropView, filterOf, isFiltered, keepView, nameOf, readViews, WHENS } from "../data/savedviews";
import type { Filter } from "../data/savedviews";
import { ORIGINS, RUN_STATUSES } from "../data/types";
import { useRunPages } from "../live/pages";
import { go } from "../route";
import type { Route } from "../route";
import { Button, Dialog, Empty, Field, Head, Shown, isEnter } from "../ui/parts";
import { t } from "../words/words";
import { ChosenRuns } from "./chosenruns";
import { RunRows } from "./runs";
import "../styles/desk.css";

export function RunsView({ route }: { route: Route }): JSX.Element {
  const filter = filterOf(route.query);
  // The same address asks for the same all day long; without that each second would ask anew.
  const today = new Date().toDateString();
  const asked = useMemo(() => askedOf(filter, new Date()).toString(), [route.query.toString(), today]);
  const rows = useRunPages(asked);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const lastChosen = useRef("");
  useEffect(() => setChosen(new Set()), [asked]);
  const set = (change: Filter): void => go(["runs"], { ...filter, ...change }, true);
  return (
    <>
      <Head title={t("runs.title")}><a class="button primary" href="#/">{t("rail.new")}</a></Head>
      <Filters filter={filter} onChange={set} />
      <Shown of={rows}>{({ items, next }) => {
        if (!items.length && isFiltered(filter)) return <Empty icon="runs" title={t("runs.noMatch")} why=""><Button onClick={() => go(["runs"], {}, true)}>{t("runs.clear")}</Button></Empty>;
        if (!items.length) return <Empty icon="runs" title={t("runs.empty")} why={t("runs.emptyWhy")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>;
        const some = items.filter((each) => chosen.has(each.id));
        const choose = (id: string, range: boolean): void => {
          setChosen(chosenWith(chosen, items.map((each) => each.id), id, range ? lastChosen.current : ""));
          lastChosen.current = id;
        };
        return (
          <>
            {some.length > 0 && <ChosenRuns runs={some} onRemoved={rows.remove} onClear={() => setChosen(new Set())} />}
            <div class={rows.isOld ? "outdated" : ""} aria-busy={rows.isOld}>
              <RunRows rows={items} choosing={{ chosen, onChoose: choose }} more={next !== null} />
            </div>
            {next && <Older key={next} onNear={rows.more} />}
          </>
        );
      }}</Shown>
    </>
  );
}

// Older runs are read before the end of the list comes into view; the button is for who is faster.
function Older({ onNear }: { onNear: () => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const near = new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) onNear(); }, { rootMargin: "1500px" });
    if (box.current) near.observe(box.current);
    return () => near.disconnect();
  }, []);
  return <div class="actions" ref={box}><Button onClick={onNear}>{t("runs.more")}</Button></div>;
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
