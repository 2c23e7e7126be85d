// What can be done with a run as a whole: pause, go on, cancel, repeat.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isOver } from "../data/run";
import type { RunView } from "../data/types";
import { post, runPath } from "../live/api";
import { go } from "../route";
import { Button, Confirm, ErrorNote, useAction } from "../ui/parts";
import { t } from "../words/words";

export function Controls({ run, reload }: { run: RunView; reload: () => void }): JSX.Element {
  const action = useAction();
  const [sure, setSure] = useState(false);
  const send = (verb: string): void => action.act(async () => { await post(runPath(run.id, `/${verb}`)); reload(); });
  const next = (verb: "retry" | "rerun" | "take-back"): void => action.act(async () => {
    const made = await post<RunView>(runPath(run.id, `/${verb}`));
    go(["runs", made.id]);
  });
  const over = isOver(run.status);
  const back = over && run.can_be_undone;
  if (run.damage) {
    return (
      <div class="actions">
        <Button icon="ready" kind="primary" disabled={action.busy} onClick={() => send("repair")}>{t("run.repair")}</Button>
        <ErrorNote error={action.error} />
      </div>
    );
  }
  return (
    <div class="actions">
      {!over && run.running_hash && !run.paused && <Button icon="paused" disabled={action.busy} onClick={() => send("pause")}>{t("go.pause")}</Button>}
      {run.paused && !over && <Button icon="ready" kind="primary" disabled={action.busy} onClick={() => send("resume")}>{t("go.resume")}</Button>}
      {!over && run.status !== "reviewing" && (
        <Button icon="cancelled" disabled={action.busy || run.cancel_asked} onClick={() => setSure(true)}>
          {run.cancel_asked ? t("go.stopping") : run.running_hash ? t("go.cancel") : t("planning.stop")}
        </Button>
      )}
      {over && run.continues && <Button icon="ready" disabled={action.busy} hint={t("go.continueWhy", run.continues)} onClick={() => next("retry")}>{t("go.continue", run.continues)}</Button>}
      {over && run.plan && <Button icon="replanning" disabled={action.busy} hint={t("go.rerunWhy")} onClick={() => next("rerun")}>{t("go.rerun")}</Button>}
      {over && run.plan && <Button icon="planning" onClick={() => go(["runs", run.id, "plan"], { edit: "1" })}>{t("go.edit")}</Button>}
      {back && <Button icon="undo" disabled={action.busy} hint={t("go.takeBackWhy")} onClick={() => next("take-back")}>{t("go.takeBack")}</Button>}
      <ErrorNote error={action.error} />
      {sure && <Confirm title={t("go.cancelSure")} yes={t("go.cancel")} onNo={() => setSure(false)} onYes={() => { setSure(false); send("cancel"); }} />}
    </div>
  );
}
