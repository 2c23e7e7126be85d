// What views use to show things that change: a resource that is read again when events say so,
// and a run that is folded forward event by event.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Misfit, isOver, stateOf, statusOf, take, withReady } from "../data/run";
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
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      latest.current();
    }, wait);
  }, [wait]);
}

const asError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(500, "page", String(error), "", []);

// `wakes` says which events make the resource worth reading again, `said` in which conversations.
export function useResource<T>(path: string | null, wakes?: (event: Event) => boolean, said?: (conversation: string) => boolean): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; value?: T; error?: ApiError }>({ path });
  const newest = useRef(0);
  const read = useCallback(() => {
    const turn = ++newest.current;
    if (path === null) return;
    get<T>(path).then(
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
    read();
    return live.listen({
      event: (event) => { if (wakes?.(event)) soon(); },
      conversation: (id) => { if (said?.(id)) soon(); },
      resync: soon,
    });
  }, [read]);
  const current = state.path === path ? state : { path };
  return { value: current.value, error: current.error, reload: read };
}

export interface LiveRun extends Loaded<RunView> {
  drafts: Draft[];
}

// Events that bring what only the server can tell: hashes, effects, resolved inputs, results.
const READ_AGAIN = new Set([
  "plan_proposed", "review_asked", "plan_approved", "step_started", "step_done", "step_reused",
  "report_made", "run_finished", "question_asked",
]);

// A run as it stands now: read once, folded forward, read again where events do not say all.
export function useRun(id: string): LiveRun {
  const [view, setView] = useState<RunView>();
  const [error, setError] = useState<ApiError>();
  const [drafts, setDrafts] = useState<Draft[]>(live.draftsOf(id));
  const state = useRef<RunState | undefined>(undefined);
  const base = useRef<RunView | undefined>(undefined);
  const ahead = useRef<Event[]>([]);
  const newest = useRef(0);

  const show = (): void => {
    if (base.current && state.current) setView(merged(base.current, state.current));
  };
  const read = useCallback(() => {
    const turn = ++newest.current;
    get<RunView>(runPath(id), ["plan"]).then((fresh) => {
      if (turn !== newest.current) return;
      base.current = fresh;
      state.current = stateOf(fresh);
      setError(undefined);
      ahead.current = ahead.current.filter((event) => event.number > fresh.last);
      for (const event of ahead.current) advance(event);
      show();
    }, (failure: unknown) => { if (turn === newest.current) setError(asError(failure)); });
  }, [id]);
  const soon = useSoon(read, 120);

  const advance = (event: Event): void => {
    const known = state.current;
    if (!known || event.number <= known.last || isOver(known.phase)) return;
    try {
      state.current = take(known, event);
    } catch (failure) {
      if (!(failure instanceof Misfit)) throw failure;
      soon();
    }
  };

  useEffect(() => {
    setView(undefined);
    setError(undefined);
    setDrafts(live.draftsOf(id));
    base.current = state.current = undefined;
    ahead.current = [];
    read();
    return live.listen({
      event: (event) => {
        if (event.run !== id) return;
        ahead.current.push(event);
        advance(event);
        show();
        if (event.body.type === "plan_proposed") setDrafts([]);
        if (READ_AGAIN.has(event.body.type)) soon();
      },
      draft: (draft) => { if (draft.run === id) setDrafts(live.draftsOf(id)); },
      resync: soon,
    });
  }, [id]);
  return { value: view?.id === id ? view : undefined, error, reload: read, drafts };
}

// The server's view with the folded state on top; results stay with the steps they belong to.
export function merged(view: RunView, state: RunState): RunView {
  if (state.last === view.last) return view;
  const steps: Record<string, StepView> = {};
  for (const [name, step] of Object.entries(withReady(state))) {
    const known = view.steps[name];
    steps[name] = known && known.result_hash === step.result_hash ? { ...known, ...step } : step;
  }
  const { report_hash: _, questions, created_at, updated_at, ...rest } = state;
  const planned = state.revisions === view.revisions;
  return {
    ...view, ...rest, steps,
    plan: planned ? view.plan : state.plan,
    hash: planned ? view.hash : null,
    rules: planned ? view.rules : {},
    status: statusOf(state),
    questions: Object.values(questions),
    created_at: created_at ?? view.created_at,
    updated_at: updated_at ?? view.updated_at,
  };
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
