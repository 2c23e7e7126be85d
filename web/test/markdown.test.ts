// Markdown without a browser: its shapes, that no letter is lost, and that time grows with the length alone.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { firstLines } from "../src/data/conversation";
import { plainText, readMarkdown } from "../src/data/markdown";
import type { Element, Node } from "../src/data/markdown";
import { fieldText } from "../src/data/json";
import { refsOf } from "../src/data/refs";
import { inBrief, parseCsv } from "../src/results/shape";

// A tree in short: strong(text), a<target>(text).
const brief = (nodes: readonly Node[]): string => nodes.map((node) => (typeof node === "string" ? node
  : `${node.tag}${node.number ?? ""}${node.target ? `<${node.target}>` : ""}${node.right ? ">" : ""}(${brief(node.children)})`)).join("");

const SHAPES: [string, string][] = [
  ["a **b** *c* ~~d~~ `e*f`", "p(a strong(b) em(c) del(d) code(e*f))"],
  ["***a*** snake_case_name 2*3*4", "p(em(strong(a)) snake_case_name 2*3*4)"],
  ["# One\ntext\n## Two", "heading1(One)p(text)heading2(Two)"],
  ["- a\n- b\n  - c\n- d", "ul(li(a)li(bul(li(c)))li(d))"],
  ["3. a\n4. b\n\nend", "ol3(li(a)li(b))p(end)"],
  ["It was in\n2024. A year", "p(It was in\n2024. A year)"],
  ["- a\n\n  b\n- c", "ul(li(p(a)p(b))li(p(c)))"],
  ["> a\n> > b\nlazy", "blockquote(p(a)blockquote(p(b\nlazy)))"],
  ["```py\nx = 1\n\n**y**\n```\nz", "pre<py>(x = 1\n\n**y**)p(z)"],
  ["    code\n\n---", "pre(code)hr()"],
  ["[a](https://b.c/d_(e)) <https://f.g> https://h.i.", "p(a<https://b.c/d_(e)>(a) a<https://f.g>(https://f.g) a<https://h.i>(https://h.i).)"],
  ["[a](javascript:b) ![c](https://d/e.png) [f][g] <b>x</b>", "p(a (javascript:b) c (https://d/e.png) [f][g] <b>x</b>)"],
  ["so it is [step:sql]. And [step:a, step:b]", "p(so it issource<sql>(). Andsource<a>()source<b>())"],
  ["| a | b [step:sql] |\n|---|---|\n| x | 1,000.50 |\n| y \\| z | −2 % |",
    "table(row(cell(a)cell>(bsource<sql>()))row(cell(x)cell>(1,000.50))row(cell(y | z)cell>(−2 %)))"],
  ["a | b\n- | -\n1 | c\n- d", "table(row(cell>(a)cell(b))row(cell>(1)cell(c)))ul(li(d))"],
  ["\\*a\\* a\\\nb", "p(*a* abr()b)"],
];

test("Markdown has the shapes that people know", () => {
  for (const [text, wanted] of SHAPES) assert.equal(brief(readMarkdown(text)), wanted, text);
  assert.equal(firstLines("# Head\n\n**Rome** it is [step:a].\n\n| a |\n|---|\n| 1 |\n\n- one\n- *two*\n"), "Head\nRome it is.\n- one\n- two");
});

const UNITS = ["_a", "*a ", "a* ", "**a", "~~a", ">", "> ", "- ", "1. ", "* - ", "[", "]", "[a](", "![", "[step:", "`", "``a`", "<https://", "https://a.", "\\", "|", "|-", "a|b\n-|-\n",
  "#", "# ", "\n", " ", "\t", "  \n", "```\n", "a\n", "- a\n", "  - a\n", "> a\n", "&amp;", "$1", "{{", "{{a.", '"', "\"a", "`a`", ":", "a: b;", "_", "a_b", ",", "1", "-", "{", "}"];

