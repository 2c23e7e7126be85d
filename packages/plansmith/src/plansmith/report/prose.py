"""Writes a model's Markdown again, harmless: no HTML, no images, only web and mail links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from plansmith.report.result_text import coded, listing, plain
from plansmith.text import visible

_MAX_DEPTH: Final = 50
# Parsing time grows with the square of the brackets, and is a second for 100,000 characters.
_MAX_BRACKETS: Final = 5_000
_MAX_LENGTH: Final = 400_000
_TARGET: Final = re.compile(
    r"https?://[^\s<>\"'`\\^{}|]+|mailto:[^\s<>\"'`\\^{}|]+@[^\s<>\"'`\\^{}|]+", re.IGNORECASE
)
_IN_TEXT: Final = re.compile(
    r"\[step:\s*(?P<steps>[^\[\]\n]{1,400})\]|(?P<bare>https?://[^\s<>\[\]\"'`]{1,2000})"
)
_TAIL: Final = ".,;:!?。，；：！？)）"
_MARKS: Final = {"strong": "**", "em": "*"}


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """Allows links to web pages and mail addresses; any other stays text."""
        return _TARGET.fullmatch(url) is not None


def harmless_blocks(text: str) -> list[str]:
    """Returns the blocks of a text as Markdown.

    Nothing is lost: a text that is nested too deep or too long to parse becomes a code block.
    """
    escaped = visible(text)
    if len(escaped) <= _MAX_LENGTH and escaped.count("[") <= _MAX_BRACKETS:
        tokens = _PARSER.parse(escaped)
        # The parser drops what is deeper, so nothing may reach the last level.
        if all(token.level < _MAX_DEPTH - 1 for token in tokens):
            writer = _Writer()
            for token in tokens:
                writer.take(token)
            return writer.blocks
    return [listing(escaped)]


def as_text(markdown: str) -> str:
    """Returns our own Markdown as a plain text with the same tables and lists."""
    writer = _Writer(markup=False)
    for token in page_parser().parse(markdown):
        writer.take(token)
    return "\n\n".join(writer.blocks)


class _Writer:
    """Writes Markdown tokens as Markdown again: no HTML, no images, no titles.

    Without `markup` it writes our own Markdown as plain text.
    """

    def __init__(self, *, markup: bool = True) -> None:
        self._markup = markup
        self.blocks: list[str] = []
        self._edges: list[str] = []  # what comes before each line in quotes and lists
        self._counts: list[int | None] = []
        self._mark = self._heading = ""
        self._rows: list[list[str]] | None = None

    def take(self, token: Token) -> None:
        kind = token.type.removesuffix("_open")
        if kind == "inline":
            # The head of a column is no place for the source of the table.
            spans = token.children or ()
            text = _spans(spans, cites=self._rows is None) if self._markup else _words(spans)
            in_line = " ".join(text.split())
            if self._rows is not None:
                self._rows[-1].append(in_line)
            else:
                self._put(f"{self._heading} {in_line}" if self._heading else text)
        elif kind == "heading":
            self._heading = "#" * min(int(token.tag[1:]) + 2, 6) if self._markup else ""
        elif kind == "heading_close":
            self._heading = ""
        elif kind == "fence":
            block = token.content.removesuffix("\n")
            self._put(listing(block) if self._markup else block)
        elif kind == "hr":
            self._put("***")
        else:
            self._nest(kind, token)

    def _nest(self, kind: str, token: Token) -> None:
        match kind:
            case "blockquote":
                self._edges.append("> ")
            case "bullet_list" | "ordered_list":
                start = int(token.attrs.get("start", 1))
                self._counts.append(None if kind == "bullet_list" else start)
            case "list_item":
                count = self._counts[-1]
                self._mark = "- " if count is None else f"{count}. "
                self._counts[-1] = None if count is None else count + 1
                self._edges.append(" " * len(self._mark))
            case "list_item_close" | "blockquote_close":
                self._edges.pop()
                self._mark = ""
            case "bullet_list_close" | "ordered_list_close":
                self._counts.pop()
            case _:
                self._table(kind)

    def _table(self, kind: str) -> None:
        if kind == "table":
            self._rows = []
        elif kind == "tr" and self._rows is not None:
            self._rows.append([])
        elif kind == "table_close" and self._rows:
            lines = [f"| {' | '.join(row)} |" for row in self._rows]
            rule = f"|{' --- |' * len(self._rows[0])}"
            self._rows = None
            self._put("\n".join([lines[0], rule, *lines[1:]]))

    def _put(self, text: str) -> None:
        edge = "".join(self._edges)
        first = edge[: len(edge) - len(self._mark)] + self._mark
        self._mark = ""
        self.blocks.append(first + text.replace("\n", f"\n{edge}"))


def _spans(tokens: Sequence[Token], *, cites: bool) -> str:
    parts: list[str] = []
    target, words = "", ""
    for token in tokens:
        match token.type:
            case "link_open":
                target, words = str(token.attrs["href"]), ""
                parts.append("[")
            case "link_close":
                parts.append(_link_end(target, words))
                target = ""
            case "image":
                # Showing an image would send a request: it becomes a link.
                source, words = str(token.attrs["src"]), words + token.content
                parts.append(plain(token.content) if target else _link(source, token.content))
            case "text" if not target:
                parts.append(_marked(token.content, cites=cites))
            case "text" | "code_inline":
                # The library decodes escapes such as %E2%80%AE in addresses.
                words += visible(token.content)
                is_text = token.type == "text"
                code = coded(token.content).replace("|", "\\|")
                parts.append(plain(token.content) if is_text else code)
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case _:
                parts.append(_MARKS.get(token.tag, ""))
    return "".join(parts)


def _words(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    target = ""
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrs["href"])
        elif token.type == "link_close":
            parts += [f" <{target}>"] if parts[-1:] != [target] else []
        else:
            parts.append("\n" if token.type in ("softbreak", "hardbreak") else token.content)
    return "".join(parts)


def _marked(text: str, *, cites: bool) -> str:
    """Writes a text with citations of steps, and bare web addresses as links."""
    parts: list[str] = []
    end = 0
    for found in _IN_TEXT.finditer(text):
        parts.append(plain(text[end : found.start()]))
        end = found.end()
        if found["steps"]:
            names = [part.strip().removeprefix("step:") for part in found["steps"].split(",")]
            parts += [f"[{coded(name)}]" for name in names if name.strip() and cites]
            continue
        address = found["bare"].rstrip(_TAIL)
        end = found.start() + len(address)
        parts.append(_link(address, address) if _TARGET.fullmatch(address) else plain(address))
    return "".join([*parts, plain(text[end:])])


def _link(target: str, words: str) -> str:
    return f"[{plain(words or target)}{_link_end(target, words or target)}"


def _link_end(target: str, words: str) -> str:
    """Returns the address of a link, and its real host unless its text is the address itself."""
    try:
        host = urlsplit(target).hostname
    except ValueError:
        host = None
    return f"](<{target}>)" + ("" if words == target else f" ({plain(host or target)})")


_PARSER: Final = _Parser("commonmark", {"html": False, "breaks": True, "maxNesting": _MAX_DEPTH})
_PARSER.enable("table")
_PARSER.disable(["html_block", "html_inline", "reference", "code", "entity"])


@cache
def page_parser() -> MarkdownIt:
    """Returns what renders our own Markdown, in which all words of others are harmless already."""
    # Our Markdown writes `<` as an entity. No text is nested deeper than `read_prose` lets it be.
    parser = _Parser("commonmark", {"html": False, "breaks": True, "maxNesting": 2 * _MAX_DEPTH})
    parser.enable("table")
    parser.disable(["html_block", "html_inline", "reference", "code", "image", "autolink"])
    parser.add_render_rule("link_open", _outside_link)
    return parser


def _outside_link(
    renderer: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, _: object
) -> str:
    tokens[idx].attrs["rel"] = "noopener noreferrer"
    return renderer.renderToken(tokens, idx, options, {})
