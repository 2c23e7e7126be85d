// Ctrl-K: go anywhere, find a run or a template, or begin something new, without the mouse.

import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import type { RunRow } from "../data/types";
import { get } from "../live/api";
import { link } from "../route";
import { Icon } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { THEMES, applyTheme, wantedTheme } from "../ui/theme";
import { currentLocale, speak, t } from "../words/words";
import "../styles/desk.css";

export interface Place { name: string; icon: IconName; href: string }
interface Choice extends Omit<Place, "href"> { id: string; note?: string; href?: string; act?: () => void }

const WAIT = 120;

export function Palette({ places, onClose }: { places: Place[]; onClose: () => void }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const list = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found = useFound(text.trim());
  const choices = useMemo(() => choicesOf(text.trim(), places, found), [text, found]);
  const current = choices[Math.min(at, choices.length - 1)];
  useEffect(() => { box.current?.showModal(); return () => box.current?.close(); }, []);
  useEffect(() => { box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }); }, [current?.id]);
  const take = (choice: Choice | undefined): void => {
    if (!choice) return;
    onClose();
    if (choice.href) location.hash = choice.href;
    choice.act?.();
  };
  const pressed = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((Math.min(at, choices.length - 1) + step + choices.length) % Math.max(1, choices.length));
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      take(current);
    }
  };
  return (
    <dialog ref={box} class="palette" aria-label={t("desk.palette")} onCancel={(event) => { event.preventDefault(); onClose(); }}
      onClick={(event) => { if (event.target === box.current) onClose(); }}>
      <input role="combobox" aria-expanded="true" aria-controls={list} aria-activedescendant={current && `${list}-${current.id}`} aria-label={t("desk.palette")}
        placeholder={t("desk.paletteHint")} value={text} onInput={(event) => { setText(event.currentTarget.value); setAt(0); }} onKeyDown={pressed} />
      <ul id={list} role="listbox" aria-label={t("desk.palette")}>
        {choices.map((each) => (
          <li key={each.id} id={`${list}-${each.id}`} role="option" aria-selected={each === current} onClick={() => take(each)}>
            <Icon name={each.icon} /><span class="what"><b>{each.name}</b>{each.note && <small>{each.note}</small>}</span>
          </li>
        ))}
      </ul>
    </dialog>
  );
}

interface Found { runs: RunRow[]; templates: { name: string; goal: string }[] }
const NOTHING: Found = { runs: [], templates: [] };

// What the server has under these words; an answer that comes too late is not shown.
function useFound(text: string): Found {
  const [found, setFound] = useState<Found>(NOTHING);
  useEffect(() => {
    let stale = false;
    const timer = setTimeout(() => {
      const asked = text ? `&q=${encodeURIComponent(text)}` : "";
      void Promise.all([
        get<{ items: RunRow[] }>(`/v1/runs?limit=8${asked}`),
        get<{ items: Found["templates"] }>("/v1/templates"),
      ]).then(([runs, templates]) => { if (!stale) setFound({ runs: runs.items, templates: templates.items }); }, () => undefined);
    }, text ? WAIT : 0);
    return () => { stale = true; clearTimeout(timer); };
  }, [text]);
  return found;
}

const has = (text: string, ...names: string[]): boolean => names.some((each) => each.toLowerCase().includes(text.toLowerCase()));

function choicesOf(text: string, places: Place[], found: Found): Choice[] {
  const made: Choice[] = places.map((each) => ({ ...each, id: `go-${each.href}`, note: t("keys.go") }));
  const theme = THEMES[(THEMES.indexOf(wantedTheme()) + 1) % THEMES.length]!;
  made.push({ id: "theme", name: `${t("settings.theme")}: ${t(`settings.${theme}`)}`, icon: "settings", act: () => applyTheme(theme) });
  const other = currentLocale() === "zh" ? "en" : "zh";
  made.push({ id: "language", name: other === "zh" ? "中文" : "English", icon: "answered", note: t("settings.language"), act: () => { void speak(other, true).then(() => location.reload()); } });
  made.push({ id: "docs", name: t("desk.api"), icon: "out", act: () => { location.href = "/docs"; } });
  const fits = text ? made.filter((each) => has(text, each.name)) : made;
  const runs: Choice[] = found.runs.map((each) => ({ id: `run-${each.id}`, name: each.goal || each.request, icon: each.status, note: t(`run.${each.status}`), href: link(["runs", each.id]) }));
  const templates: Choice[] = found.templates.filter((each) => text && has(text, each.name, each.goal))
    .map((each) => ({ id: `template-${each.name}`, name: each.name, icon: "templates", note: each.goal, href: link(["templates", each.name]) }));
  const begin: Choice[] = text ? [{ id: "begin", name: t("desk.begin", { text }), icon: "new", href: link([], { request: text }) }] : [];
  return [...fits, ...templates.slice(0, 5), ...runs, ...begin];
}
