// Which model plans: what was found on this machine, and how to get one without leaving the page.

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { post } from "../live/api";
import { useResource } from "../live/hooks";
import { Icon } from "../ui/icons";
import { Button, Dialog, ErrorNote, Field, Loading, useAction } from "../ui/parts";
import type { Action } from "../ui/parts";
import { bytes, t } from "../words/words";

interface Download { name: string; total: number; done: number; state: "loading" | "checking" | "done" | "failed"; error: string; hint: string }
interface Embedded { name: string; about: string; size: number; licence: string; here: boolean; default: boolean }
interface Server { program: string; url: string; models: string[] }
interface Key { variable: string; provider: string; model: string; set: boolean }
export interface Models {
  current: string; chosen: string; can_change: boolean; download: Download | null;
  library?: boolean; runtime?: boolean; offline?: boolean; keys?: Key[]; servers?: Server[]; embedded?: Embedded[];
}
interface Choice { kind: "key" | "server" | "embedded" | "rules"; model?: string; url?: string; variable?: string; api_key?: string }
interface PartProps { models: Models; action: Action; use: (choice: Choice) => void }

export function ModelDialog({ onClose, onChosen }: { onClose: () => void; onChosen: () => void }): JSX.Element {
  return (
    <Dialog title={t("model.title")} onClose={onClose}>
      <ModelPicker onChosen={onChosen} />
      <div class="actions end"><Button onClick={onClose}>{t("app.close")}</Button></div>
    </Dialog>
  );
}

function ModelPicker({ onChosen }: { onChosen: () => void }): JSX.Element {
  const models = useResource<Models>("/v1/models");
  const action = useAction();
  const loads = models.value?.download && ["loading", "checking"].includes(models.value.download.state);
  useEffect(() => {
    if (!loads) return undefined;
    const timer = setInterval(models.reload, 1000);
    return () => clearInterval(timer);
  }, [loads]);
  if (!models.value) return models.error ? <ErrorNote error={models.error} onRetry={models.reload} /> : <><p class="dim">{t("model.searching")}</p><Loading /></>;
  if (!models.value.can_change) return <p>{t("model.cannot")}</p>;
  const use = (choice: Choice): void => action.act(async () => { await post("/v1/model", choice); onChosen(); });
  const pull = (name: string): void => action.act(async () => { await post("/v1/models/pull", { name }); models.reload(); });
  const given = { models: models.value, action, use };
  return (
    <div class="models">
      <p class="dim small">{t("model.lead")}</p>
      {(models.value.embedded ?? []).filter((each) => each.default).map((each) => <EmbeddedModel key={each.name} model={each} pull={pull} {...given} />)}
      <Servers {...given} />
      <Provider {...given} />
      <section class="model">
        <div class="line"><h3>{t("model.rules")}</h3><Use on={models.value.current === "rules"} action={action} onClick={() => use({ kind: "rules" })} /></div>
        <p class="dim small">{t("model.rulesAbout")}</p>
      </section>
      <ErrorNote error={action.error} />
    </div>
  );
}

function Use({ on, action, onClick, why = "" }: { on: boolean; action: Action; onClick: () => void; why?: string }): JSX.Element {
  if (on) return <span class="chip origin-person"><Icon name="done" />{t("model.now")}</span>;
  return <Button disabled={action.busy || why !== ""} hint={why} onClick={onClick}>{t("model.use")}</Button>;
}

