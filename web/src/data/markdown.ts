// Reads Markdown that a model or a tool wrote into a tree. The time grows with the length of the text
// alone, nesting is bounded, and what is not read as a mark stays as text: no letter is lost.

export type Node = string | Element;
export interface Element {
  tag: "p" | "strong" | "em" | "del" | "code" | "pre" | "blockquote" | "ul" | "ol" | "li" | "heading" | "a" | "br" | "hr" | "table" | "row" | "cell" | "source";
  children: Node[];
  // Of a link its address, of a source the step, of code its language.
  target?: string;
  // The level of a heading, the first number of a list.
  number?: number;
  // A cell of a column of numbers.
  right?: boolean;
}

// Lists and quotes within each other, and marks within each other; what is deeper stays as it is written.
const DEEPEST = 12;
const LONGEST_ADDRESS = 2000;

export const readMarkdown = (text: string): Element[] => blocks(text.replaceAll("\r\n", "\n").split("\n").map(untabbed), 0);

const LINES: ReadonlySet<string> = new Set(["p", "li", "heading", "pre", "row", "br"]);

// The text of a tree, without its marks and the sources of its statements.
export function plainText(nodes: readonly Node[]): string {
  return nodes.map((node) => (typeof node === "string" ? node : (node.tag === "li" ? "- " : "") + plainText(node.children) + (LINES.has(node.tag) ? "\n" : ""))).join("");
}

// Tabs at the beginning of a line count four columns.
function untabbed(line: string): string {
  const rest = line.trimStart();
  const indent = line.slice(0, line.length - rest.length);
  return indent.includes("\t") ? indent.replaceAll("\t", "    ") + rest : line;
}

interface Read { block: Element; next: number }
type Reader = (lines: string[], at: number, depth: number) => Read | null;

function blocks(lines: string[], depth: number): Element[] {
  const found: Element[] = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at]!.trim()) { at++; continue; }
    const { block, next } = begun(lines, at, depth) ?? indented(lines, at) ?? table(lines, at) ?? paragraph(lines, at, depth);
    found.push(block);
    at = next;
  }
  return found;
}

// What begins a block also in the middle of a paragraph.
function begun(lines: string[], at: number, depth: number): Read | null {
  const readers: Reader[] = depth < DEEPEST ? [fence, heading, rule, quote, list] : [fence, heading, rule];
  for (const read of readers) {
    const found = read(lines, at, depth);
    if (found) return found;
  }
  return null;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;

function fence(lines: string[], at: number): Read | null {
  const [, mark, language = ""] = FENCE.exec(lines[at]!) ?? [];
  if (!mark) return null;
  let end = at + 1;
  while (end < lines.length && !closes(lines[end]!.trim(), mark)) end++;
  return { block: { tag: "pre", children: [lines.slice(at + 1, end).join("\n")], target: language.trim() }, next: end + 1 };
}

const closes = (line: string, mark: string): boolean => line.startsWith(mark) && line === mark[0]!.repeat(line.length);

const HEADING = /^ {0,3}(#{1,6})(?: (.*))?$/;

function heading(lines: string[], at: number): Read | null {
  const [, marks, text] = HEADING.exec(lines[at]!) ?? [];
  if (!marks) return null;
  return { block: { tag: "heading", number: marks.length, children: inline((text ?? "").trim()) }, next: at + 1 };
}

function rule(lines: string[], at: number): Read | null {
  const marks = lines[at]!.replaceAll(" ", "").trim();
  return marks.length >= 3 && "-*_".includes(marks[0]!) && marks === marks[0]!.repeat(marks.length) ? { block: { tag: "hr", children: [] }, next: at + 1 } : null;
}

const QUOTE = /^ {0,3}> ?/;

function quote(lines: string[], at: number, depth: number): Read | null {
  if (!QUOTE.test(lines[at]!)) return null;
  const inner: string[] = [];
  let end = at;
  for (; end < lines.length; end++) {
    const line = lines[end]!;
    if (QUOTE.test(line)) inner.push(line.replace(QUOTE, ""));
    else if (!line.trim() || !inner.at(-1)!.trim() || begins(line)) break;
    else inner.push(line);
  }
  return { block: { tag: "blockquote", children: blocks(inner, depth + 1) }, next: end };
}

const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])( {1,4}(?=\S)| |$)/;

