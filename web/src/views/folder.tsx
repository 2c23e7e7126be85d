// The folder that plans work in: its files by name, and putting more into it by a drop.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { FolderFile } from "../data/examples";
import { ApiError, upload } from "../live/api";
import type { Loaded } from "../live/hooks";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { bytes, t } from "../words/words";

export interface Folder { path: string; name: string; files: FolderFile[]; total: number; can_add: boolean; max_bytes: number }
type Outcome = { name: string; state: "added" | "exists" | "large" | "failed"; file: File; why: string };
const SHOWN = 8;

export function FolderPanel({ folder }: { folder: Loaded<Folder> }): JSX.Element | null {
  const [outcomes, setOutcomes] = useState<Outcome[]>([]);
  const [over, setOver] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const here = folder.value;
  const add = async (files: File[], replace = false): Promise<void> => {
    for (const file of files) {
      const told = await sent(file, replace, here?.max_bytes ?? 0);
      setOutcomes((old) => [...old.filter((each) => each.name !== file.name), told]);
    }
    folder.reload();
  };
  useDrop(here?.can_add === true, setOver, (files) => void add(files));
  if (!here) return null;
  const settle = (name: string): void => setOutcomes((old) => old.filter((each) => each.name !== name));
  return (
    <section class={`folder ${over ? "over" : ""}`} aria-label={t("first.folder", { folder: here.name })}>
      <div class="line">
        <p class="small"><Icon name="templates" /> <span title={here.path}>{t("first.folder", { folder: here.name })}</span></p>
        {here.can_add && <>
          <Button kind="quiet" icon="new" hint={t("first.drop")} onClick={() => chooser.current?.click()}>{t("first.add")}</Button>
          <input ref={chooser} type="file" multiple hidden onChange={(event) => { void add([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
        </>}
      </div>
      {here.files.length === 0 ? <p class="dim small">{t("first.empty")}</p> : (
        <ul class="files">
          {here.files.slice(0, SHOWN).map((file) => <li key={file.name} title={file.columns.map((each) => each.name).join(", ")}><span>{file.name}</span> <small>{bytes(file.size)}</small></li>)}
          {here.total > SHOWN && <li class="dim">{t("first.more", { count: here.total - SHOWN })}</li>}
        </ul>
      )}
      <ul class="outcomes" aria-live="polite">{outcomes.map((each) => (
        <li key={each.name} class="small">
          <Icon name={each.state === "added" ? "done" : "warning"} /> <span>{each.why}</span>
          {each.state === "exists" && <>
            <Button onClick={() => { settle(each.name); void add([each.file], true); }}>{t("first.replace")}</Button>
            <Button kind="quiet" onClick={() => settle(each.name)}>{t("first.keep")}</Button>
          </>}
        </li>))}</ul>
      {over && <p class="drop-here">{t("first.drop")}</p>}
    </section>
  );
}

async function sent(file: File, replace: boolean, most: number): Promise<Outcome> {
  const { name } = file;
  if (file.size > most) return { name, file, state: "large", why: t("first.tooLarge", { name, size: bytes(most) }) };
  try {
    await upload(`/v1/folder/files/${encodeURIComponent(name)}${replace ? "?replace=true" : ""}`, file);
    return { name, file, state: "added", why: t("first.added", { name }) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === "exists") return { name, file, state: "exists", why: t("first.exists", { name }) };
    return { name, file, state: "failed", why: `${name}: ${error.offline ? t("app.unreachable") : `${error.message} ${error.hint}`}` };
  }
}

// A drop anywhere on the view counts: nobody should have to aim, and no file may replace the page.
function useDrop(may: boolean, setOver: (over: boolean) => void, onFiles: (files: File[]) => void): void {
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const has = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
    const drag = (event: DragEvent): void => { if (has(event)) { event.preventDefault(); setOver(may); } };
    const leave = (event: DragEvent): void => { if (event.relatedTarget === null) setOver(false); };
    const drop = (event: DragEvent): void => {
      if (!has(event)) return;
      event.preventDefault();
      setOver(false);
      if (may) latest.current([...(event.dataTransfer?.files ?? [])]);
    };
    addEventListener("dragover", drag);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => { removeEventListener("dragover", drag); removeEventListener("dragleave", leave); removeEventListener("drop", drop); };
  }, [may]);
}
