// The content of a file as what it is: a picture, text with a shape, a table, a tree, plain text.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { parseExactly } from "../data/json";
import type { Json } from "../data/types";
import { ApiError, keyed, request } from "../live/api";
import { Button, ErrorNote, Loading } from "../ui/parts";
import { t } from "../words/words";
import { Markdown } from "./later";
import { LongText } from "./longtext";
import { Result, TableView } from "./result";
import { parseCsv } from "./shape";
import type { Table } from "./shape";
import type { FileKind } from "./types";

export interface FileProps { path: string; kind: FileKind; address: string; text?: string | null }

// `text` where it is known already; else it is read from `address`.
export function FileView({ path, kind, address, text = null }: FileProps): JSX.Element {
  if (kind === "picture") return <Picture path={path} address={address} />;
  if (kind === "other") return <p class="dim">{t("files.noPreview")}</p>;
  return text === null ? <Fetched path={path} kind={kind} address={address} /> : <Content path={path} kind={kind} text={text} />;
}

// Inside an image nothing runs and nothing is loaded.
export function Picture({ path, address }: { path: string; address: string }): JSX.Element {
  const [broken, setBroken] = useState(false);
  if (broken) return <p class="dim">{t("files.broken", { path })}</p>;
  return <img class="picture" src={keyed(address)} alt={path} onError={() => setBroken(true)} />;
}

function Fetched({ path, kind, address }: FileProps): JSX.Element {
  const [found, setFound] = useState<{ text?: string; error?: ApiError }>({});
  useEffect(() => {
    let here = true;
    request("GET", address, { accept: "*/*" }).then((response) => response.text()).then(
      (text) => { if (here) setFound({ text }); },
      (error: unknown) => { if (here) setFound({ error: error instanceof ApiError ? error : new ApiError(500, "page", String(error), "", []) }); },
    );
    return () => { here = false; };
  }, [address]);
  if (found.error) return <ErrorNote error={found.error} />;
  return found.text === undefined ? <Loading /> : <Content path={path} kind={kind} text={found.text} />;
}

function Content({ path, kind, text }: { path: string; kind: FileKind; text: string }): JSX.Element {
  const [plain, setPlain] = useState(false);
  const shaped = plain ? null : shapeOf(path, kind, text);
  return (
    <div class="file-content">
      {shaped ?? <LongText text={text} label={path} mono />}
      {(shaped || plain) && <p class="result-tools"><Button kind="quiet" onClick={() => setPlain(!plain)}>{t(plain ? "result.readable" : "files.source")}</Button></p>}
    </div>
  );
}

function shapeOf(path: string, kind: FileKind, text: string): JSX.Element | null {
  if (kind === "markdown") return <div class="sheet"><Markdown text={text} /></div>;
  if (kind === "table") {
    const table: Table | null = parseCsv(text, path.toLowerCase().endsWith(".tsv") ? "\t" : ",");
    return table && <TableView table={table} label={path} name={path.replace(/^.*\//, "").replace(/\.\w+$/, "")} />;
  }
  if (kind === "json") {
    try {
      const value: Json = parseExactly(text);
      return <Result value={value} label={path} />;
    } catch {
      return null;
    }
  }
  return null;
}
