// New: say what should be done, and how it starts.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunRow, RunView } from "../data/types";
import { post } from "../live/api";
import { useResource } from "../live/hooks";
import { changesRows } from "../live/wakes";
import { go, link } from "../route";
import type { Route } from "../route";
import { Button, ErrorNote, Field, Grow, Head, isEnter, useAction } from "../ui/parts";
import { currentLocale, t } from "../words/words";
import { examplesFor } from "../data/examples";
import { FolderPanel } from "./folder";
import type { Folder } from "./folder";
import { ModelLine } from "./modelline";
import { RunRows } from "./runs";

type Mode = "review" | "read_only" | "schedule";
const MODES: Mode[] = ["review", "read_only", "schedule"];
const NAMES = {
  review: ["new.review", "new.reviewWhy"],
  read_only: ["new.readOnly", "new.readOnlyWhy"],
  schedule: ["new.schedule", "new.scheduleWhy"],
} as const;
// What was typed outlives a reload and a look at another view.
const KEPT = "plansmith-request";


export function NewView({ route }: { route: Route }): JSX.Element {
  const [request, setRequest] = useState(route.query.get("request") ?? sessionStorage.getItem(KEPT) ?? "");
  const [mode, setMode] = useState<Mode>("review");
  const [steps, setSteps] = useState("");
  const [budget, setBudget] = useState("");
  const action = useAction();
  const box = useRef<HTMLDivElement>(null);
  const recent = useResource<{ items: RunRow[] }>("/v1/runs?limit=5", changesRows);
  const folder = useResource<Folder>("/v1/folder");
  useEffect(() => box.current?.querySelector("textarea")?.focus(), []);
  const write = (text: string): void => {
    setRequest(text);
    sessionStorage.setItem(KEPT, text);
  };
  const start = (): void => {
    const text = request.trim();
    if (!text || action.busy) return;
    if (mode === "schedule") {
      go(["schedules", "new"], { request: text });
      return;
    }
    action.act(async () => {
      const limits = { ...(steps ? { max_steps: Number(steps) } : {}), ...(budget ? { budget: { money: budget } } : {}) };
      const run = await post<RunView>("/v1/runs", { request: text, conversation: "new", mode, locale: currentLocale(), ...limits });
      sessionStorage.removeItem(KEPT);
      go(["runs", run.id]);
    });
  };
  const examples = folder.value || folder.error ? examplesFor(folder.value?.files ?? []) : [];
  const take = (text: string): void => { write(text); box.current?.querySelector("textarea")?.focus(); };
  return (
    <div class="narrow new" ref={box}>
      <Head title={t("new.title")} lead={t("new.lead")} />
      <div class="ask-box">
        <Grow label={t("new.label")} rows={3} value={request} onInput={write} placeholder={t("new.placeholder")}
          onKeyDown={(event) => { if (isEnter(event)) { event.preventDefault(); start(); } }} />
        <fieldset class="modes">
          <legend class="unseen">{t("new.how")}</legend>
          {MODES.map((each) => (
            <label key={each} class={mode === each ? "on" : ""}>
              <input type="radio" name="mode" checked={mode === each} onChange={() => setMode(each)} />
              <b>{t(NAMES[each][0])}</b>
            </label>
          ))}
          <small>{t(NAMES[mode][1])}</small>
        </fieldset>
        <div class="actions">
          <details class="limits">
            <summary>{t("new.more")}</summary>
            <div class="row">
              <Field label={t("new.maxSteps")}>{(id) => <input id={id} type="number" min="1" max="10000" value={steps} onInput={(event) => setSteps(event.currentTarget.value)} />}</Field>
              <Field label={t("new.budget")}>{(id) => <input id={id} inputMode="decimal" value={budget} onInput={(event) => setBudget(event.currentTarget.value)} />}</Field>
            </div>
          </details>
          <span class="grow" />
          <Button kind="primary" onClick={start} disabled={!request.trim() || action.busy} hint={request.trim() ? undefined : t("new.sayFirst")}>
            {mode === "schedule" ? t("new.schedule") : t("new.go")}
          </Button>
        </div>
        <p class="dim small">{t("new.hint")}</p>
        <ModelLine />
        <FolderPanel folder={folder} />
      </div>
      <ErrorNote error={action.error} />
      <section>
        <h2>{t("new.examples")}</h2>
        <ul class="examples">
          {examples.map((each) => <li key={each.key}><button type="button" onClick={() => take(t(each.key, each.values))}>{t(each.key, each.values)}</button></li>)}
        </ul>
      </section>
      {(recent.value?.items.length ?? 0) > 0 && (
        <section>
          <h2><a href={link(["runs"])}>{t("new.recent")}</a></h2>
          <RunRows rows={recent.value!.items} />
        </section>
      )}
    </div>
  );
}
