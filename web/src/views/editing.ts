// A person's edits of a plan: kept over a reload, checked while they are made, undone one by one.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { sameJson } from "../data/diff";
import { mergePlans } from "../data/merge";
import { parseExactly } from "../data/json";
import { isOver } from "../data/run";
import type { Checked, Json, Plan, RunView } from "../data/types";
import { ApiError, call, post, runPath } from "../live/api";
import { useSoon } from "../live/hooks";

// `from` is the plan with the hash `base`, which the edits began with.
interface Edits { base: string; from?: Plan; plan: Plan; past: Plan[]; future: Plan[]; field: string; joined?: boolean }

export interface Editor {
  plan: Plan;
  dirty: boolean;
  // Edits that came back after a reload.
  restored: boolean;
  // The plan on the server is no longer the one that was edited, and these steps were changed in both.
  conflicts: string[];
  keepMine: () => void;
  // Edits made elsewhere meanwhile were joined with these.
  joined: boolean;
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

// The plan of a run; one to begin with by hand where there is none: what the model had drafted, or nothing.
export function planOf(run: RunView): Plan {
  return run.plan ?? drafted(run.failure?.output ?? "", run.request) ?? { schema_version: 1, goal: run.request, steps: [] };
}

function drafted(text: string, goal: string): Plan | undefined {
  try {
    const found = parseExactly(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1)) as unknown as Partial<Plan>;
    const steps = Array.isArray(found.steps) ? found.steps : [];
    const sound = steps.length > 0 && steps.every((step) => typeof step?.id === "string" && typeof step.kind === "string");
    return sound ? { schema_version: 1, goal: found.goal ?? goal, steps } : undefined;
  } catch {
    return undefined;
  }
}

export function useEditor(run: RunView, saved: Plan, reload: () => void): Editor {
  const [edits, setEdits] = useState<Edits | undefined>(() => stored(run));
  const [restored, setRestored] = useState(edits !== undefined);
  const [checked, setChecked] = useState<{ of: Plan; as: Checked }>();
  const [failed, setFailed] = useState<ApiError>();
  const wanted = useRef<Plan | undefined>(undefined);
  const plan = edits?.plan ?? saved;
  const dirty = edits !== undefined && !same(plan, saved);
  // A plan made by hand, where there was none, is checked before anything in it is changed.
  const asks = dirty || (run.plan === null && plan.steps.length > 0);
  wanted.current = asks ? plan : undefined;

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
    if (asks) check();
  }, [edits]);

  const now = edits ?? { base: run.hash ?? "", from: saved, plan: saved, past: [], future: [], field: "" };
  const moved = dirty && run.plan !== null && run.hash !== null && now.base !== run.hash;
  const meeting = useMemo(() => (moved && now.from ? mergePlans(now.from, plan, saved) : undefined), [moved, now.from, plan, saved]);
  const conflicts = !moved ? [] : meeting ? meeting.conflicts : [""];
  const join = (): void => {
    if (meeting) setEdits({ base: run.hash ?? "", from: saved, plan: meeting.plan, past: [], future: [], field: "", joined: true });
  };
  useEffect(() => { if (moved && meeting?.conflicts.length === 0) join(); }, [moved, meeting]);
  const put = (next: Edits | undefined): void => { setRestored(false); setFailed(undefined); setEdits(next); };
  const own: Checked = {
    plan: saved, hash: run.hash ?? "", problems: run.plan ? run.problems : [], estimate: run.estimate, effects: run.effects, origins: run.origins, rules: run.rules,
  };
  return {
    plan, dirty, restored: restored && dirty, failed: asks ? failed : undefined,
    conflicts, keepMine: join, joined: dirty && now.joined === true,
    checked: asks && checked ? checked.as : own,
    checking: asks && checked?.of !== plan && !failed,
    edit: (next, field) => put({
      ...now, plan: next, future: [], field,
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
      try {
        await call("PUT", runPath(run.id, "/plan"), { body: { plan }, headers: { "If-Match": `"${now.base}"` } });
        put(undefined);
      } catch (error) {
        // Someone was quicker: the newer plan is read and joined with these edits.
        if (!(error instanceof ApiError && error.status === 412)) throw error;
      } finally {
        reload();
      }
    },
    retry: async () => {
      const next = await post<RunView>(runPath(run.id, "/retry"), { plan });
      put(undefined);
      return next;
    },
  };
}
