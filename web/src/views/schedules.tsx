// Schedules: what repeats, when next, and what came of each time.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Event, JsonObject, Plan } from "../data/types";
import { call, post } from "../live/api";
import { useResource } from "../live/hooks";
import { go, link } from "../route";
import type { Route } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, Dialog, Empty, ErrorNote, Field, Head, Shown, moveByArrows, useAction } from "../ui/parts";
import { moment, short, t } from "../words/words";
import { BriefSteps } from "./briefsteps";
import { NewSchedule } from "./newschedule";
import { timingWords } from "./timing";
import type { Timing } from "./timing";

export interface Schedule {
  id: string;
  name: string;
  timing: Timing;
  request?: string;
  template?: string;
  inputs?: JsonObject;
  approved?: string;
  overlap?: string;
  missed?: string;
  paused?: boolean;
  reason?: string;
  state?: string;
  fires?: string[];
  plan?: Plan | null;
}
interface Fire { due: string; kind?: string; state?: string; run?: string; note?: string; at: string }

export function SchedulesView({ route }: { route: Route }): JSX.Element {
  const id = route.parts[1];
  if (id === "new") return <NewSchedule route={route} />;
  return id ? <One key={id} id={id} /> : <All />;
}

function State({ schedule }: { schedule: Schedule }): JSX.Element {
  if (schedule.paused) return <span class="badge s-paused"><Icon name="paused" />{t("schedules.paused")}</span>;
  if (schedule.state === "over") return <span class="badge s-done"><Icon name="done" />{t("schedules.over")}</span>;
  return <span class="badge s-ready"><Icon name="ready" />{t("schedules.active")}</span>;
}

const startsRun = (event: Event): boolean => event.body.type === "run_created" || event.body.type === "run_finished";

function All(): JSX.Element {
  const schedules = useResource<{ items: Schedule[] }>("/v1/schedules", startsRun);
  const fresh = <a class="button primary" href={link(["schedules", "new"])}>{t("schedules.new")}</a>;
  return (
    <>
      <Head title={t("schedules.title")}>{fresh}</Head>
      <Shown of={schedules}>{({ items }) => items.length === 0
        ? <Empty icon="schedules" title={t("schedules.empty")} why={t("schedules.emptyWhy")}>{fresh}</Empty>
        : (
          <ul class="rows" onKeyDown={moveByArrows}>
            {items.map((each) => (
              <li key={each.id}><a data-row href={link(["schedules", each.id])}>
                <span class="what"><b>{each.name}</b><small>{timingWords(each.timing)}{each.reason && ` · ${each.reason}`}</small></span>
                <State schedule={each} />
                <time>{each.fires?.[0] && t("schedules.nextAt", { time: moment(each.fires[0]) })}</time>
              </a></li>
            ))}
          </ul>
        )}</Shown>
    </>
  );
}

