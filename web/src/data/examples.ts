// Requests that fit the files of a folder, for a person who does not know yet what to ask.

import type { Key } from "../words/words";

export interface Column { name: string; numeric: boolean; repeats: boolean }
export interface FolderFile { name: string; size: number; kind: string; columns: Column[] }
export interface Example { key: Key; values: Record<string, string> }

const MOST = 4;
const GENERAL: Key[] = ["new.example1", "new.example2", "new.example3"];

// Of the newest table first, then of texts; general ones where there is nothing to say.
export function examplesFor(files: FolderFile[]): Example[] {
  const tables = files.filter((file) => file.kind === "table");
  const texts = files.filter((file) => file.kind === "text");
  const found = [
    ...tables.flatMap((file, index) => ofTable(file, index === 0)),
    ...texts.slice(0, 1).map((file): Example => ({ key: "first.exText", values: { name: file.name } })),
    ...(texts.length > 1 ? [{ key: "first.exCompare", values: { name: texts[0]!.name, other: texts[1]!.name } } satisfies Example] : []),
    ...files.filter((file) => file.kind === "json").slice(0, 1).map((file): Example => ({ key: "first.exJson", values: { name: file.name } })),
  ];
  const general = GENERAL.map((key): Example => ({ key, values: {} }));
  return [...found, ...general].slice(0, Math.max(3, Math.min(MOST, found.length)));
}

function ofTable(file: FolderFile, first: boolean): Example[] {
  const value = file.columns.find((each) => each.numeric && !/(^|_)id$/i.test(each.name) && !/year|date/i.test(each.name));
  const named = file.columns.filter((each) => !each.numeric && !/date|time|day|日期|时间/i.test(each.name));
  const group = named.find((each) => each.repeats) ?? named[0];
  const looks: Example = { key: "first.exTable", values: { name: file.name } };
  if (!first || !value || !group) return first ? [looks] : [];
  const values = { name: file.name, value: value.name, group: group.name };
  return [{ key: "first.exChart", values }, { key: "first.exSum", values }, looks];
}
