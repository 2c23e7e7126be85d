// A person's edits of a plan: kept over a reload, checked while they are made, undone one by one.

import { useEffect, useRef, useState } from "preact/hooks";
import { sameJson } from "../data/diff";
import { parseExactly } from "../data/json";
import { isOver } from "../data/run";
import type { Checked, Json, Plan, RunView } from "../data/types";
import { ApiError, call, post, runPath } from "../live/api";
import { useSoon } from "../live/hooks";

interface Edits { base: string; plan: Plan; past: Plan[]; future: Plan[]; field: string }

export interface Editor {
  plan: Plan;
  dirty: boolean;
  // Edits that came back after a reload.
  restored: boolean;
  // The plan on the server is no longer the one that was edited.
  outdated: boolean;
  checked: Checked;
  checking: boolean;
  failed: ApiError | undefined;
  // Changes of one field after another are one step back.
  edit: (plan: Plan, field: string) => void;
  undo: (() => void) | undefined;
  redo: (() => void) | undefined;
  drop: () => void;
  save: () => Promise<void>;
  retry: () => Promise<RunView>;
}

const key = (run: string): string => `plansmith-edits-${run}`;

function stored(run: RunView): Edits | undefined {
  const text = sessionStorage.getItem(key(run.id));
  return text ? (parseExactly(text) as unknown as Edits) : undefined;
}

const same = (left: Plan, right: Plan): boolean => sameJson(left as unknown as Json, right as unknown as Json);

export function mayEdit(run: RunView): boolean {
  if (isOver(run.status)) return false;
  return !run.running_hash || run.paused || run.status === "reviewing";
}

export function useEditor(run: RunView, saved: Plan, reload: () => void): Editor {
  const [edits, setEdits] = useState<Edits | undefined>(() => stored(run));
  const [restored, setRestored] = useState(edits !== undefined);
  const [checked, setChecked] = useState<{ of: Plan; as: Checked }>();
  const [failed, setFailed] = useState<ApiError>();
  const wanted = useRef<Plan | undefined>(undefined);
  const plan = edits?.plan ?? saved;
  const dirty = edits !== undefined && !same(plan, saved);
  wanted.current = dirty ? plan : undefined;

  const check = useSoon(() => {
    const asked = wanted.current;
    if (!asked) return;
    post<Checked>(runPath(run.id, "/plan/check"), { plan: asked }, ["plan"]).then(
      (as) => { if (wanted.current === asked) { setChecked({ of: asked, as }); setFailed(undefined); } },
      (error: unknown) => { if (wanted.current === asked && error instanceof ApiError) setFailed(error); },
    );
  }, 300);
  useEffect(() => {
    if (edits) sessionStorage.setItem(key(run.id), JSON.stringify(edits));
    else sessionStorage.removeItem(key(run.id));
    if (dirty) check();
  }, [edits]);

  const now = edits ?? { base: run.hash ?? "", plan: saved, past: [], future: [], field: "" };
  const put = (next: Edits | undefined): void => { setRestored(false); setFailed(undefined); setEdits(next); };
  const own: Checked = {
    plan: saved, hash: run.hash ?? "", problems: run.problems, estimate: run.estimate, effects: run.effects, origins: run.origins, rules: run.rules,
  };
  return {
    plan, dirty, restored: restored && dirty, failed: dirty ? failed : undefined,
    outdated: dirty && run.hash !== null && now.base !== run.hash,
    checked: dirty && checked ? checked.as : own,
    checking: dirty && checked?.of !== plan && !failed,
    edit: (next, field) => put({
      base: now.base, plan: next, future: [], field,
      past: field === now.field && now.past.length ? now.past : [...now.past, now.plan],
    }),
    undo: now.past.length ? () => put({
      ...now, plan: now.past.at(-1)!, past: now.past.slice(0, -1), future: [now.plan, ...now.future], field: "",
    }) : undefined,
    redo: now.future.length ? () => put({
      ...now, plan: now.future[0]!, past: [...now.past, now.plan], future: now.future.slice(1), field: "",
    }) : undefined,
    drop: () => put(undefined),
    save: async () => {
      await call("PUT", runPath(run.id, "/plan"), { body: { plan }, headers: { "If-Match": `"${now.base}"` } });
      put(undefined);
      reload();
    },
    retry: async () => {
      const next = await post<RunView>(runPath(run.id, "/retry"), { plan });
      put(undefined);
      return next;
    },
  };
}
