// A list of runs that is read page by page as somebody scrolls, and stays true while runs change.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { partsWith, withFirst, withNext, withPart, without } from "../data/pages";
import type { Paged } from "../data/pages";
import type { RunRow } from "../data/types";
import { get } from "./api";
import type { ApiError } from "./api";
import { asError, useSoon } from "./hooks";
import { live } from "./stream";
import { changesRows } from "./wakes";

export const FIRST = 50;
const NEXT = 200;

export interface RunPages {
  value: Paged<RunRow> | undefined;
  error: ApiError | undefined;
  // Whether other rows than those that are shown are being read, after the filters changed.
  isOld: boolean;
  reload: () => void;
  more: () => void;
  remove: (ids: string[]) => void;
}

interface State { asked: string; value?: Paged<RunRow>; error?: ApiError }

const page = (asked: string, limit: number, cursor = ""): Promise<Paged<RunRow>> =>
  get(`/v1/runs?${asked ? `${asked}&` : ""}limit=${limit}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);

// `asked` is what is asked for; what was listed before is shown until the new rows are there.
export function useRunPages(asked: string): RunPages {
  const [state, setState] = useState<State>({ asked });
  const latest = useRef(state);
  const put = useCallback((next: State) => { latest.current = next; setState(next); }, []);
  const turn = useRef(0);
  // The page that is being read, so that it is asked for once.
  const reading = useRef("");
  const changed = useRef(new Set<string>());

  const change = useCallback((of: string, make: (known: Paged<RunRow>) => Paged<RunRow>) => {
    const now = latest.current;
    if (now.asked === of && now.value) put({ ...now, value: make(now.value) });
  }, []);
  const read = useCallback(() => {
    const mine = ++turn.current;
    page(asked, FIRST).then((first) => {
      if (mine !== turn.current) return;
      const now = latest.current;
      put({ asked, value: withFirst(now.asked === asked ? now.value : undefined, first) });
    }, (failure: unknown) => {
      if (mine !== turn.current) return;
      const error = asError(failure);
      const now = latest.current;
      put(now.asked === asked && now.value ? { ...now, error } : { asked, error });
    });
  }, [asked]);
  const more = useCallback(() => {
    const now = latest.current;
    const next = now.asked === asked ? now.value?.next : null;
    const mine = `${asked} ${next}`;
    if (!next || reading.current === mine) return;
    reading.current = mine;
    page(asked, NEXT, next)
      .then((found) => change(asked, (known) => (known.next === next ? withNext(known, found) : known)),
        (failure: unknown) => { const last = latest.current; if (last.asked === asked) put({ ...last, error: asError(failure) }); })
      .finally(() => { if (reading.current === mine) reading.current = ""; });
  }, [asked]);
  // The first page is read again whenever anything changes; of the others, what holds a changed run.
  const refresh = useSoon(() => {
    read();
    const ids = changed.current;
    changed.current = new Set();
    const now = latest.current;
    if (now.asked !== asked || !now.value) return;
    for (const part of partsWith(now.value, ids, FIRST, NEXT)) {
      void page(asked, part.size, part.after).then(({ items }) => change(asked, (known) => withPart(known, part, items)), () => undefined);
    }
  });
  useEffect(() => {
    // Of a filter that is being typed only the last one is asked for.
    const timer = setTimeout(() => { ready = live.whenReady(read); }, latest.current.value && latest.current.asked !== asked ? 120 : 0);
    let ready = (): void => undefined;
    const deaf = live.listen({
      event: (event) => {
        if (!changesRows(event)) return;
        changed.current.add(event.run);
        refresh();
      },
      resync: () => { latest.current.value?.items.forEach((each) => changed.current.add(each.id)); refresh(); },
    });
    return () => { clearTimeout(timer); ready(); deaf(); };
  }, [asked]);
  const remove = useCallback((ids: string[]) => {
    change(asked, (known) => without(known, new Set(ids)));
    read();
  }, [asked]);
  return { value: state.value, error: state.error, isOld: state.asked !== asked, reload: read, more, remove };
}
