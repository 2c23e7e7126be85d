"""Parses a model's Markdown into harmless tokens: no HTML, no images, only web and mail links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

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
_DROPPED: Final = ("thead_open", "thead_close", "tbody_open", "tbody_close")


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """Allows links to web pages and mail addresses; any other stays text."""
        return _TARGET.fullmatch(url) is not None


def read_prose(text: str) -> list[Token]:
    """Parses a text into block tokens; their inline children include `cite` and `host`.

    Nothing is lost: a text that is nested too deep or too long to parse becomes a code block.
    """
    shown = visible(text)
    if len(shown) <= _MAX_LENGTH and shown.count("[") <= _MAX_BRACKETS:
        tokens = _PARSER.parse(shown)
        # The parser drops what is deeper, so nothing may reach the last level.
        if all(token.level < _MAX_DEPTH - 1 for token in tokens):
            return tokens
    return [Token("fence", "code", 0, content=f"{shown}\n")]


def _harmless(state: StateCore) -> None:
    """Removes titles, languages and alignment from tokens, and makes links safe."""
    state.tokens = [each for each in state.tokens if each.type not in _DROPPED]
    for before, token in pairwise([_text(""), *state.tokens]):
        token.info = ""
        token.attrs = {name: each for name, each in token.attrs.items() if name == "start"}
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
        if token.children:
            in_table = before.type in ("th_open", "td_open")
            spans = _spans(token.children)
            # The head of a column is no place for the source of the table.
            token.children = [each for each in spans if not (in_table and each.type == "cite")]


def _spans(tokens: Sequence[Token]) -> Iterator[Token]:
    target, words = "", ""
    for token in tokens:
        if token.type == "link_open":
            target, words = str(token.attrs["href"]), ""
            yield _link_open(target)
        elif token.type == "link_close":
            yield from (_link_close(target), *_host(target, words))
            target = ""
        elif token.type == "image":
            # Showing an image would send a request: it becomes a link.
            source, words = str(token.attrs["src"]), words + token.content
            yield from [_text(token.content)] if target else _link(source, token.content)
        elif token.type == "text" and not target:
            yield from _marked(token.content)
        else:
            # The library decodes escapes such as %E2%80%AE in addresses.
            token.content = visible(token.content)
            words += token.content
            yield token


def _marked(text: str) -> Iterator[Token]:
    """Splits a text into text, citations of steps, and bare web addresses as links."""
    end = 0
    for found in _IN_TEXT.finditer(text):
        yield _text(text[end : found.start()])
        end = found.end()
        if found["steps"]:
            names = (part.strip().removeprefix("step:") for part in found["steps"].split(","))
            yield from (
                Token("cite", "", 0, content=each.strip()) for each in names if each.strip()
            )
            continue
        address = found["bare"].rstrip(_TAIL)
        end = found.start() + len(address)
        yield from _link(address, address) if _TARGET.fullmatch(address) else [_text(address)]
    yield _text(text[end:])


def _link(target: str, words: str) -> list[Token]:
    shown = words or target
    return [_link_open(target), _text(shown), _link_close(target), *_host(target, shown)]


def _link_open(target: str) -> Token:
    return Token("link_open", "a", 1, attrs={"href": target})


def _link_close(target: str) -> Token:
    return Token("link_close", "a", -1, meta={"href": target})


def _host(target: str, words: str) -> list[Token]:
    """Returns a token with the real host of a link, unless its text is the address itself."""
    if words == target:
        return []
    try:
        host = urlsplit(target).hostname
    except ValueError:
        host = None
    return [Token("host", "", 0, content=host or target)]


def _text(text: str) -> Token:
    return Token("text", "", 0, content=text)


_PARSER: Final = _Parser("commonmark", {"html": False, "breaks": True, "maxNesting": _MAX_DEPTH})
_PARSER.enable("table")
_PARSER.disable(["html_block", "html_inline", "reference", "code", "entity"])
_PARSER.core.ruler.push("harmless", _harmless)


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
