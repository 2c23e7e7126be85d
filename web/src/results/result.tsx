// One viewer for every result: a table, facts, a tree, or text; nothing of it is cut.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { shown } from "../data/json";
import type { Json } from "../data/types";
import { Button, Copy } from "../ui/parts";
import { number, t } from "../words/words";
import { compare, inBrief, isNumeric, isObject, isShort, partsOf, tableOf, toCsv, toTabs } from "./shape";
import type { Table } from "./shape";
import { LongText } from "./longtext";

export function Result({ value, label }: { value: Json | undefined; label: string }): JSX.Element {
  const [raw, setRaw] = useState(false);
  const simple = value === undefined || value === null || isShort(value) || Object.keys(value).length === 0;
  return (
    <div class="result" role="group" aria-label={label}>
      {raw ? <LongText text={shown(value, 2)} label={label} mono /> : <Block value={value ?? null} label={label} />}
      {!simple && typeof value !== "string" && (
        <p class="result-tools">
          {raw && <Copy text={shown(value, 2)} />}
          <Button kind="quiet" onClick={() => setRaw(!raw)}>{t(raw ? "result.readable" : "result.raw")}</Button>
        </p>
      )}
    </div>
  );
}

function Block({ value, label }: { value: Json; label: string }): JSX.Element {
  if (typeof value === "string") return isShort(value) ? <p class="pre">{value || t("result.empty")}</p> : <LongText text={value} label={label} />;
  const table = tableOf(value);
  if (table) return <TableView table={table} label={label} />;
  if (!isObject(value)) return <Tree value={value} open />;
  const { facts, blocks } = partsOf(value);
  const columns = value["columns"];
  if (facts.length + blocks.length === 0) return <p class="dim">{t("result.empty")}</p>;
  return (
    <>
      {facts.length > 0 && <dl class="pairs result-facts">{facts.map((each) => <div key={each.name}><dt>{each.name}</dt><dd>{fact(each.value)}</dd></div>)}</dl>}
      {blocks.map((each) => {
        const rows = tableOf(each.value, columns);
        if (each.name === "columns" && rows === null && blocks.some((other) => other.name === "rows" && tableOf(other.value, columns))) return null;
        return (
          <div key={each.name} class="result-part"><p class="part-name">{each.name}</p>
            {rows ? <TableView table={rows} label={`${label} ${each.name}`} /> : typeof each.value === "string" ? <LongText text={each.value} label={each.name} /> : <Tree value={each.value} open />}
          </div>
        );
      })}
    </>
  );
}

const fact = (value: Json): string => (value === null ? "–" : value === "" ? t("result.empty") : shown(value));

const PAGE = 100;

export function TableView({ table, label, name = "rows" }: { table: Table; label: string; name?: string }): JSX.Element {
  const [sort, setSort] = useState<{ column: number; down: boolean }>();
  const [most, setMost] = useState(PAGE);
  const numbers = useMemo(() => table.columns.map((_, column) => isNumeric(table, column)), [table]);
  const rows = useMemo(() => (sort ? table.rows.toSorted((a, b) => compare(a[sort.column]!, b[sort.column]!, sort.down)) : table.rows), [table, sort]);
  const press = (column: number): void => setSort(sort?.column !== column ? { column, down: false } : sort.down ? undefined : { column, down: true });
  const left = rows.length - most;
  const save = (): void => download(`${name}.csv`, toCsv({ ...table, rows }));
  return (
    <div class="table-view">
      <div class="scroll" tabIndex={0} role="group" aria-label={label}>
        <table>
          <thead><tr>{table.columns.map((each, column) => (
            <th key={each} class={numbers[column] ? "right" : ""} aria-sort={sort?.column === column ? (sort.down ? "descending" : "ascending") : "none"}>
              <button type="button" onClick={() => press(column)}>{each || "–"}<span aria-hidden="true" class="sort">{sort?.column === column ? (sort.down ? "↓" : "↑") : ""}</span></button>
            </th>))}</tr></thead>
          <tbody>{rows.slice(0, most).map((row, index) => (
            <tr key={index}>{row.map((each, column) => <td key={column} class={`${numbers[column] ? "right" : ""} ${shown(each).length <= 40 ? "one-line" : ""}`}><Cell value={each} /></td>)}</tr>))}</tbody>
        </table>
      </div>
      <p class="result-tools">
        <span class="dim small">{rows.length === 1 ? t("preview.row") : t("result.rows", { count: number(rows.length) })}</span>
        {left > 0 && <Button kind="quiet" onClick={() => setMost(most + 1000)}>{t("result.moreRows", { count: number(Math.min(left, 1000)) })}</Button>}
        <Copy text={toTabs({ ...table, rows })} />
        <Button kind="quiet" icon="down" onClick={save}>CSV</Button>
      </p>
    </div>
  );
}

function Cell({ value }: { value: Json }): JSX.Element {
  if (value === null) return <span class="dim">–</span>;
  const text = shown(value);
  if (text.length <= 200) return <>{text}</>;
  return <details><summary>{inBrief(value)}</summary><span class="pre">{text}</span></details>;
}

export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const CHILDREN = 100;

// A tree that is made as far as it is opened.
export function Tree({ value, open = false }: { value: Json; open?: boolean }): JSX.Element {
  const [most, setMost] = useState(CHILDREN);
  if (!isObject(value) && !Array.isArray(value)) return <Leaf value={value} />;
  const children: [string, Json][] = Array.isArray(value) ? value.map((each, index) => [String(index + 1), each]) : Object.entries(value);
  if (children.length === 0) return <span class="dim">{t("result.empty")}</span>;
  return (
    <ul class="tree">
      {children.slice(0, most).map(([name, child]) => <Branch key={name} name={name} value={child} open={open && children.length <= 3} />)}
      {children.length > most && <li><Button kind="quiet" onClick={() => setMost(most + 1000)}>{t("result.moreRows", { count: number(children.length - most) })}</Button></li>}
    </ul>
  );
}

function Branch({ name, value, open }: { name: string; value: Json; open: boolean }): JSX.Element {
  const [opened, setOpened] = useState(open);
  const size = Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 0;
  if (size === 0) return <li><span class="key-name">{name}</span> <Leaf value={value} /></li>;
  return (
    <li>
      <details open={opened} onToggle={(event) => setOpened(event.currentTarget.open)}>
        <summary><span class="key-name">{name}</span> <span class="dim small">{t(Array.isArray(value) ? "result.items" : "result.fields", { count: number(size) })}</span></summary>
        {opened && <Tree value={value} />}
      </details>
    </li>
  );
}

function Leaf({ value }: { value: Json }): JSX.Element {
  if (value === null) return <span class="dim">–</span>;
  if (Array.isArray(value) || isObject(value)) return <span class="dim">{t("result.empty")}</span>;
  return isShort(value) ? <span class={typeof value === "string" ? "" : "mono"}>{shown(value)}</span> : <LongText text={shown(value)} label="" />;
}
