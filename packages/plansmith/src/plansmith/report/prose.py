"""Writes a model's Markdown again, harmless: no HTML, no images, only web and mail links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
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
        spans = chain.from_iterable(token.children or () for token in tokens)
        # The parser drops what is deeper, so nothing may reach the last level.
        if all(token.level < _MAX_DEPTH - 1 for token in chain(tokens, spans)):
            return [*_blocks(SyntaxTreeNode(tokens), _marked_up)]
    return [listing(escaped)]


def as_text(markdown: str) -> str:
    """Returns our own Markdown as a plain text with the same tables and lists."""
    return "\n\n".join(_blocks(SyntaxTreeNode(page_parser().parse(markdown)), None))


def _blocks(parent: SyntaxTreeNode, spans: Callable[..., str] | None) -> Iterator[str]:
    """Yields the blocks in a node, each as Markdown with its spans, or else as a plain text."""
    for node in parent.children:
        match node.type:
            case "blockquote":
                yield from (_indented(each, "> ", "> ") for each in _blocks(node, spans))
            case "bullet_list" | "ordered_list":
                yield from _items(node, spans)
            case "table":
                yield _table(node, spans)
            case _:
                yield _block(node, spans)


def _block(node: SyntaxTreeNode, spans: Callable[..., str] | None) -> str:
    if node.type == "hr":
        return "***"
    if node.type == "fence":
        text = node.content.removesuffix("\n")
        return listing(text) if spans else text
    text = _text(node, spans)
    if node.type == "heading" and spans:
        return f"{'#' * min(int(node.tag[1:]) + 2, 6)} {_in_line(text)}"
    return text


def _items(node: SyntaxTreeNode, spans: Callable[..., str] | None) -> Iterator[str]:
    for number, item in enumerate(node.children, int(node.attrs.get("start", 1))):
        mark = "- " if node.type == "bullet_list" else f"{number}. "
        edge = " " * len(mark)
        for place, block in enumerate(_blocks(item, spans)):
            yield _indented(block, edge if place else mark, edge)


def _table(node: SyntaxTreeNode, spans: Callable[..., str] | None) -> str:
    rows = [row.children for part in node.children for row in part.children]
    # The head of a column is no place for the source of the table.
    cells = [[_in_line(_text(each, spans, cites=False)) for each in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], f"|{' --- |' * len(cells[0])}", *lines[1:]])


def _indented(block: str, first: str, edge: str) -> str:
    return first + block.replace("\n", f"\n{edge}")


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _text(node: SyntaxTreeNode, spans: Callable[..., str] | None, *, cites: bool = True) -> str:
    inline = node.children[0].children
    return spans(inline, cites=cites) if spans else _words(inline)


def _marked_up(nodes: Sequence[SyntaxTreeNode], *, cites: bool, in_link: bool = False) -> str:
    parts: list[str] = []
    for node in nodes:
        match node.type:
            case "link":
                target, inner = str(node.attrs["href"]), node.children
                text = _marked_up(inner, cites=cites, in_link=True)
                parts.append(f"[{text}{_link_end(target, ''.join(map(_shown, inner)))}")
            case "image" if not in_link:
                # Showing an image would send a request: it becomes a link.
                parts.append(_link(str(node.attrs["src"]), node.content))
            case "text" if not in_link:
                parts.append(_marked(node.content, cites=cites))
            case "text" | "image":
                parts.append(plain(node.content))
            case "code_inline":
                parts.append(coded(node.content).replace("|", "\\|"))
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case _:
                mark = _MARKS.get(node.tag, "")
                parts.append(
                    f"{mark}{_marked_up(node.children, cites=cites, in_link=in_link)}{mark}"
                )
    return _side_by_side(parts)


def _side_by_side(parts: Sequence[str]) -> str:
    """Joins parts of a line, so that no two of them become an image or a link together."""
    joined: list[str] = []
    for part in filter(None, parts):
        before = joined[-1] if joined else ""
        if before.endswith("!") and part[0] == "[":
            joined[-1] = f"{before[:-1]}\\!"
        is_target = before.endswith("`]") and part[0] in "(:"  # behind the source of a statement
        joined.append(f"\\{part}" if is_target else part)
    return "".join(joined)


def _shown(node: SyntaxTreeNode) -> str:
    """Returns the words of a part of a link, as they are seen."""
    if node.type == "image":
        return node.content
    # The library decodes escapes such as %E2%80%AE in addresses.
    return visible(node.content) + "".join(map(_shown, node.children))


def _words(nodes: Sequence[SyntaxTreeNode]) -> str:
    parts: list[str] = []
    for node in nodes:
        text = node.content + _words(node.children)
        if node.type == "link" and text != node.attrs["href"]:
            text += f" <{node.attrs['href']}>"
        parts.append("\n" if node.type in ("softbreak", "hardbreak") else text)
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
    return _side_by_side([*parts, plain(text[end:])])


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
