// The frame around every view: rail, banner, keyboard, and which view an address means.

import type { ComponentType, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useOnline, useResource } from "./live/hooks";
import { useNotifications } from "./live/notify";
import { touchesInbox } from "./live/wakes";
import { go, link, useRoute } from "./route";
import type { Route } from "./route";
import { Icon } from "./ui/icons";
import type { IconName } from "./ui/icons";
import { Button, Dialog, Empty, Head, Loading } from "./ui/parts";
import { setWaiting } from "./ui/title";
import { NewView } from "./views/new";
import { Recent } from "./views/recent";
import type { Place } from "./views/palette";
import { t } from "./words/words";
import type { Key } from "./words/words";

interface Section { id: string; key: string; icon: IconName; name: Key }

const RAIL: Section[] = [
  { id: "", key: "n", icon: "new", name: "rail.new" },
  { id: "inbox", key: "i", icon: "inbox", name: "rail.inbox" },
  { id: "conversations", key: "c", icon: "answered", name: "rail.talks" },
  { id: "runs", key: "r", icon: "runs", name: "rail.runs" },
  { id: "templates", key: "t", icon: "templates", name: "rail.templates" },
  { id: "schedules", key: "s", icon: "schedules", name: "rail.schedules" },
  { id: "tools", key: "o", icon: "tools", name: "rail.tools" },
  { id: "usage", key: "u", icon: "usage", name: "rail.usage" },
  { id: "settings", key: "e", icon: "settings", name: "rail.settings" },
];

type View = ComponentType<{ route: Route }>;

// Views that few people open first come when they are opened.
const LATER: Record<string, () => Promise<View>> = {
  inbox: async () => (await import("./views/inbox")).InboxView,
  runs: async () => (await import("./views/runlist")).RunsView,
  "runs/": async () => (await import("./views/runpage")).RunScreen,
  compare: async () => (await import("./views/compare")).CompareView,
  conversations: async () => (await import("./views/conversations")).ConversationsView,
  templates: async () => (await import("./views/templates")).TemplatesView,
  schedules: async () => (await import("./views/schedules")).SchedulesView,
  tools: async () => (await import("./views/tools")).ToolsView,
  usage: async () => (await import("./views/usage")).UsageView,
  settings: async () => (await import("./views/settings")).SettingsView,
};