function list(lines: string[], at: number, depth: number): Read | null {
  const first = ITEM.exec(lines[at]!);
  if (!first) return null;
  const kind = first[2]!.at(-1)!;
  const items: string[][] = [];
  let [end, blanks, width] = [at, 0, 0];
  let loose = false;
  for (; end < lines.length; end++) {
    const line = lines[end]!;
    const item = ITEM.exec(line);
    const within = items.length > 0 && line.startsWith(" ".repeat(width));
    if (!line.trim()) {
      blanks++;
      continue;
    }
    if (within) items.at(-1)!.push(...Array<string>(blanks).fill(""), line.slice(width));
    else if (item && item[2]!.at(-1) === kind && !rule(lines, end)) {
      width = item[0].length + (item[4] === "" ? 1 : 0);
      items.push([line.slice(item[0].length)]);
    } else if (items.length > 0 && !blanks && !begins(line)) items.at(-1)!.push(line.trimStart());
    else break;
    loose ||= blanks > 0;
    blanks = 0;
  }
  const children = items.map((each): Element => ({ tag: "li", children: tight(blocks(each, depth + 1), loose) }));
  const number = first[3] === undefined ? undefined : Number(first[3]);
  return { block: { tag: number === undefined ? "ul" : "ol", children, ...(number !== undefined && { number }) }, next: end };
}

// The items of a list without empty lines are no paragraphs of their own.
const tight = (found: Element[], loose: boolean): Node[] =>
  (loose ? found : found.flatMap((each): Node[] => (each.tag === "p" ? each.children : [each])));

// Whether a line ends the paragraph above it; of numbered lists only one that begins with 1, since a year may begin a line, too.
function begins(line: string): boolean {
  const item = ITEM.exec(line);
  if (item) return item[3] === undefined || item[3] === "1";
  return QUOTE.test(line) || FENCE.test(line) || HEADING.test(line) || rule([line], 0) !== null;
}

function indented(lines: string[], at: number): Read | null {
  if (!lines[at]!.startsWith("    ")) return null;
  let end = at;
  while (end < lines.length && (lines[end]!.startsWith("    ") || !lines[end]!.trim())) end++;
  return { block: { tag: "pre", children: [lines.slice(at, end).map((line) => line.slice(4)).join("\n").trimEnd()] }, next: end };
}

// A row of a table by its bars; one behind a backslash is part of the text.
function cells(line: string): string[] {
  const found = [""];
  const text = line.trim();
  for (let at = text.startsWith("|") ? 1 : 0; at < text.length; at++) {
    if (text[at] === "\\" && text[at + 1] === "|") found[found.length - 1] += text[++at]!;
    else if (text[at] === "|") found.push("");
    else found[found.length - 1] += text[at]!;
  }
  if (found.length > 1 && found.at(-1)!.trim() === "") found.pop();
  return found.map((each) => each.trim());
}

