// What a call would do, as its tool shows it: a message, rows, files as a difference or as what they are.

import type { JSX } from "preact";
import { Icon } from "../ui/icons";
import { bytes, number, t } from "../words/words";
import { FileView } from "./fileview";
import { Result } from "./result";
import { UnifiedDiff } from "./textdiff";
import type { CallPreview, FileKind } from "./types";

export const WouldFail = ({ why }: { why: string }): JSX.Element => <p class="note bad"><Icon name="error" /><span>{t("consent.wouldFail")} {why}</span></p>;

// What the tool says that the call would do.
// A picture is read from its address, where it is an image in which nothing runs.
export function ShownCall({ shown, address }: { shown: CallPreview; address?: (path: string) => string }): JSX.Element {
  const { text, rows = [], count = 0, files = [], moved = [], fails } = shown;
  const [from, to] = moved;
  return (
    <>
      {fails && <WouldFail why={fails} />}
      {from && <p><Icon name="note" /> {to ? t("consent.move", { path: from, to }) : t("ahead.deletes", { path: from })}</p>}
      {text && <div class="sheet"><p class="pre">{text}</p></div>}
      {rows.length > 0 && <Result value={rows} label={t("result.table")} />}
      {count > rows.length && <p class="dim small">{t("ahead.rows", { count: number(count), some: number(rows.length) })}</p>}
      {files.map((file) => {
        const size = [file.size_before, file.size_after].filter((each) => each !== undefined).map(bytes).join(" → ");
        return (
          <figure class="file-change" key={file.path}>
            <figcaption><code>{file.path}</code> <span class={`chip ${file.change === "deleted" ? "minus" : file.change === "new" ? "plus" : ""}`}>{t(`consent.is.${file.change}`)}</span> <span class="dim small">{size}</span></figcaption>
            {file.difference?.length ? <UnifiedDiff lines={file.difference} label={t("consent.view.changes")} />
              : file.text ? <FileView path={file.path} kind={!address && kindOf(file.path) === "picture" ? "text" : kindOf(file.path)} text={file.text} address={address?.(file.path) ?? ""} />
                : (file.change === "new" || file.change === "changed") && <p class="dim">{t("files.noPreview")}</p>}
          </figure>
        );
      })}
    </>
  );
}

const KINDS: Record<string, FileKind> = { svg: "picture", md: "markdown", markdown: "markdown", csv: "table", tsv: "table", json: "json" };
const kindOf = (path: string): FileKind => KINDS[path.toLowerCase().replace(/^.*\./, "")] ?? "text";

// All of it that is text: what stands in it is shown to its last letter.
export const textOf = (shown: CallPreview | null | undefined): string =>
  [shown?.text, ...(shown?.files ?? []).flatMap((each) => [each.path, each.text])].filter(Boolean).join("\n");
