// Files of a run: what its steps wrote, as it is on the disk now, to look at and to keep.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { RunView, StepDetail } from "../data/types";
import { keyed, request, runPath } from "../live/api";
import { useResource } from "../live/hooks";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { ErrorNote } from "../ui/parts";
import { bytes, moment, t } from "../words/words";
import { FileView } from "./later";
import { isObject } from "./shape";
import { TextDiff } from "./textdiff";
import type { RunFile } from "./types";

const encoded = (path: string): string => path.split("/").map(encodeURIComponent).join("/");
// Written at another time, it is another picture: the browser must not show an older one.
export const fileAddress = (run: string, file: RunFile): string => runPath(run, `/files/${encoded(file.path)}`);

export function useFiles(run: RunView): { files: RunFile[]; error: ReturnType<typeof useResource>["error"] } {
  const found = useResource<{ items: RunFile[] }>(runPath(run.id, "/files"),
    (event) => event.run === run.id && (event.body.type === "step_done" || event.body.type === "run_finished"));
  return { files: found.value?.items ?? [], error: found.error };
}

export function FileList({ run, files, titled = true }: { run: RunView; files: RunFile[]; titled?: boolean }): JSX.Element | null {
  if (files.length === 0) return null;
  return (
    <section class="files">
      {titled && <h2>{t("files.title")}</h2>}
      {files.map((file) => <FileRow key={file.path} run={run} file={file} />)}
    </section>
  );
}

function FileRow({ run, file }: { run: RunView; file: RunFile }): JSX.Element {
  const [open, setOpen] = useState(false);
  const gone = file.state === "gone";
  return (
    <details class="evidence file" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="name">{file.path}</span> {!gone && <span class="dim small">{bytes(file.size)}</span>}
        {file.state !== "as_written" && <span class="chip minus">{t(`files.${file.state}`)}</span>}
      </summary>
      {open && (
        <div class="file-body">
          {file.state !== "as_written" && <p class="note"><Icon name="warning" /><span>{t(gone ? "files.goneWhy" : "files.changedWhy", { at: moment(file.at) })}</span></p>}
          {file.state === "changed" && file.kind !== "picture" && file.kind !== "other" && <Since run={run} file={file} />}
          {!gone && <FileView path={file.path} kind={file.kind} address={fileAddress(run.id, file)} />}
          <p class="result-tools">
            <a class="small" href={link(["runs", run.id, "run", file.step])}>{t("files.by", { step: file.step, at: moment(file.at) })}</a>
            {!gone && <a class="button quiet" download={file.path.replace(/^.*\//, "")} href={keyed(`${fileAddress(run.id, file)}?download=true`)}><Icon name="down" />{t("files.download")}</a>}
          </p>
        </div>
      )}
    </details>
  );
}

// What became of a text since the run wrote it; known where the call had the whole text.
function Since({ run, file }: { run: RunView; file: RunFile }): JSX.Element | null {
  const step = useResource<StepDetail>(runPath(run.id, `/steps/${encodeURIComponent(file.step)}`));
  const [now, setNow] = useState<string>();
  useEffect(() => { void request("GET", fileAddress(run.id, file), { accept: "*/*" }).then((response) => response.text()).then(setNow, () => undefined); }, [file]);
  const given = step.value?.resolved_inputs;
  const whole = isObject(given) && step.value?.step.tool === "files.write" ? given["text"] : undefined;
  if (typeof whole !== "string" || now === undefined) return null;
  return <TextDiff before={whole} after={now} label={t("files.changed")} />;
}

// What one step wrote.
export function StepFiles({ run, name }: { run: RunView; name: string }): JSX.Element | null {
  const { files } = useFiles(run);
  return <FileList run={run} files={files.filter((file) => file.step === name || file.step.startsWith(`${name}/`))} titled={false} />;
}

// Pictures stand where they are looked for: under the answer.
export function Pictures({ run, files }: { run: RunView; files: RunFile[] }): JSX.Element | null {
  const shown = files.filter((file) => file.kind === "picture" && file.state === "as_written");
  if (shown.length === 0) return null;
  return (
    <div class="figures">
      {shown.map((file) => (
        <figure key={file.path}>
          <FileView path={file.path} kind="picture" address={fileAddress(run.id, file)} />
          <figcaption class="dim small">{file.path}</figcaption>
        </figure>
      ))}
    </div>
  );
}

export function FilesError({ error }: { error: ReturnType<typeof useFiles>["error"] }): JSX.Element | null {
  return error ? <ErrorNote error={error} /> : null;
}