const NUMBER = /^[-+−(]?\p{Sc}?\d[\d.,' ]*\)?%?$/u;

function table(lines: string[], at: number): Read | null {
  if (!lines[at]!.includes("|") || !lines[at + 1]?.includes("-")) return null;
  const head = cells(lines[at]!);
  const marks = cells(lines[at + 1]!);
  if (marks.length !== head.length || !marks.every((each) => /^:?-+:?$/.test(each))) return null;
  let end = at + 2;
  while (end < lines.length && lines[end]!.trim() && !begins(lines[end]!)) end++;
  const body = lines.slice(at + 2, end).map(cells);
  const right = marks.map((mark, column) => (mark.endsWith(":") ? !mark.startsWith(":")
    : !mark.startsWith(":") && body.some((row) => row[column]) && body.every((row) => !row[column] || NUMBER.test(plainText(inline(row[column]))))));
  const row = (each: string[]): Element => ({
    tag: "row", children: each.map((text, column): Element => ({ tag: "cell", children: inline(text), right: right[column] ?? false })),
  });
  return { block: { tag: "table", children: [head, ...body].map(row) }, next: end };
}

function paragraph(lines: string[], at: number, depth: number): Read {
  let end = at + 1;
  while (end < lines.length && lines[end]!.trim() && !(depth < DEEPEST && begins(lines[end]!)) && !table(lines, end)) end++;
  return { block: { tag: "p", children: inline(lines.slice(at, end).map((line) => line.trimStart()).join("\n")) }, next: end };
}

interface Opener { mark: string; place: number; left: number }

const SOURCE = /\[step:([^[\]\n]{1,400})\]/y;
const POINTED = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy;
const ADDRESS = /https?:\/\/[^\s<>"'`[\]]+/iy;
const ENDS_SENTENCE = ".,;:!?)*_。，；：！？）";
const SIGN = /[\p{P}\p{S}]/u;

export const inline = (text: string): Node[] => new Inline(text).read();

// One pass over the letters. What may begin something is kept on a stack, and leaves it once.
class Inline {
  private nodes: Node[] = [];
  private depths = new Map<Node, number>();
  private marks: Opener[] = [];
  private open: Record<string, number> = { "*": 0, _: 0, "~": 0 };
  private brackets: Opener[] = [];
  private ticks: Map<number, number[]> | undefined;
  private start = 0;
  private at = 0;

  constructor(private readonly text: string) {}

  read(): Node[] {
    while (this.at < this.text.length) if (!this.special(this.text[this.at]!)) this.at++;
    this.flush();
    return joined(this.nodes);
  }

  private flush(): void {
    if (this.at > this.start) this.nodes.push(this.text.slice(this.start, this.at));
    this.start = this.at;
  }

  private put(node: Node, end: number): true {
    this.flush();
    this.nodes.push(node);
    this.start = this.at = end;
    return true;
  }

  private matched(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  // Whether something other than plain text begins here; if so, it is read.
  private special(letter: string): boolean {
    switch (letter) {
      case "\\": return this.escape();
      case "`": return this.code();
      case "*": case "_": case "~": return this.emphasis(letter);
      case "[": return this.bracket();
      case "]": return this.link();
      case "\n": return this.text.endsWith("  ", this.at) && this.at - this.start >= 2 && this.put({ tag: "br", children: [] }, this.at + 1);
      case "<": case "h": case "H": return this.address(letter);
      default: return false;
    }
  }

  private escape(): boolean {
    const next = this.text[this.at + 1];
    if (next === "\n") return this.put({ tag: "br", children: [] }, this.at + 2);
    return next !== undefined && SIGN.test(next) && this.put(next, this.at + 2);
  }

  private address(letter: string): boolean {
    const found = this.matched(letter === "<" ? POINTED : ADDRESS);
    if (!found || (letter.toLowerCase() === "h" && /\w/.test(this.text[this.at - 1] ?? ""))) return false;
    if (letter === "<") return this.put({ tag: "a", target: found[1]!, children: [found[1]!] }, this.at + found[0].length);
    let end = found[0].length;
    while (ENDS_SENTENCE.includes(found[0][end - 1]!)) end--;
    const target = found[0].slice(0, end);
    return this.put(isAddress(target) ? { tag: "a", target, children: [target] } : target, this.at + end);
  }

  private run(letter: string, from = this.at): number {
    let end = from;
    while (this.text[end] === letter) end++;
    return end - from;
  }

  private code(): boolean {
    const length = this.run("`");
    const places = (this.ticks ??= this.allTicks()).get(length)!;
    // The next place is the last of the list.
    while (places.length && places.at(-1)! <= this.at) places.pop();
    const end = places.at(-1);
    const from = this.at + length;
    if (end === undefined) return this.put(this.text.slice(this.at, from), from);
    const inner = this.text.slice(from, end);
    const padded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
    return this.put({ tag: "code", children: [padded ? inner.slice(1, -1) : inner] }, end + length);
  }

  private allTicks(): Map<number, number[]> {
    const found = new Map<number, number[]>();
    for (let at = this.text.indexOf("`"), length; at >= 0; at = this.text.indexOf("`", at + length)) {
      length = this.run("`", at);
      if (!found.has(length)) found.set(length, []);
      found.get(length)!.push(at);
    }
    for (const places of found.values()) places.reverse();
    return found;
  }

  private emphasis(letter: string): boolean {
    const length = this.run(letter);
    const end = this.at + length;
    const [before, after] = [this.text[this.at - 1] ?? " ", this.text[end] ?? " "];
    const left = after.trim() !== "" && (!SIGN.test(after) || !before.trim() || SIGN.test(before));
    const right = before.trim() !== "" && (!SIGN.test(before) || !after.trim() || SIGN.test(after));
    // In the middle of a word an underscore is a letter of it, and one star a sign: 2*3.
    const inWord = left && right && (letter === "_" || (length === 1 && /\w/.test(before) && /\w/.test(after)));
    this.flush();
    const rest = right && (!inWord || SIGN.test(after)) ? this.close(letter, length) : length;
    if (rest > 0 && left && (!inWord || SIGN.test(before))) {
      this.marks.push({ mark: letter, place: this.nodes.length, left: rest });
      this.open[letter]!++;
    }
    return this.put(letter.repeat(rest), end);
  }

  // Joins what stands between these marks and those that opened it; returns how many marks are left.
  private close(letter: string, length: number): number {
    let rest = length;
    while (rest > 0 && this.open[letter]! > 0) {
      while (this.marks.at(-1)!.mark !== letter) this.unmark();
      const opener = this.marks.at(-1)!;
      const used = Math.min(2, rest, opener.left);
      if (letter === "~" && used < 2) break;
      if (!this.wrap(opener.place, { tag: letter === "~" ? "del" : used === 2 ? "strong" : "em", children: [] })) break;
      rest -= used;
      opener.left -= used;
      this.nodes[opener.place] = letter.repeat(opener.left);
      if (opener.left === 0) this.unmark();
    }
    return rest;
  }

  private unmark(): void {
    this.open[this.marks.pop()!.mark]!--;
  }

  // Puts all that stands behind a place into an element, unless that would be nested too deep: then
  // nothing that was opened before it can be closed, either.
  private wrap(place: number, element: Element): boolean {
    const children = this.nodes.splice(place + 1);
    const depth = 1 + children.reduce((most, each) => Math.max(most, this.depths.get(each) ?? 0), 0);
    while (this.marks.length && (depth > DEEPEST || this.marks.at(-1)!.place > place)) this.unmark();
    while (this.brackets.length && (depth > DEEPEST || this.brackets.at(-1)!.place > place)) this.brackets.pop();
    if (depth > DEEPEST) {
      for (const each of children) this.nodes.push(each);
      return false;
    }
    const made = { ...element, children: joined(children) };
    this.depths.set(made, depth);
    this.nodes.push(made);
    return true;
  }

  private bracket(): boolean {
    const source = this.matched(SOURCE);
    if (source) {
      this.flush();
      // What shows a source keeps its own distance.
      const last = this.nodes.length - 1;
      if (typeof this.nodes[last] === "string") this.nodes[last] = this.nodes[last].trimEnd();
      for (const each of source[1]!.split(",")) this.nodes.push({ tag: "source", children: [], target: each.trim().replace(/^step:\s*/, "") });
      this.start = this.at += source[0].length;
      return true;
    }
    const image = this.text[this.at - 1] === "!" && this.at > this.start;
    this.flush();
    this.brackets.push({ mark: image ? "!" : "[", place: this.nodes.length, left: 1 });
    return this.put("[", this.at + 1);
  }

  private link(): boolean {
    const opener = this.brackets.pop();
    const found = opener && this.text[this.at + 1] === "(" ? this.destination(this.at + 2) : null;
    if (!opener || !found) return false;
    this.flush();
    const { target, end } = found;
    const image = opener.mark === "!";
    // A picture would be loaded, and any other address lead nowhere: both are text.
    const made = !image && isAddress(target) && this.wrap(opener.place, { tag: "a", target, children: [] });
    if (made) this.brackets = [];
    if (image) this.nodes[opener.place - 1] = (this.nodes[opener.place - 1] as string).slice(0, -1);
    this.nodes[opener.place] = "";
    return this.put(made ? "" : ` (${target})`, end);
  }

  private destination(from: number): { target: string; end: number } | null {
    const limit = Math.min(this.text.length, from + LONGEST_ADDRESS);
    for (let at = from, inside = 0; at < limit && this.text[at] !== "\n"; at++) {
      if (this.text[at] === "(") inside++;
      else if (this.text[at] === ")" && inside-- === 0) return { target: this.text.slice(from, at).trim(), end: at + 1 };
    }
    return null;
  }
}

export const isAddress = (text: string): boolean => /^(?:https?:\/\/|mailto:)\S+$/i.test(text);

// Texts that follow each other are one.
function joined(nodes: readonly Node[]): Node[] {
  const found: Node[] = [];
  for (let at = 0; at < nodes.length;) {
    let end = at;
    while (typeof nodes[end] === "string") end++;
    const text = nodes.slice(at, end).join("");
    if (text) found.push(text);
    if (end < nodes.length) found.push(nodes[end]!);
    at = end + 1;
  }
  return found;
}