export function App(): JSX.Element {
  const route = useRoute();
  const inbox = useResource<{ count: number }>("/v1/inbox?count=true", touchesInbox);
  const online = useOnline();
  const [help, setHelp] = useState(false);
  const [open, setOpen] = useState(false);
  const [palette, setPalette] = useState(false);
  useKeys(() => setHelp(true), () => setPalette((shown) => !shown));
  useNotifications();
  useEffect(() => setOpen(false), [location.hash]);
  useArrival(route);
  useEffect(() => setWaiting(inbox.value?.count ?? 0), [inbox.value]);
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>{t("app.skip")}</a>
      <Rail route={route} waiting={inbox.value?.count ?? 0} open={open} onToggle={() => setOpen(!open)} onHelp={() => setHelp(true)} />
      <main id="content" tabIndex={-1}>
        {!online && <div class="banner" role="status"><Icon name="warning" />{t("app.offline")}</div>}
        <Screen route={route} />
      </main>
      {palette && <PaletteLater onClose={() => setPalette(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

function Rail({ route, waiting, open, onToggle, onHelp }: {
  route: Route; waiting: number; open: boolean; onToggle: () => void; onHelp: () => void;
}): JSX.Element {
  const current = route.parts[0] ?? "";
  return (
    <header class={`rail ${open ? "open" : ""}`}>
      <div class="brand">
        <a href="#/"><img src="./icon.svg" alt="" width="22" height="22" />Plansmith</a>
        <button type="button" class="button quiet toggle" aria-expanded={open} onClick={onToggle}>
          <Icon name="menu" title={t("app.menu")} />{waiting > 0 && <span class="count">{waiting}</span>}
        </button>
      </div>
      <nav aria-label="Plansmith">
        {RAIL.map((each) => (
          <a href={link(each.id ? [each.id] : [])} key={each.id} aria-current={current === each.id ? "page" : undefined}>
            <Icon name={each.icon} />{t(each.name)}
            {each.id === "inbox" && waiting > 0 &&
              <span class="count"><span aria-hidden="true">{waiting}</span><span class="unseen">{t("rail.waiting", { count: waiting })}</span></span>}
          </a>
        ))}
      </nav>
      <Recent route={route} />
      <a class="button quiet help" href="/help"><Icon name="note" />{t("desk.help")}</a>
      <button type="button" class="button quiet help" onClick={onHelp}>{t("app.keys")} <kbd>?</kbd></button>
    </header>
  );
}

function Screen({ route }: { route: Route }): JSX.Element {
  const [section = "", id] = route.parts;
  if (section === "") return <NewView route={route} />;
  if (section === "runs" && id) return <Later key={id} section="runs/" route={route} />;
  if (section in LATER) return <Later key={section} section={section} route={route} />;
  return (
    <Head title={t("lost.title")} lead={t("lost.why")}>
      <a class="button primary" href="#/">{t("app.goNew")}</a><a class="button" href={link(["runs"])}>{t("runs.title")}</a>
    </Head>
  );
}

function Later({ section, route }: { section: string; route: Route }): JSX.Element {
  const [view, setView] = useState<{ View: View }>();
  const [failed, setFailed] = useState(false);
  const load = (): void => {
    setFailed(false);
    LATER[section]!().then((loaded) => setView({ View: loaded }), () => setFailed(true));
  };
  useEffect(load, [section]);
  if (failed) return <Empty icon="failed" title={t("app.unreachable")} why=""><Button onClick={load}>{t("app.retry")}</Button></Empty>;
  return view ? <view.View route={route} /> : <Loading />;
}

// Another view begins at its top, and where the pressed link is gone the keyboard goes on in the view.
function useArrival(route: Route): void {
  const place = route.parts.slice(0, 2).join("/");
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return undefined;
    before.current = place;
    scrollTo(0, 0);
    const frame = requestAnimationFrame(() => { if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true }); });
    return () => cancelAnimationFrame(frame);
  }, [place]);
}

// `g` and a letter go to a section, `/` searches, `?` helps; never while someone types.
function useKeys(help: () => void, palette: () => void): void {
  useEffect(() => {
    let going = false;
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        palette();
        return;
      }
      if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
      const section = RAIL.find((each) => each.key === event.key);
      if (going && section) {
        go(section.id ? [section.id] : []);
        event.preventDefault();
      } else if (event.key === "?") {
        help();
      } else if (event.key === "/") {
        const search = document.querySelector<HTMLElement>("input[type=search]");
        if (search) { search.focus(); event.preventDefault(); }
      }
      going = event.key === "g";
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

// The palette comes when it is first asked for.
function PaletteLater({ onClose }: { onClose: () => void }): JSX.Element | null {
  const [view, setView] = useState<{ Palette: ComponentType<{ places: Place[]; onClose: () => void }> }>();
  useEffect(() => { void import("./views/palette").then(({ Palette }) => setView({ Palette })); }, []);
  const places = RAIL.map((each) => ({ name: t(each.name), icon: each.icon, href: link(each.id ? [each.id] : []) }));
  return view ? <view.Palette places={places} onClose={onClose} /> : null;
}

function Help({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title={t("keys.title")} onClose={onClose}>
      <dl class="keys">
        {RAIL.map((each) => <div key={each.id}><dt><kbd>g</kbd> <kbd>{each.key}</kbd></dt><dd>{t("keys.go")} {t(each.name)}</dd></div>)}
        <div><dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>{t("keys.arrows")}</dd></div>
        <div><dt><kbd>Enter</kbd></dt><dd>{t("keys.open")}</dd></div>
        <div><dt><kbd>Ctrl</kbd> <kbd>K</kbd></dt><dd>{t("desk.palette")}</dd></div>
        <div><dt><kbd>/</kbd></dt><dd>{t("keys.search")}</dd></div>
        <div><dt><kbd>?</kbd></dt><dd>{t("keys.help")}</dd></div>
      </dl>
      <p class="dim">{t("keys.approve")}</p>
      <div class="actions end"><Button kind="primary" onClick={onClose}>{t("app.close")}</Button></div>
    </Dialog>
  );
}
