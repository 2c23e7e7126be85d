// What views use to show things that change: a resource that is read again when events say so,
// and a run that is folded forward event by event.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { fold, isOver, merged, newStep, stateOf } from "../data/run";
import type { RunState } from "../data/run";
import type { Draft, Event, RunView, StepView } from "../data/types";
import { ApiError, get, runPath } from "./api";
import { live } from "./stream";

export interface Loaded<T> {
  value: T | undefined;
  error: ApiError | undefined;
  reload: () => void;
}

const CALM = 250;

// Runs `act` soon, once for many calls.
export function useSoon(act: () => void, wait = CALM): () => void {
  const latest = useRef({ act, wait });
  latest.current = { act, wait };
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      latest.current.act();
    }, latest.current.wait);
  }, []);
}

export const asError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(500, "page", String(error), "", []);

// `wakes` says which events make the resource worth reading again, `said` in which conversations; `exactly`
// names the fields in which numbers keep the digits that they were sent with.
export function useResource<T>(path: string | null, wakes?: (event: Event) => boolean, said?: (conversation: string) => boolean, exactly?: string[]): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; value?: T; error?: ApiError }>({ path });
  const newest = useRef(0);
  const read = useCallback(() => {
    const turn = ++newest.current;
    if (path === null) return;
    get<T>(path, exactly).then(
      (value) => { if (turn === newest.current) setState({ path, value }); },
      (error: unknown) => {
        if (turn !== newest.current) return;
        setState((old) => (old.path === path && old.value !== undefined
          ? { ...old, error: asError(error) } : { path, error: asError(error) }));
      },
    );
  }, [path]);
  const soon = useSoon(read);
  useEffect(() => {
    const ready = live.whenReady(read);
    const deaf = live.listen({
      event: (event) => { if (wakes?.(event)) soon(); },
      conversation: (id) => { if (said?.(id)) soon(); },
      resync: soon,
    });
    return () => { ready(); deaf(); };
  }, [read]);
  const current = state.path === path ? state : { path };
  return { value: current.value, error: current.error, reload: read };
}

export interface LiveRun extends Loaded<RunView> {
  drafts: Draft[];
}

// Events that bring what only the server can tell of the whole run: hashes, effects, reasons.
const READ_AGAIN = new Set(["plan_proposed", "review_asked", "preview_started", "preview_made", "plan_approved", "request_answered", "run_finished", "question_asked"]);
// Events that bring resolved inputs and results of single steps.
const READ_STEPS = new Set(["step_started", "step_done", "step_reused", "step_failed", "step_skipped"]);

interface ChangedValues { last: number; steps: Record<string, Partial<StepView>> }

// A run as it stands now: read once, folded forward, read again where events do not say all.
export function useRun(id: string): LiveRun {
  const [view, setView] = useState<RunView>();
  const [error, setError] = useState<ApiError>();
  const [drafts, setDrafts] = useState<Draft[]>(live.draftsOf(id));
  const known = useRef<Known>(new Known(id));
  if (known.current.id !== id) known.current = new Known(id);

  const show = (of: Known): void => { if (of === known.current && of.view) setView(of.view); };
  const read = useCallback(() => {
    const of = known.current;
    if (of.reading) {
      of.again = true;
      return;
    }
    of.reading = true;
    get<RunView>(runPath(id), ["plan", "steps"]).then((fresh) => {
      of.begin(fresh);
      if (of !== known.current) return;
      setError(undefined);
      show(of);
      if (of.isAhead) readSteps();
    }, (failure: unknown) => { if (of === known.current) setError(asError(failure)); }).finally(() => {
      of.reading = false;
      if (of.again && of === known.current) read();
      of.again = false;
    });
  }, [id]);
  const soon = useSoon(read, 120);
  // The more steps, the more of them change at a time: they are asked for together.
  const readSteps = useSoon(() => {
    const of = known.current;
    if (!of.base) return;
    get<ChangedValues>(runPath(id, `/values?after=${of.told}`), ["steps"]).then((changed) => { of.learn(changed); show(of); }, () => undefined);
  }, 150 + Math.min(850, (view?.plan?.steps.length ?? 0)));

  useEffect(() => {
    setView(undefined);
    setError(undefined);
    setDrafts(live.draftsOf(id));
    const ready = live.whenReady(read);
    const deaf = live.listen({
      events: (all) => {
        const of = known.current;
        const mine = all.filter((event) => event.run === id);
        if (mine.length === 0) return;
        if (!of.follow(mine)) soon();
        show(of);
        if (mine.some((event) => event.body.type === "plan_proposed")) setDrafts(live.draftsOf(id));
        if (mine.some((event) => READ_AGAIN.has(event.body.type))) soon();
        else if (mine.some((event) => READ_STEPS.has(event.body.type))) readSteps();
      },
      draft: (run) => { if (run === id) setDrafts(live.draftsOf(id)); },
      resync: soon,
    });
    return () => { ready(); deaf(); };
  }, [id]);
  return { value: view?.id === id ? view : undefined, error, reload: read, drafts };
}

// What is known of a run: how the server told it, and the events since then.
export class Known {
  base: RunView | undefined;
  reading = false;
  again = false;
  // The number of the last event whose inputs and results are known.
  told = 0;
  private state: RunState | undefined;
  private ahead: Event[] = [];

  constructor(readonly id: string) {}

  begin(fresh: RunView): void {
    const old = this.base;
    // The same plan stays the same object, so that nothing is laid out again for it.
    const same = old?.plan && old.hash === fresh.hash && old.revisions === fresh.revisions;
    this.base = same ? { ...fresh, plan: old.plan, origins: old.origins, rules: old.rules } : fresh;
    this.state = stateOf(this.base);
    this.told = fresh.last;
    const ahead = this.ahead.filter((event) => event.number > fresh.last);
    this.ahead = [];
    this.follow(ahead);
  }

  // Whether the events follow on what is known; if not, the run must be read again.
  follow(events: Event[]): boolean {
    this.ahead.push(...events);
    const state = this.state;
    if (!state) return true;
    const fresh = events.filter((event) => event.number > state.last);
    if (fresh.length === 0 || isOver(state.phase)) return true;
    if (fresh.some((event, index) => event.number !== state.last + 1 + index)) return false;
    this.state = fold(fresh, state);
    return true;
  }

  learn({ last, steps }: ChangedValues): void {
    if (!this.base || last < this.told) return;
    this.told = last;
    const known = { ...this.base.steps };
    for (const [name, values] of Object.entries(steps)) known[name] = { ...newStep(), ...known[name], ...values };
    this.base = { ...this.base, steps: known };
  }

  // Whether events came of which the server's view does not know yet.
  get isAhead(): boolean { return this.ahead.length > 0; }

  get view(): RunView | undefined {
    return this.base && this.state ? merged(this.base, this.state) : undefined;
  }
}

export function useOnline(): boolean {
  const [online, setOnline] = useState(live.isOnline);
  useEffect(() => live.listen({ online: setOnline }), []);
  return online;
}

// The time, every second while something on the screen counts it.
export function useNow(counts: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!counts) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [counts]);
  return now;
}
