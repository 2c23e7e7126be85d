// The decision about a plan. Approving is one button and nothing else: it names the hash it approves.

import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { RunView } from "../data/types";
import { ApiError, post, runPath } from "../live/api";
import { go, link } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, ErrorNote, Field, Grow, useAction } from "../ui/parts";
import { short, t } from "../words/words";
import type { Editor } from "./editing";
import { askAgain } from "./noplan";

interface Props { run: RunView; editor: Editor; reload: () => void; onStale: () => void }

// Why the plan cannot be approved now; empty where it can.
function barrier(run: RunView, editor: Editor): string {
  if (run.cannot_approve) return run.cannot_approve;
  if (editor.dirty) return t("review.saveFirst");
  return run.problems.some((each) => each.severity === "error") ? t("review.hasErrors") : "";
}

export function Decision({ run, editor, reload, onStale }: Props): JSX.Element {
  const action = useAction();
  const [text, setText] = useState("");
  const [asking, setAsking] = useState(false);
  const [sure, setSure] = useState(false);
  const why = useId();
  const send = (body: Record<string, unknown>): void => action.act(async () => {
    try {
      await post(runPath(run.id, "/decision"), body);
      // The address without a part follows the run: to its steps, or to the next plan.
      go(["runs", run.id]);
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) onStale();
      throw error;
    } finally {
      reload();
    }
  });
  const again = (): void => action.act(async () => {
    await post(runPath(run.id, "/decision"), { reject: true });
    await askAgain(run);
  });
  const barred = barrier(run, editor);
  const approve = (
    <Button kind={run.stand_in ? "plain" : "primary"} icon={run.stand_in ? "warning" : "done"} describedBy={why}
      disabled={action.busy || !run.hash || barred !== ""} onClick={() => send({ approve: run.hash })}>
      {t(run.stand_in ? "noplan.anyway" : "review.approve")}
    </Button>
  );
  return (
    <section class="decision" aria-label={t("review.title")}>
      <ErrorNote error={action.error} />
      <div class="actions">
        {run.stand_in ? <Button kind="primary" icon="replanning" disabled={action.busy} onClick={again}>{t("go.planAgain")}</Button> : approve}
        <Button icon="planning" onClick={() => setAsking(!asking)}>{t("review.changes")}</Button>
        <span id={why} class={`small ${barred ? "warn" : "dim"}`}>{barred && <Icon name="note" />}{barred || t("review.approveHash", { hash: short(run.hash) })}</span>
        {run.stand_in && approve}
        <a class="button quiet" href={link(["schedules", "new"], { run: run.id })}>{t("report.schedule")}</a>
        <Button kind="danger" icon="remove" disabled={action.busy} onClick={() => setSure(true)}>{t("review.discard")}</Button>
      </div>
      {asking && (
        <div class="changes">
          <Field label={t("review.changesLabel")}>{(id) => <Grow id={id} rows={2} focus value={text} onInput={setText} />}</Field>
          <Button kind="primary" disabled={action.busy || !text.trim()} hint={text.trim() ? undefined : t("hero.sayFirst")} onClick={() => { send({ changes: text.trim() }); setText(""); setAsking(false); }}>{t("review.changesSend")}</Button>
        </div>
      )}
      {sure && <Confirm title={t("review.discardSure")} yes={t("review.discard")} onNo={() => setSure(false)} onYes={() => { setSure(false); send({ reject: true }); }} />}
    </section>
  );
}
