// What can be done with the runs that are ticked: compare two, cancel the open ones, delete.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isOver } from "../data/run";
import type { RunRow } from "../data/types";
import { call, post, runPath } from "../live/api";
import { link } from "../route";
import { Button, Confirm, ErrorNote, useAction } from "../ui/parts";
import { t } from "../words/words";

export function ChosenRuns({ runs, onRemoved, onClear }: { runs: RunRow[]; onRemoved: (ids: string[]) => void; onClear: () => void }): JSX.Element {
  const action = useAction();
  const [sure, setSure] = useState<"" | "cancel" | "delete">("");
  const [done, setDone] = useState("");
  const open = runs.filter((each) => !isOver(each.status));
  const [one, other] = [...runs].sort((left, right) => left.created_at.localeCompare(right.created_at));
  // One after the other, so that what fails is known; those before it are done and said so.
  const each = (some: RunRow[], work: (run: RunRow) => Promise<unknown>, whenDone?: (ids: string[]) => void): void => action.act(async () => {
    const gone: string[] = [];
    try {
      for (const run of some) {
        await work(run);
        gone.push(run.id);
        setDone(t("desk.progress", { done: gone.length, total: some.length }));
      }
      onClear();
    } finally {
      setDone("");
      whenDone?.(gone);
    }
  });
  // Events tell that a run was cancelled; nothing tells that one was deleted.
  const cancel = (): void => each(open, (run) => post(runPath(run.id, "/cancel")));
  const remove = (): void => each(runs, (run) => call("DELETE", runPath(run.id)), onRemoved);
  return (
    <div class="chosen" role="group" aria-label={t("desk.chosen", { count: runs.length })}>
      <b>{t("desk.chosen", { count: runs.length })}</b>
      {runs.length === 2 && one && other && <a class="button" href={link(["compare", one.id, other.id])}>{t("desk.compare")}</a>}
      {open.length > 0 && <Button disabled={action.busy} onClick={() => setSure("cancel")}>{t("desk.cancelRuns", { count: open.length })}</Button>}
      <Button kind="danger" icon="remove" disabled={action.busy} onClick={() => setSure("delete")}>{t("app.delete")}</Button>
      <Button kind="quiet" onClick={onClear}>{t("desk.none")}</Button>
      <span class="dim small" role="status">{done}</span>
      <ErrorNote error={action.error} />
      {sure === "cancel" && <Confirm title={t("desk.cancelSure", { count: open.length })} yes={t("desk.cancelRuns", { count: open.length })} onNo={() => setSure("")} onYes={() => { setSure(""); cancel(); }} />}
      {sure === "delete" && <Confirm title={t(open.length ? "desk.deleteOpenSure" : "desk.deleteSure", { count: runs.length, open: open.length })} yes={t("app.delete")} onNo={() => setSure("")} onYes={() => { setSure(""); remove(); }} />}
    </div>
  );
}
