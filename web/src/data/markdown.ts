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

export const readMarkdown = (text: string): Element[] =>
  new Blocks(text.replaceAll("\r\n", "\n").split("\n").map((line) => line.replace(/^[ \t]+/, (indent) => indent.replaceAll("\t", "    "))), 0).read();

const LINES: ReadonlySet<string> = new Set(["p", "li", "heading", "pre", "row", "br"]);

// The text of a tree, without its marks and the sources of its statements.
export function plainText(nodes: readonly Node[]): string {
  return nodes.map((node) => (typeof node === "string" ? node : (node.tag === "li" ? "- " : "") + plainText(node.children) + (LINES.has(node.tag) ? "\n" : ""))).join("");
}

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: (.*))?$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^ {0,3}([-*+]|(\d{1,9})[.)])( {1,4}(?=\S)| |$)/;
const NUMBER = /^[-+−(]?\p{Sc}?\d[\d.,' ]*\)?%?$/u;

const isEmpty = (line: string | undefined): boolean => !line?.trim();
const isAll = (text: string, letter: string): boolean => text !== "" && text === letter.repeat(text.length);

function isRule(line: string): boolean {
  const marks = line.replaceAll(" ", "").trim();
  return marks.length >= 3 && ["-", "*", "_"].some((each) => isAll(marks, each));
}

// Whether a line ends the paragraph above it; of numbered lists only one that begins with 1, since a year may begin a line, too.
function begins(line: string): boolean {
  const item = ITEM.exec(line);
  return item ? item[2] === undefined || item[2] === "1" : QUOTE.test(line) || FENCE.test(line) || HEADING.test(line) || isRule(line);
}

// The blocks of some lines, from the first to the last; what lists and quotes hold is read by another one.
class Blocks {
  private at = 0;

  constructor(private readonly lines: string[], private readonly depth: number) {}

  read(): Element[] {
    const found: Element[] = [];
    while (this.at < this.lines.length) {
      if (isEmpty(this.lines[this.at])) this.at++;
      else found.push(this.block(this.lines[this.at]!));
    }
    return found;
  }

  private block(line: string): Element {
    const fence = FENCE.exec(line);
    if (fence) return this.code(fence[1]!, fence[2]!);
    const heading = HEADING.exec(line);
    if (heading || isRule(line)) this.at++;
    if (heading) return { tag: "heading", number: heading[1]!.length, children: inline((heading[2] ?? "").trim()) };
    if (isRule(line)) return { tag: "hr", children: [] };
    const item = ITEM.exec(line);
    if (this.depth < DEEPEST && QUOTE.test(line)) return this.quote();
    if (this.depth < DEEPEST && item) return this.list(item);
    if (line.startsWith("    ")) return { tag: "pre", children: [this.taken((each) => each.startsWith("    ")).map((each) => each.slice(4)).join("\n")] };
    return this.isTable() ? this.table() : this.paragraph();
  }

  // The lines from here on, as long as they belong together.
  private taken(goes: (line: string) => boolean): string[] {
    const from = this.at++;
    while (this.at < this.lines.length && goes(this.lines[this.at]!)) this.at++;
    return this.lines.slice(from, this.at);
  }

  private code(mark: string, language: string): Element {
    const [, ...text] = this.taken((line) => !(line.trim().startsWith(mark) && isAll(line.trim(), mark[0]!)));
    this.at++;
    return { tag: "pre", children: [text.join("\n")], target: language.trim() };
  }

  private quote(): Element {
    let blank = false;
    const inner = this.taken((line) => {
      if (!QUOTE.test(line) && (isEmpty(line) || blank || begins(line))) return false;
      blank = isEmpty(line.replace(QUOTE, ""));
      return true;
    });
    return { tag: "blockquote", children: new Blocks(inner.map((line) => line.replace(QUOTE, "")), this.depth + 1).read() };
  }

  private list(first: RegExpExecArray): Element {
    const items: string[][] = [];
    let [blanks, width, loose] = [0, 0, false];
    for (; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      const item = ITEM.exec(line);
      if (isEmpty(line)) {
        blanks++;
        continue;
      }
      if (items.length > 0 && line.startsWith(" ".repeat(width))) items.at(-1)!.push(...Array<string>(blanks).fill(""), line.slice(width));
      else if (item && item[1]!.at(-1) === first[1]!.at(-1) && !isRule(line)) {
        width = item[0].length + (item[3] === "" ? 1 : 0);
        items.push([line.slice(item[0].length)]);
      } else if (!blanks && !begins(line)) items.at(-1)!.push(line.trimStart());
      else break;
      loose ||= blanks > 0;
      blanks = 0;
    }
    // The items of a list without empty lines are no paragraphs of their own.
    const children = items.map((each): Element => ({
      tag: "li", children: new Blocks(each, this.depth + 1).read().flatMap((inner): Node[] => (inner.tag === "p" && !loose ? inner.children : [inner])),
    }));
    return first[2] === undefined ? { tag: "ul", children } : { tag: "ol", children, number: Number(first[2]) };
  }

  private isTable(at = this.at): boolean {
    const [head, marks] = [this.lines[at]!, this.lines[at + 1] ?? ""];
    return head.includes("|") && marks.includes("-") && cells(marks).every((each) => /^:?-+:?$/.test(each)) && cells(marks).length === cells(head).length;
  }

  private table(): Element {
    const second = this.at + 1;
    const [head, marks, ...body] = this.taken((line) => this.at === second || (!isEmpty(line) && !begins(line))).map(cells);
    const right = marks!.map((mark, column) => (mark.endsWith(":") ? !mark.startsWith(":")
      : !mark.startsWith(":") && body.some((row) => row[column]) && body.every((row) => !row[column] || NUMBER.test(plainText(inline(row[column]))))));
    const children = [head!, ...body].map((row): Element => ({
      tag: "row", children: row.map((text, column): Element => ({ tag: "cell", children: inline(text), right: right[column] ?? false })),
    }));
    return { tag: "table", children };
  }

  private paragraph(): Element {
    const lines = this.taken((line) => !isEmpty(line) && !(this.depth < DEEPEST && begins(line)) && !this.isTable());
    return { tag: "p", children: inline(lines.map((line) => line.trimStart()).join("\n")) };
  }
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
  if (found.length > 1 && isEmpty(found.at(-1))) found.pop();
  return found.map((each) => each.trim());
}

export const isAddress = (text: string): boolean => /^(?:https?:\/\/|mailto:)\S+$/i.test(text);

const link = (target: string, text = target): Node => ({ tag: "a", target, children: text === target ? [text] : inline(text) });

// What stands on its own in a line, by its first letter. Each looks a bounded way ahead.
type Part = [letters: string, pattern: RegExp, make: (found: RegExpExecArray) => Node[]];
const PARTS: Part[] = [
  ["\\", /\\([\p{P}\p{S}])/uy, ([, letter]) => [letter!]],
  ["\\ ", /(?:\\| {2,9})\n/y, () => [{ tag: "br", children: [] }]],
  ["`", /(?<!`)(`+)(?!`)([^]{1,2000}?)(?<!`)\1(?!`)/y, ([, , code]) => [{ tag: "code", children: [code!] }]],
  // A picture would be loaded, and an address that is none of the web leads nowhere: both are text.
  ["!", /!\[([^[\]\n]{0,500})\]\(([^\n()]{1,2000})\)/y, ([, text, target]) => [`${text} (${target})`]],
  ["[ ", / ?\[step:([^[\]\n]{1,400})\]/y, ([, steps]) => steps!.split(",").map((each) => ({ tag: "source", children: [], target: each.replace("step:", "").trim() }))],
  ["[", /\[([^[\]\n]{1,500})\]\(((?:[^\s()]|\([^\s()]{0,200}\)){1,2000})\)/y,
    ([, text, target]) => (isAddress(target!) ? [link(target!, text)] : [...inline(text!), ` (${target})`])],
  ["<", /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy, ([, target]) => [link(target!)]],
  ["hH", /(?<!\w)https?:\/\/[^\s<>"'`[\]]{0,2000}[^\s<>"'`[\].,;:!?)*_。，；：！？）]/iy, ([target]) => [link(target)]],
];
const SIGN = /[\p{P}\p{S}]/u;

interface Opener { mark: string; place: number; left: number }

export const inline = (text: string): Node[] => new Inline(text).read();

// One pass over the letters. Marks that may open something are kept on a stack, and leave it once.
class Inline {
  private nodes: Node[] = [];
  private depths = new Map<Node, number>();
  private marks: Opener[] = [];
  private open: Record<string, number> = { "*": 0, _: 0, "~": 0 };
  private start = 0;
  private at = 0;

  constructor(private readonly text: string) {}

  read(): Node[] {
    while (this.at < this.text.length) {
      const letter = this.text[this.at]!;
      if (letter in this.open) this.emphasis(letter);
      else if (!PARTS.some((part) => part[0].includes(letter) && this.part(part))) this.at++;
    }
    this.put([], this.at);
    return joined(this.nodes);
  }

  private put(nodes: Node[], end: number): void {
    if (this.at > this.start) this.nodes.push(this.text.slice(this.start, this.at));
    this.nodes.push(...nodes);
    this.start = this.at = end;
  }

  private part([, pattern, make]: Part): boolean {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.put(make(found), this.at + found[0].length);
    return found !== null;
  }

  private emphasis(letter: string): void {
    let end = this.at;
    while (this.text[end] === letter) end++;
    const length = end - this.at;
    const [before, after] = [this.text[this.at - 1] ?? " ", this.text[end] ?? " "];
    const left = after.trim() !== "" && (!SIGN.test(after) || !before.trim() || SIGN.test(before));
    const right = before.trim() !== "" && (!SIGN.test(before) || !after.trim() || SIGN.test(after));
    // In the middle of a word an underscore is a letter of it, and one star a sign: 2*3.
    const inWord = left && right && (letter === "_" || (length === 1 && /\w/.test(before) && /\w/.test(after)));
    this.put([], end);
    const rest = right && (!inWord || SIGN.test(after)) ? this.close(letter, length) : length;
    if (rest > 0 && left && (!inWord || SIGN.test(before))) {
      this.marks.push({ mark: letter, place: this.nodes.length, left: rest });
      this.open[letter]!++;
    }
    this.nodes.push(letter.repeat(rest));
  }

  // Joins what stands between these marks and those that opened it; returns how many marks are left.
  private close(letter: string, length: number): number {
    let rest = length;
    while (rest > 0 && this.open[letter]! > 0) {
      while (this.marks.at(-1)!.mark !== letter) this.unmark();
      const opener = this.marks.at(-1)!;
      const used = Math.min(2, rest, opener.left);
      if (letter === "~" && used < 2) break;
      if (!this.wrap(opener.place, letter === "~" ? "del" : used === 2 ? "strong" : "em")) break;
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
  private wrap(place: number, tag: Element["tag"]): boolean {
    const children = this.nodes.slice(place + 1);
    const depth = 1 + children.reduce((most, each) => Math.max(most, this.depths.get(each) ?? 0), 0);
    if (depth > DEEPEST) {
      while (this.marks.length) this.unmark();
      return false;
    }
    const made: Element = { tag, children: joined(children) };
    this.nodes.length = place + 1;
    this.nodes.push(made);
    this.depths.set(made, depth);
    return true;
  }
}

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
