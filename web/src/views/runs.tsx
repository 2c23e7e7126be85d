// A list of runs: what each is for, where it stands, how far it is, what it took.

import type { JSX } from "preact";
import type { RunRow, RunStatus } from "../data/types";
import { useNow } from "../live/hooks";
import { link } from "../route";
import { RunBadge } from "../ui/status";
import { VirtualList } from "../ui/virtual";
import { ago, duration, money, t } from "../words/words";

const MOVES: ReadonlySet<RunStatus> = new Set(["triaging", "planning", "running", "replanning"]);

export interface Choosing { chosen: ReadonlySet<string>; onChoose: (id: string, range: boolean) => void }

// `more`: there are older ones that are not read yet.
export function RunRows({ rows, choosing, more = false }: { rows: RunRow[]; choosing?: Choosing; more?: boolean }): JSX.Element {
  const now = useNow(rows.some((row) => MOVES.has(row.status)));
  return (
    <VirtualList items={rows} keyOf={(row) => row.id} guess={44} as="ul" class="rows" more={more}>
      {(row, _, { key, ...props }) => (
        <li key={key} {...props} class={choosing ? "choosable" : ""}>
          {choosing && <input type="checkbox" checked={choosing.chosen.has(row.id)} aria-label={t("desk.choose", { name: row.request || row.goal })} onClick={(event) => choosing.onChoose(row.id, event.shiftKey)} />}
          <a data-row href={link(["runs", row.id])}>
            <span class="what"><b>{row.request || row.goal}</b>{row.goal && row.goal !== row.request && <small>{row.goal}</small>}</span>
            <RunBadge status={row.status} />
            <Progress row={row} />
            {choosing && <span class="took" title={t("desk.took")}>{worked(row) > 0 ? duration(worked(row)) : ""}</span>}
            <span class="cost" title={t("review.cost")}>{Number(row.cost_usd) > 0 ? money(row.cost_usd) : ""}</span>
            <time dateTime={row.created_at}>{ago(row.created_at, now)}</time>
          </a>
        </li>
      )}
    </VirtualList>
  );
}

// Planning and running; what was spent waiting for a person does not count.
const worked = (row: RunRow): number => (row.planning_seconds ?? 0) + (row.running_seconds ?? 0);

// What was read for a preview does not make a plan that waits for approval half done.
function Progress({ row: { steps, status } }: { row: RunRow }): JSX.Element {
  if (!steps.total || status === "reviewing") return <span class="progress" />;
  return (
    <span class="progress">
      <progress max={steps.total} value={steps.done} aria-label={t("go.done", { done: steps.done, total: steps.total })} />
      <small>{steps.done}/{steps.total}</small>
    </span>
  );
}
