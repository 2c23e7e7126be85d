// The log: the journal in words, newest last, with who and when.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { EVENT_TYPES } from "../data/run";
import type { Event, RunStatus } from "../data/types";
import { Button } from "../ui/parts";
import { t } from "../words/words";
import type { Key } from "../words/words";

type Which = "all" | "steps" | "people";
const WHICH: Which[] = ["all", "steps", "people"];

export function LogView({ events }: { events: Event[] }): JSX.Element {
  const [which, setWhich] = useState<Which>("all");
  const wanted = events.filter((event) =>
    which === "all" ? true : which === "steps" ? event.body.type.startsWith("step_") : event.by.kind === "person");
  return (
    <div class="log">
      <div class="actions">{WHICH.map((each) => <Button key={each} kind={which === each ? "primary" : "quiet"} onClick={() => setWhich(each)}>{t(`log.${each}`)}</Button>)}</div>
      {wanted.length === 0 ? <p class="dim">{t("log.none")}</p> : (
        <ol>
          {wanted.map((event) => (
            <li key={event.number} class={event.body.type === "step_failed" ? "bad" : ""}>
              <span class="number">{event.number}</span>
              <time dateTime={event.at}>{clock(event.at)}</time>
              <span>{sentence(event)}{event.by.kind !== "system" && <small> {t(event.by.kind === "program" ? "app.byProgram" : "app.by", { name: event.by.name || event.by.kind })}</small>}</span>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

const clock = (at: string): string => new Date(at).toLocaleTimeString(undefined, { hour12: false }) + at.slice(19, 23).replace(/Z|\+.*/, "");

export function sentence(event: Event): string {
  const { type, ...body } = event.body;
  if (!EVENT_TYPES.includes(type)) return type;
  const values = Object.fromEntries(Object.entries(body).filter((each): each is [string, string] => typeof each[1] === "string"));
  if (type === "run_finished") values["status"] = t(`run.${values["status"] as RunStatus}`);
  return t(`event.${type}` as Key, values);
}
