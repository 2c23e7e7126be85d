// The journal of a run, read once and kept up to date; only for the views that show it.

import { useEffect, useState } from "preact/hooks";
import type { Event } from "../data/types";
import { get, runPath } from "./api";
import { live } from "./stream";

export function useEvents(run: string, wanted: boolean): Event[] {
  const [events, setEvents] = useState<Event[]>([]);
  useEffect(() => {
    if (!wanted) return undefined;
    let gone = false;
    const add = (more: Event[]): void => setEvents((known) => {
      const last = known.at(-1)?.number ?? 0;
      const fresh = more.filter((event) => event.run === run && event.number > last);
      return fresh.length ? [...known, ...fresh] : known;
    });
    const read = (): void => {
      get<{ items: Event[] }>(runPath(run, "/events?after=0")).then(({ items }) => {
        if (!gone) setEvents((known) => [...items, ...known.filter((event) => event.number > (items.at(-1)?.number ?? 0))]);
      }, () => undefined);
    };
    setEvents([]);
    read();
    const deaf = live.listen({ events: add, resync: read });
    return () => { gone = true; deaf(); };
  }, [run, wanted]);
  return events;
}