function EmbeddedModel({ model, models, action, use, pull }: PartProps & { model: Embedded; pull: (name: string) => void }): JSX.Element {
  const download = models.download?.name === model.name ? models.download : null;
  const loads = download !== null && (download.state === "loading" || download.state === "checking");
  return (
    <section class="model">
      <div class="line">
        <h3>{t("model.embedded")}</h3>
        {!models.runtime ? null : model.here
          ? <Use on={models.current.includes(model.name)} action={action} onClick={() => use({ kind: "embedded", model: model.name })} />
          : !loads && !models.offline && <Button kind="primary" icon="down" disabled={action.busy} onClick={() => pull(model.name)}>{t("model.download", { size: bytes(model.size) })}</Button>}
      </div>
      <p class="dim small">{t("model.embeddedAbout", { name: model.name, size: bytes(model.size), licence: model.licence })}</p>
      {!models.runtime && <p class="small">{t("model.noRuntime", { command: "pip install 'plansmith[local]'" })}</p>}
      {models.runtime && !model.here && models.offline && <p class="small">{t("model.offline")}</p>}
      {loads && <DownloadBar download={download} />}
      {download?.state === "failed" && <p class="bad small" role="alert">{t("model.failed", { why: download.error })} {download.hint}</p>}
    </section>
  );
}

function DownloadBar({ download }: { download: Download }): JSX.Element {
  const share = Math.floor((100 * download.done) / download.total);
  return (
    <div class="download">
      <progress value={download.done} max={download.total} aria-label={t("model.download", { size: bytes(download.total) })} />
      <p class="small" role="status">{download.state === "checking" ? t("model.checking") : t("model.loading", { done: bytes(download.done), total: bytes(download.total), share })}</p>
      <p class="dim small">{t("model.loadingCan")}</p>
    </div>
  );
}

function Servers({ models, action, use }: PartProps): JSX.Element {
  const servers = models.servers ?? [];
  if (servers.length === 0) return <p class="dim small">{models.library ? t("model.noServer") : t("model.noLibrary", { command: "pip install 'plansmith[models]'" })}</p>;
  return <>{servers.map((each) => <ServerModel key={each.url} server={each} models={models} action={action} use={use} />)}</>;
}

function ServerModel({ server, models, action, use }: PartProps & { server: Server }): JSX.Element {
  const [name, setName] = useState(server.models[0]!);
  return (
    <section class="model">
      <div class="line">
        <h3>{t("model.server", { program: server.program })}</h3>
        <span class="actions">
          <select aria-label={t("model.name")} value={name} onChange={(event) => setName(event.currentTarget.value)}>{server.models.map((each) => <option key={each}>{each}</option>)}</select>
          <Use on={models.current === `openai:${name}`} action={action} onClick={() => use({ kind: "server", url: server.url, model: name })} />
        </span>
      </div>
    </section>
  );
}

function Provider({ models, action, use }: PartProps): JSX.Element | null {
  const keys = models.keys ?? [];
  const [variable, setVariable] = useState((keys.find((each) => each.set) ?? keys[0])?.variable ?? "");
  const [typed, setTyped] = useState("");
  const [name, setName] = useState("");
  const about = useId();
  const key = keys.find((each) => each.variable === variable);
  if (!key || !models.library) return null;
  const why = key.set || typed.trim() ? "" : t("model.keyFirst");
  return (
    <section class="model">
      <div class="line"><h3>{t("model.key")}</h3>{key.set && <span class="chip origin-person">{t("model.keySet", { variable })}</span>}</div>
      <div class="row">
        <Field label={t("model.provider")}>{(id) => <select id={id} value={variable} onChange={(event) => { setVariable(event.currentTarget.value); setName(""); }}>
          {keys.map((each) => <option key={each.variable} value={each.variable}>{each.provider}</option>)}</select>}</Field>
        <Field label={t("model.name")}>{(id) => <input id={id} class="mono" placeholder={key.model} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <Field label={t("model.apiKey")}>{(id) => <input id={id} type="password" autocomplete="off" aria-describedby={about} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />}</Field>
      </div>
      <div class="line">
        <p id={about} class="dim small">{t("model.keyAbout", { variable })}</p>
        <Use on={false} action={action} why={why} onClick={() => use({ kind: "key", variable, model: name.trim(), api_key: typed.trim() })} />
      </div>
    </section>
  );
}
