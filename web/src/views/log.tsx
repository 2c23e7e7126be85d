// The log: the journal in words, newest last, with who and when.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { EVENT_TYPES } from "../data/run";
import type { Event, Plan, RunStatus, RunView } from "../data/types";
import { Button } from "../ui/parts";
import { VirtualList } from "../ui/virtual";
import { t } from "../words/words";
import type { Key } from "../words/words";
import { nameIn } from "./steptext";

type Which = "all" | "steps" | "people";
const WHICH: Which[] = ["all", "steps", "people"];

export function LogView({ run, events }: { run: RunView; events: Event[] }): JSX.Element {
  const [which, setWhich] = useState<Which>("all");
  const wanted = useMemo(() => events.filter((event) =>
    which === "all" ? true : which === "steps" ? event.body.type.startsWith("step_") : event.by.kind === "person"), [events, which]);
  return (
    <div class="log">
      <div class="actions">{WHICH.map((each) => <Button key={each} kind={which === each ? "primary" : "quiet"} onClick={() => setWhich(each)}>{t(`log.${each}`)}</Button>)}</div>
      {wanted.length === 0 ? <p class="dim">{t("log.none")}</p> : (
        <VirtualList items={wanted} keyOf={(event) => String(event.number)} guess={28}>
          {(event, _, { key, ...row }) => (
            <li key={key} {...row} class={event.body.type === "step_failed" ? "bad" : ""}>
              <span class="number">{event.number}</span>
              <time dateTime={event.at}>{clock(event.at)}</time>
              <span>{sentence(event, run.plan)}{event.by.kind !== "system" && <small> {t(event.by.kind === "program" ? "app.byProgram" : "app.by", { name: event.by.name || event.by.kind })}</small>}</span>
            </li>
          )}
        </VirtualList>
      )}
    </div>
  );
}

// Made once: it costs a millisecond, and a log has thousands of lines.
const HOURS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

const clock = (at: string): string => HOURS.format(new Date(at)) + at.slice(19, 23).replace(/Z|\+.*/, "");

export function sentence(event: Event, plan: Plan | null | undefined): string {
  const { type, ...body } = event.body;
  if (!EVENT_TYPES.includes(type)) return type;
  const values = Object.fromEntries(Object.entries(body).filter((each): each is [string, string] => typeof each[1] === "string"));
  if (type === "run_finished") values["status"] = t(`run.${values["status"] as RunStatus}`);
  if (values["step"]) values["step"] = nameIn(plan, values["step"]);
  return t(`event.${type}` as Key, values);
}
