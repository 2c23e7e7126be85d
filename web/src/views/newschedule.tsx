// A new schedule: what runs, when, and the approval of exactly the plan that runs unattended.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Json, JsonObject, Plan, RunView } from "../data/types";
import { ApiError, post, runPath } from "../live/api";
import { useResource } from "../live/hooks";
import { go, link } from "../route";
import type { Route } from "../route";
import { Button, ErrorNote, Field, Grow, Head, useAction } from "../ui/parts";
import { short, t } from "../words/words";
import { BriefSteps } from "./briefsteps";
import { Fires } from "./schedules";
import type { Schedule } from "./schedules";
import { Parameters } from "./templates";
import type { Timing } from "./timing";

const WAYS = ["daily", "every", "cron", "once"] as const;
type Way = (typeof WAYS)[number];
const FIELDS = { daily: "daily_at", every: "every_minutes", cron: "cron", once: "once_at" } as const;
const ZONES: string[] = Intl.supportedValuesOf("timeZone");
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function NewSchedule({ route }: { route: Route }): JSX.Element {
  const run = route.query.get("run");
  const template = route.query.get("template");
  const [request, setRequest] = useState(route.query.get("request") ?? "");
  const [name, setName] = useState("");
  const [way, setWay] = useState<Way>("daily");
  const [values, setValues] = useState<Record<Way, string>>({ daily: "09:00", every: "60", cron: "0 9 * * MON-FRI", once: "" });
  const [zone, setZone] = useState(HERE === "UTC" || ZONES.includes(HERE) ? HERE : "UTC");
  const [overlap, setOverlap] = useState("skip");
  const [missed, setMissed] = useState("one");
  const [inputs, setInputs] = useState<Record<string, Json>>({});
  const [wanted, setWanted] = useState("");
  const source = useResource<RunView>(run ? runPath(run) : null);
  const known = useResource<{ parameters: JsonObject; needed: string[]; goal: string; plan?: Plan }>(template ? `/v1/templates/${encodeURIComponent(template)}` : null);
  const own = source.value?.plan?.schedule as Timing | null | undefined;
  // It begins with the time that the plan carries.
  useEffect(() => {
    const way = own && WAYS.find((each) => own[FIELDS[each]] !== undefined && own[FIELDS[each]] !== null);
    if (!way) return;
    setWay(way);
    setValues({ ...values, [way]: String(own[FIELDS[way]]) });
    if (own.timezone) setZone(own.timezone);
  }, [source.value?.hash]);
  const action = useAction();
  const timing = timingOf(way, values[way], zone);
  const preview = usePreview(timing);
  const approve = run ? source.value?.hash ?? "" : wanted;
  const what = run ? { run } : template ? { template, parameters: inputs } : { request: request.trim() };
  const create = (): void => action.act(async () => {
    try {
      const body = { ...what, timing, overlap, missed, ...(name.trim() ? { name: name.trim() } : {}), ...(approve ? { approve } : {}) };
      const made = await post<Schedule>("/v1/schedules", body);
      go(["schedules", made.id]);
    } catch (error) {
      if (error instanceof ApiError && !approve) setWanted(/\b[0-9a-f]{64}\b/.exec(error.hint)?.[0] ?? "");
      throw error;
    }
  });
  const shown = source.value?.plan ?? known.value?.plan;
  const ready = timing !== undefined && (run || template || request.trim()) && (!run || source.value?.hash);
  return (
    <div class="narrow">
      <p><a href={link(["schedules"])}>← {t("schedules.back")}</a></p>
      <Head title={t("schedules.new")} />
      <section class="panel">
        <h2>{t("schedules.what")}</h2>
        {run && <p><a href={link(["runs", run])}>{source.value?.plan?.goal || source.value?.request || run}</a></p>}
        {template && <p><a href={link(["templates", template])}>{template}</a></p>}
        {template && known.value && <Parameters template={known.value} values={inputs} onChange={setInputs} />}
        {!run && !template && <Field label={t("schedules.request")} hint={t("schedules.requestWhy")}>{(id) => <Grow id={id} rows={2} value={request} onInput={setRequest} />}</Field>}
        {shown && <><h3>{t("schedules.unattended")}</h3><BriefSteps plan={shown} effects={source.value?.effects} /></>}
        <Field label={t("schedules.name")}>{(id) => <input id={id} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
      </section>
      <section class="panel">
        <h2>{t("schedules.when")}</h2>
        <div class="row">
          <Field label={t("schedules.when")}>{(id) => <select id={id} value={way} onChange={(event) => setWay(event.currentTarget.value as Way)}>{WAYS.map((each) => <option key={each} value={each}>{t(`schedules.${each}`)}</option>)}</select>}</Field>
          <Field label={t(`schedules.${way}`)}>{(id) => <WayInput id={id} way={way} value={values[way]} onChange={(value) => setValues({ ...values, [way]: value })} />}</Field>
          {way !== "every" && <Field label={t("schedules.zone")}>{(id) => <><input id={id} list={`${id}-zones`} value={zone} onInput={(event) => setZone(event.currentTarget.value)} /><datalist id={`${id}-zones`}>{["UTC", ...ZONES].map((each) => <option key={each} value={each} />)}</datalist></>}</Field>}
        </div>
        <div class="row">
          <Field label={t("schedules.overlap")}>{(id) => <select id={id} value={overlap} onChange={(event) => setOverlap(event.currentTarget.value)}>{(["skip", "queue", "allow"] as const).map((each) => <option key={each} value={each}>{t(`schedules.${each}`)}</option>)}</select>}</Field>
          <Field label={t("schedules.missed")}>{(id) => <select id={id} value={missed} onChange={(event) => setMissed(event.currentTarget.value)}>
            <option value="one">{t("schedules.missedOne")}</option><option value="none">{t("schedules.missedNone")}</option><option value="all">{t("schedules.missedAll")}</option></select>}</Field>
        </div>
        <h3>{t("schedules.next")}</h3>
        {preview.error ? <p class="bad">{preview.error.message} {preview.error.hint}</p> : preview.fires && <Fires fires={preview.fires} zone={zone} />}
      </section>
      <ErrorNote error={action.error} />
      <div class="actions">
        <Button kind="primary" disabled={!ready || action.busy} onClick={create}>{approve ? t("schedules.approve") : t("schedules.create")}</Button>
        {approve && <span class="dim small">{t("schedules.approveWhy", { hash: short(approve) })}</span>}
      </div>
    </div>
  );
}

function WayInput({ id, way, value, onChange }: { id: string; way: Way; value: string; onChange: (value: string) => void }): JSX.Element {
  const onInput = (event: { currentTarget: HTMLInputElement }): void => onChange(event.currentTarget.value);
  if (way === "daily") return <input id={id} type="time" value={value} onInput={onInput} />;
  if (way === "every") return <input id={id} type="number" min="1" value={value} onInput={onInput} />;
  if (way === "once") return <input id={id} type="datetime-local" value={value} onInput={onInput} />;
  return <input id={id} class="mono" value={value} onInput={onInput} />;
}

function timingOf(way: Way, value: string, zone: string): Timing | undefined {
  if (!value.trim()) return undefined;
  if (way === "every") return { every_minutes: Math.round(Number(value)) };
  const timezone = zone || "UTC";
  return way === "daily" ? { daily_at: value, timezone } : way === "cron" ? { cron: value.trim(), timezone } : { once_at: value, timezone };
}

interface Preview { fires: string[] | undefined; error: ApiError | undefined }

// The server computes the times: clock changes are its business.
function usePreview(timing: Timing | undefined): Preview {
  const [state, setState] = useState<Preview>({ fires: undefined, error: undefined });
  const text = JSON.stringify(timing);
  useEffect(() => {
    if (!timing) return undefined;
    let current = true;
    const timer = setTimeout(() => {
      post<{ fires: string[] }>("/v1/schedules/preview", { ...timing, count: 5 }).then(
        ({ fires }) => { if (current) setState({ fires, error: undefined }); },
        (error: unknown) => { if (current && error instanceof ApiError) setState({ fires: [], error }); },
      );
    }, 250);
    return () => { current = false; clearTimeout(timer); };
  }, [text]);
  return state;
}
