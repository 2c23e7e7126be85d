// Markdown as text with a shape. It is drawn element by element: no HTML of a text is ever read.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { readMarkdown } from "../data/markdown";
import type { Element, Node } from "../data/markdown";
import { t } from "../words/words";

// Where a statement comes from: the address and the name of a step; null for a step that is not there.
export type SourceOf = (step: string) => { href: string; name: string } | null;

export function Markdown({ text, sourceOf }: { text: string; sourceOf?: SourceOf }): JSX.Element {
  const found = useMemo(() => readMarkdown(text), [text]);
  return <div class="prose">{drawn(found, sourceOf)}</div>;
}

const drawn = (nodes: readonly Node[], sourceOf: SourceOf | undefined): (string | JSX.Element)[] =>
  nodes.map((node, key) => (typeof node === "string" ? node : <Drawn key={key} element={node} sourceOf={sourceOf} />));

function Drawn({ element, sourceOf }: { element: Element; sourceOf: SourceOf | undefined }): JSX.Element {
  const { tag, target, number } = element;
  const children = drawn(element.children, sourceOf);
  if (tag === "heading") {
    const Level = `h${number ?? 1}` as "h1";
    return <Level>{children}</Level>;
  }
  if (tag === "a") return <a href={target} target="_blank" rel="noopener noreferrer nofollow">{children}</a>;
  if (tag === "source") return <Source source={sourceOf?.(target ?? "") ?? null} />;
  // What is wider than the page scrolls by keyboard, too.
  if (tag === "pre") return <>{target && <small class="dim">{target}</small>}<pre tabIndex={0} role="group" aria-label={t("result.text")}>{children}</pre></>;
  if (tag === "table") return <Table rows={element.children as Element[]} sourceOf={sourceOf} />;
  if (tag === "ol") return <ol start={number}>{children}</ol>;
  const Tag = tag as "p";
  return <Tag>{children}</Tag>;
}

function Source({ source }: { source: ReturnType<SourceOf> }): JSX.Element | null {
  return source && <> <a class="chip origin-step" href={source.href}>{source.name}</a></>;
}

function Table({ rows: [head, ...body], sourceOf }: { rows: Element[]; sourceOf: SourceOf | undefined }): JSX.Element {
  const cells = (row: Element | undefined, Cell: "th" | "td"): JSX.Element[] =>
    (row?.children as Element[]).map((cell, key) => <Cell key={key} class={cell.right ? "right" : ""}>{drawn(cell.children, sourceOf)}</Cell>);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={t("result.table")}>
      <table><thead><tr>{cells(head, "th")}</tr></thead><tbody>{body.map((row, key) => <tr key={key}>{cells(row, "td")}</tr>)}</tbody></table>
    </div>
  );
}