const letters = (text: string): string => text.replace(/[\s\\`*_~>#|[\]()!<\-+.\d:]|step:/g, "");

test("no letter of a text is lost, whatever it is made of", () => {
  // Every mix of three marks, with letters between them that can be followed.
  for (const one of UNITS) for (const two of UNITS) for (const three of ["*", "]", "`", "\n", ") "]) {
    const text = `αβ${one}γδ${two}εζ${three}ηθ\nικ${two}λ`;
    const shown = brief(readMarkdown(text));
    for (const letter of letters(text)) assert.ok(shown.includes(letter), `${JSON.stringify(text)} → ${shown}`);
  }
  for (const text of [`${">".repeat(5_000)} the end`, `${"- ".repeat(5_000)}the end`, `${"*a ".repeat(5_000)}the end${" a*".repeat(5_000)}`, `${"[".repeat(5_000)}the end`]) {
    const found = readMarkdown(text);
    assert.ok(plainText(found).includes("the end"));
    assert.ok(depth(found) < 40);
  }
});

const depth = (nodes: readonly Node[]): number => nodes.reduce((most, each) => Math.max(most, typeof each === "string" ? 0 : 1 + depth((each as Element).children)), 0);

// Every pattern in the sources of the page, and the readers that are no pattern.
function patterns(): Record<string, (text: string) => unknown> {
  const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name) && !name.startsWith("words"));
  const found: Record<string, (text: string) => unknown> = {};
  for (const name of files) {
    for (const [, source, flags] of readFileSync(`src/${name}`, "utf8").matchAll(/(?<=[(,=!&|?:[] ?)\/((?:[^/\\\n[*]|\\.|\[(?:[^\]\\\n]|\\.)*\])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])*)\/([dgimsuvy]*)(?=[.,);\s])/g)) {
      const pattern = new RegExp(source!, [...new Set(`${flags}g`.replace("y", ""))].join(""));
      found[`${name} ${source}`] = (text) => text.replace(pattern, "");
    }
  }
  return found;
}

const READERS: Record<string, (text: string) => unknown> = {
  ...patterns(), parseCsv, refsOf: (text) => refsOf(text), inBrief, firstLines,
  fieldText: (text) => fieldText(`{"x":${JSON.stringify(text)},"plan":1}`, "plan"),
};

// The processor's time, which other programs do not change.
function took(read: (text: string) => unknown, text: string, times: number): number {
  return Math.min(...Array.from({ length: times }, () => {
    const from = process.cpuUsage();
    read(text);
    const { user, system } = process.cpuUsage(from);
    return user + system;
  }));
}

const LENGTH = 5_000;

// What takes time by the square of the length takes sixteen times as long for four times the text.
function isLinear(read: (text: string) => unknown, [before, unit]: readonly [string, string]): boolean {
  const text = (length: number): string => `${before}${unit.repeat(length / unit.length)}\u0000`;
  // So little is no square of twenty thousand, and may be the collector of garbage.
  if (took(read, text(4 * LENGTH), 1) < 60_000) return true;
  // What is not linear fails each time; the first may have met a busy processor.
  return [1, 2, 3].some(() => took(read, text(4 * LENGTH), 3) / took(read, text(LENGTH), 3) < 9);
}

test("every pattern and reader of foreign text takes time by its length alone", () => {
  assert.ok(Object.keys(READERS).length > 45, Object.keys(READERS).join("\n"));
  const inputs = ["", "{{a", ": ", "`a"].flatMap((before) => [" ", "a", "0", "_", ":", "{", "{{a ", "`", "'", '"', ",", ".a", "\n", "=", "-", "/a"].map((unit) => [before, unit] as const));
  const slow = Object.entries(READERS).flatMap(([name, read]) => inputs.filter((each) => !isLinear(read, each)).map((each) => `${name} ${each.join(" ")}`));
  const marks = ["", "- ", "[a]("].flatMap((before) => UNITS.map((unit) => [before, unit] as const));
  assert.deepEqual([...slow, ...marks.filter((each) => !isLinear(readMarkdown, each))], []);
});
