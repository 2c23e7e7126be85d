// The decision about a plan. Approving is one button and nothing else: it names the hash it approves.

import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { RunView } from "../data/types";
import { ApiError, post, runPath } from "../live/api";
import { approvalOf } from "../live/preview";
import type { Shown } from "../live/preview";
import { go, link } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, ErrorNote, Field, Grow, isEnter, useAction } from "../ui/parts";
import { short, t } from "../words/words";
import type { Editor } from "./editing";
import { askAgain } from "./noplan";
import { scheduleRun, timesOf } from "./timing";

interface Props { run: RunView; editor: Editor; preview: Shown | undefined; reload: () => void; onStale: () => void }

// Why the plan cannot be approved now; empty where it can.
function barrier(run: RunView, editor: Editor): string {
  if (run.cannot_approve) return run.cannot_approve;
  if (editor.dirty) return t("review.saveFirst");
  return run.problems.some((each) => each.severity === "error") ? t("review.hasErrors") : "";
}

// What is approved, in one line.
export function approves(run: RunView, preview: Shown | undefined): string {
  const hash = short(run.hash);
  if (!preview) return t("review.approveHash", { hash });
  const { calls, choice } = preview;
  const all = choice.out.size === 0;
  return t(all ? "ahead.approvesAll" : "ahead.approves", { hash, count: calls.length - choice.out.size, total: calls.length });
}

export function Decision({ run, editor, preview, reload, onStale }: Props): JSX.Element {
  const action = useAction();
  const [text, setText] = useState("");
  const [asking, setAsking] = useState(false);
  const [sure, setSure] = useState(false);
  const why = useId();
  // The address without a part follows the run: to its steps, or to the next plan.
  const send = (body: Record<string, unknown>): void => act(async () => { await post(runPath(run.id, "/decision"), body); return ["runs", run.id]; });
  const act = (work: () => Promise<string[]>): void => action.act(async () => {
    try {
      go(await work());
    } catch (error) {
      // Said above the plan, which is read anew: once is enough.
      if (!(error instanceof ApiError && error.status === 409)) throw error;
      onStale();
    } finally {
      reload();
    }
  });
  const again = (): void => action.act(async () => {
    await post(runPath(run.id, "/decision"), { reject: true });
    await askAgain(run);
  });
  const change = (): void => {
    if (!text.trim() || action.busy) return;
    send({ changes: text.trim() });
    setText("");
    setAsking(false);
  };
  const barred = barrier(run, editor);
  const timed = timesOf(run.plan).length > 0;
  const approving = { describedBy: why, disabled: action.busy || !run.hash || barred !== "" || (run.preview !== null && !preview) };
  const approve = (
    <>
      {timed && <Button kind={run.stand_in ? "plain" : "primary"} icon="schedules" {...approving} onClick={() => act(() => scheduleRun(run))}>{t("review.schedule")}</Button>}
      <Button kind={run.stand_in || timed ? "plain" : "primary"} icon={run.stand_in ? "warning" : "done"} {...approving} onClick={() => send(approvalOf(run, preview))}>
        {t(run.stand_in ? "noplan.anyway" : timed ? "review.once" : "review.approve")}
      </Button>
    </>
  );
  return (
    <section class="decision" aria-label={t("review.title")}>
      <ErrorNote error={action.error} />
      <div class="actions">
        {run.stand_in ? <Button kind="primary" icon="replanning" disabled={action.busy} onClick={again}>{t("go.planAgain")}</Button> : approve}
        <Button icon="planning" onClick={() => setAsking(!asking)}>{t("review.changes")}</Button>
        <span id={why} class={`small ${barred ? "warn" : "dim"}`}>{barred && <Icon name="note" />}{barred || approves(run, preview)}</span>
        {run.stand_in && approve}
        <a class="button quiet" href={link(["schedules", "new"], { run: run.id })}>{t(timed ? "review.otherTime" : "report.schedule")}</a>
        <Button kind="danger" icon="remove" disabled={action.busy} onClick={() => setSure(true)}>{t("review.discard")}</Button>
      </div>
      {asking && (
        <div class="changes">
          <Field label={t("review.changesLabel")}>{(id) => <Grow id={id} rows={2} focus value={text} onInput={setText}
            onKeyDown={(event) => { if (isEnter(event)) { event.preventDefault(); change(); } }} />}</Field>
          <Button kind="primary" disabled={action.busy || !text.trim()} hint={text.trim() ? undefined : t("hero.sayFirst")} onClick={change}>{t("review.changesSend")}</Button>
        </div>
      )}
      {sure && <Confirm title={t("review.discardSure")} yes={t("review.discard")} onNo={() => setSure(false)} onYes={() => { setSure(false); send({ reject: true }); }} />}
    </section>
  );
}