function One({ id }: { id: string }): JSX.Element {
  const path = `/v1/schedules/${encodeURIComponent(id)}`;
  const schedule = useResource<Schedule>(path, startsRun);
  const history = useResource<{ items: Fire[] }>(`${path}/history`, startsRun);
  const [asked, setAsked] = useState<"pause" | "remove" | "backfill">();
  const action = useAction();
  const send = (verb: string, body: unknown = {}): void => action.act(async () => {
    await post(`${path}/${verb}`, body);
    setAsked(undefined);
    schedule.reload();
    history.reload();
  });
  const remove = (): void => action.act(async () => { await call("DELETE", path); go(["schedules"]); });
  return (
    <>
      <p><a href={link(["schedules"])}>← {t("schedules.back")}</a></p>
      <ErrorNote error={action.error} />
      <Shown of={schedule}>{(value) => (
        <>
          <Head title={value.name} lead={timingWords(value.timing)}>
            <Button icon="ready" disabled={action.busy} onClick={() => send("run-now")}>{t("schedules.now")}</Button>
            {value.paused ? <Button kind="primary" disabled={action.busy} onClick={() => send("resume")}>{t("schedules.resume")}</Button>
              : <Button icon="paused" onClick={() => setAsked("pause")}>{t("schedules.pause")}</Button>}
            <Button onClick={() => setAsked("backfill")}>{t("schedules.backfill")}</Button>
            <Button kind="danger" icon="remove" onClick={() => setAsked("remove")}>{t("app.delete")}</Button>
          </Head>
          <p class="facts"><State schedule={value} />{value.reason && <span>{value.reason}</span>}{value.approved && <code>{short(value.approved)}</code>}
            {value.template && <a href={link(["templates", value.template])}>{value.template}</a>}</p>
          {value.request && <p class="request">{value.request}</p>}
          {value.plan && <BriefSteps plan={value.plan} />}
          <section><h2>{t("schedules.next")}</h2><Fires fires={value.fires ?? []} zone={value.timing.timezone} /></section>
        </>
      )}</Shown>
      <section><h2>{t("schedules.history")}</h2>
        <Shown of={history}>{({ items }) => items.length === 0 ? <p class="dim">{t("app.none")}</p> : (
          <ul class="rows">{items.map((each) => (
            <li key={each.due}>{row(each)}</li>
          ))}</ul>
        )}</Shown></section>
      {asked === "pause" && <Pause onPause={(reason) => send("pause", { reason })} onClose={() => setAsked(undefined)} />}
      {asked === "backfill" && <Backfill onSend={(span) => send("backfill", span)} onClose={() => setAsked(undefined)} />}
      {asked === "remove" && <Confirm title={t("app.sureDelete")} yes={t("app.delete")} onYes={() => { setAsked(undefined); remove(); }} onNo={() => setAsked(undefined)} />}
    </>
  );
}

function row(fire: Fire): JSX.Element {
  const words = <><span class="what"><b>{moment(fire.due)}</b><small>{[fire.kind, fire.note].filter(Boolean).join(" · ")}</small></span><span class="chip">{fire.state}</span></>;
  return fire.run ? <a data-row href={link(["runs", fire.run])}>{words}</a> : <div class="row-plain">{words}</div>;
}

export function Fires({ fires, zone }: { fires: string[]; zone: string | undefined }): JSX.Element {
  if (fires.length === 0) return <p class="dim">{t("schedules.noNext")}</p>;
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "full", timeStyle: "short", timeZone: zone || "UTC" });
  return <ol class="fires">{fires.map((each) => <li key={each}><time dateTime={each}>{format.format(new Date(each))}</time></li>)}</ol>;
}

function Pause({ onPause, onClose }: { onPause: (reason: string) => void; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState("");
  return (
    <Dialog title={t("schedules.pause")} onClose={onClose}>
      <Field label={t("schedules.reason")}>{(id) => <input id={id} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}</Field>
      <div class="actions end"><Button onClick={onClose}>{t("app.cancel")}</Button><Button kind="primary" onClick={() => onPause(reason)}>{t("schedules.pause")}</Button></div>
    </Dialog>
  );
}

function Backfill({ onSend, onClose }: { onSend: (span: { from: string; to: string }) => void; onClose: () => void }): JSX.Element {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const utc = (local: string): string => new Date(local).toISOString();
  return (
    <Dialog title={t("schedules.backfill")} onClose={onClose}>
      <Field label={t("diff.from")}>{(id) => <input id={id} type="datetime-local" value={from} onInput={(event) => setFrom(event.currentTarget.value)} />}</Field>
      <Field label={t("schedules.until")}>{(id) => <input id={id} type="datetime-local" value={to} onInput={(event) => setTo(event.currentTarget.value)} />}</Field>
      <div class="actions end"><Button onClick={onClose}>{t("app.cancel")}</Button>
        <Button kind="primary" disabled={!from || !to} onClick={() => onSend({ from: utc(from), to: utc(to) })}>{t("schedules.backfill")}</Button></div>
    </Dialog>
  );
}
