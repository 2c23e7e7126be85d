// What an edited plan needs: undo, redo, drop, save; why it cannot be saved, and edits made elsewhere.

import type { JSX } from "preact";
import type { RunView } from "../data/types";
import { post, runPath } from "../live/api";
import { go } from "../route";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, useAction } from "../ui/parts";
import { t } from "../words/words";
import type { Editor } from "./editing";
import { stepName } from "./steptext";

// Goes back to the plan before the last saved edit.
export function Revert({ run, reload }: { run: RunView; reload: () => void }): JSX.Element {
  const action = useAction();
  const revert = (): void => action.act(async () => { await post(runPath(run.id, "/undo")); reload(); });
  return <><Button kind="quiet" icon="undo" disabled={action.busy} onClick={revert}>{t("edit.revert")}</Button><ErrorNote error={action.error} /></>;
}

function barrier(editor: Editor): string {
  if (editor.conflicts.length > 0) return t("hero.settle");
  if (editor.plan.steps.length === 0) return t("hero.addFirst");
  if (editor.checking) return t("edit.checking");
  const errors = editor.checked.problems.filter((each) => each.severity === "error").length;
  return errors > 0 ? t("hero.mendFirst", { count: errors }) : "";
}

export function EditBar({ editor, again, fresh }: { editor: Editor; again: boolean; fresh: boolean }): JSX.Element {
  const action = useAction();
  const retry = (): void => action.act(async () => go(["runs", (await editor.retry()).id]));
  const barred = barrier(editor);
  const stops = action.busy || barred !== "";
  return (
    <div class={`editbar ${editor.dirty ? "dirty" : ""}`}>
      <div class="actions">
        {editor.dirty && <b role="status">{editor.checking ? t("edit.checking") : t("edit.unsaved")}</b>}
        {editor.undo && <Button kind="quiet" icon="undo" onClick={editor.undo}>{t("edit.undo")}</Button>}
        {editor.redo && <Button kind="quiet" icon="redo" onClick={editor.redo}>{t("edit.redo")}</Button>}
        {editor.dirty && <Button kind="quiet" onClick={editor.drop}>{t("edit.drop")}</Button>}
        <span class="grow" />
        {barred && !editor.checking && (again || editor.dirty) && <span class="small warn"><Icon name="note" />{barred}</span>}
        {again ? <Button kind="primary" disabled={stops} hint={barred} onClick={retry}>{t(fresh ? "hero.useHand" : "edit.retry")}</Button>
          : editor.dirty && <Button kind="primary" disabled={stops} hint={barred} onClick={() => action.act(editor.save)}>{t("edit.save")}</Button>}
      </div>
      {editor.restored && <p class="dim small">{t("edit.kept")}</p>}
      {editor.joined && <p class="small" role="status"><Icon name="done" />{t("hero.joined")}</p>}
      {editor.conflicts.length > 0 && !again && <Conflict editor={editor} />}
      <ErrorNote error={editor.failed} />
      <ErrorNote error={action.error} />
    </div>
  );
}

function Conflict({ editor }: { editor: Editor }): JSX.Element {
  const names = editor.conflicts.map((id) => {
    const step = editor.plan.steps.find((each) => each.id === id);
    return step ? `“${stepName(step)}”` : id || t("hero.wholePlan");
  });
  return (
    <div class="line bad small" role="alert">
      <p>{t("edit.outdated")} {t("hero.both", { steps: names.join(", ") })}</p>
      <Button onClick={editor.keepMine}>{t("hero.keepMine")}</Button>
    </div>
  );
}
