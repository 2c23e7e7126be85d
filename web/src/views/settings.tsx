// Settings: how this browser shows the page, and what the server runs with.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { shown } from "../data/json";
import type { Json } from "../data/types";
import { post } from "../live/api";
import { useResource } from "../live/hooks";
import { Button, ErrorNote, Field, Head, Shown, useAction } from "../ui/parts";
import { Prose } from "../ui/prose";
import { THEMES, applyTheme, wantedTheme } from "../ui/theme";
import type { Theme } from "../ui/theme";
import { currentLocale, speak, t } from "../words/words";
import type { Locale } from "../words/words";
import { ModelDialogLater, modelName } from "./modelline";
import { Notices } from "./notices";

interface Setting { name: string; value: Json; source: string }
interface Model { model: string; chosen: string; why: string; tried: { name: string; why: string }[] }

const LANGUAGES: [Locale, string][] = [["en", "English"], ["zh", "中文"]];

const SOURCES = ["default", "person", "project", "environment", "flag", "tenant"] as const;

function sourceText(source: string): string {
  const known = SOURCES.find((each) => each === source);
  return known ? t(`desk.source.${known}`) : source;
}

export function SettingsView(): JSX.Element {
  const [theme, setTheme] = useState<Theme>(wantedTheme());
  const settings = useResource<{ items: Setting[] }>("/v1/settings");
  const model = useResource<Model>("/v1/model");
  const version = useResource<Record<string, Json>>("/version");
  const leaving = useAction();
  const [choosing, setChoosing] = useState(false);
  const chosen = (): void => { setChoosing(false); model.reload(); };
  const choose = (next: Theme): void => { applyTheme(next); setTheme(next); };
  const say = (next: Locale): void => { void speak(next, true).then(() => location.reload()); };
  return (
    <>
      <Head title={t("settings.title")} />
      <section class="panel">
        <h2>{t("settings.look")}</h2>
        <div class="row">
          <Field label={t("settings.theme")}>{(id) => <select id={id} value={theme} onChange={(event) => choose(event.currentTarget.value as Theme)}>{THEMES.map((each) => <option key={each} value={each}>{t(`settings.${each}`)}</option>)}</select>}</Field>
          <Field label={t("settings.language")}>{(id) => <select id={id} value={currentLocale()} onChange={(event) => say(event.currentTarget.value as Locale)}>{LANGUAGES.map(([code, name]) => <option key={code} value={code} lang={code}>{name}</option>)}</select>}</Field>
        </div>
        <p class="dim"><Prose text={t("settings.logInWhy")} /></p>
        <ErrorNote error={leaving.error} />
        <div><Button disabled={leaving.busy} onClick={() => leaving.act(async () => { await post("/v1/logout"); location.reload(); })}>{t("settings.logOut")}</Button></div>
      </section>
      <section class="panel">
        <h2>{t("settings.model")}</h2>
        <Shown of={model}>{(value) => (
          <>
            <div class="line"><b title={value.chosen || value.model}>{modelName(value.chosen || value.model)}</b><Button onClick={() => setChoosing(true)}>{t("model.change")}</Button></div>
            <p><Prose text={value.why} /></p>
            {(value.tried?.length ?? 0) > 0 && <ul class="dim">{value.tried.filter((each) => each.why).map((each) => <li key={each.name}><b title={each.name}>{modelName(each.name)}</b>: <Prose text={each.why} /></li>)}</ul>}
          </>
        )}</Shown>
        {choosing && <ModelDialogLater onClose={chosen} onChosen={chosen} />}
      </section>
      <Notices />
      <section>
        <h2>{t("settings.server")}</h2>
        <p class="dim">{t("settings.serverWhy")}</p>
        <Shown of={settings}>{({ items }) => (
          <div class="scroll" tabIndex={0} role="group" aria-label={t("settings.server")}>
            <table><thead><tr><th>{t("settings.name")}</th><th>{t("settings.value")}</th><th>{t("settings.source")}</th></tr></thead>
              <tbody>{items.map((each) => <tr key={each.name} class={each.source === "default" ? "dim" : ""}><td><code>{each.name}</code></td><td class="mono">{shown(each.value)}</td><td>{sourceText(each.source)}</td></tr>)}</tbody></table>
          </div>
        )}</Shown>
      </section>
      {version.value && <p class="dim small"><a href="/docs">{t("desk.api")}</a> · {t("settings.version")} {Object.values(version.value).filter((each) => typeof each !== "object").map(String).join(" · ")}</p>}
    </>
  );
}
