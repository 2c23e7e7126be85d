// The graph of a run with its list below: what happens, and what came of it.

import type { JSX } from "preact";
import type { RunView } from "../data/types";
import { Graph } from "./graph";
import { LiveList } from "./livelist";
import { tookText } from "./times";

interface Props { run: RunView; step: string | undefined; hrefOf: (id: string) => string; now: number; parts?: readonly ("graph" | "list")[] }

export function Overview({ run, step, hrefOf, now, parts = ["graph", "list"] }: Props): JSX.Element {
  const plan = run.plan!;
  return (
    <>
      {parts.includes("graph") && <Graph plan={plan} selected={step?.split("/")[0]} hrefOf={hrefOf} share={parts.includes("list") ? 0.45 : 0.7}
        statusOf={(id) => run.steps[id]?.status} effectOf={(id) => run.effects.by_step[id]}
        timeOf={(id) => { const state = run.steps[id]; return state ? tookText(state, now) : ""; }}
        notesOf={(id) => [...(run.rules[id] ?? []), run.steps[id]?.status === "skipped" ? run.steps[id].error : ""].filter(Boolean)}
        critical={new Set(run.estimate?.critical_path ?? [])} />}
      {parts.includes("list") && <LiveList run={run} plan={plan} selected={step} hrefOf={hrefOf} now={now} />}
    </>
  );
}
