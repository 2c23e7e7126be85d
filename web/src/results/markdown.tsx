// Markdown that a model or a tool wrote, as text with a shape.

import DOMPurify from "dompurify";
import { Marked } from "marked";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { t } from "../words/words";

const TAGS = ["p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "a", "table", "thead", "tbody", "tr", "th", "td", "hr"];

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (each) => `&#${each.charCodeAt(0)};`);

// Raw HTML and pictures are shown as the text they are; they are never read as HTML at all.
const markdown = new Marked({ async: false, gfm: true }, {
  renderer: { html: ({ text }) => escaped(text), image: ({ text, href }) => escaped(`${text} (${href})`) },
});

// Shapes of text and web links, nothing that loads or runs.
export function harmless(written: string): string {
  const html = markdown.parse(written, { async: false });
  const clean = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "align", "start"], ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const anchor of clean.querySelectorAll("a")) {
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer nofollow";
  }
  // What is wider than the page scrolls by keyboard, too.
  for (const block of clean.querySelectorAll("pre")) {
    block.tabIndex = 0;
    block.setAttribute("role", "group");
    block.setAttribute("aria-label", t("result.text"));
  }
  const box = document.createElement("div");
  box.append(clean);
  return box.innerHTML;
}

export function Markdown({ text }: { text: string }): JSX.Element {
  const html = useMemo(() => harmless(text), [text]);
  return <div class="prose" dangerouslySetInnerHTML={{ __html: html }} />;
}
