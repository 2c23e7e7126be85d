"""Reads a model's Markdown into shapes that cannot do harm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from plansmith.text import visible

_DEEPEST: Final = 50
# The parser takes the square of the number of brackets, and long texts a second each 100,000.
_MOST_BRACKETS: Final = 5_000
_LONGEST: Final = 400_000
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
        """Links lead to web pages and mailboxes; any other is left as the text it was."""
        return _TARGET.fullmatch(url) is not None


def read_prose(text: str) -> list[Token]:
    """The tokens of a text: blocks, their inline children, and `cite` and `host` among these.

    Nothing is left out: what nests too deep or would take too long is one listing.
    """
    shown = visible(text)
    if len(shown) <= _LONGEST and shown.count("[") <= _MOST_BRACKETS:
        tokens = _PARSER.parse(shown)
        # The parser leaves out what is deeper, so nothing may reach the last level.
        if all(token.level < _DEEPEST - 1 for token in tokens):
            return tokens
    return [Token("fence", "code", 0, content=f"{shown}\n")]


def _harmless(state: StateCore) -> None:
    """Keep of each token what has a meaning here: no titles, no languages, no alignment."""
    state.tokens = [each for each in state.tokens if each.type not in _DROPPED]
    for token in state.tokens:
        token.info = ""
        token.attrs = {name: each for name, each in token.attrs.items() if name == "start"}
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
        if token.children:
            token.children = list(_spans(token.children))


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
            # An image is an outside request as soon as somebody looks: it becomes a link.
            source, words = str(token.attrs["src"]), words + token.content
            yield from [_text(token.content)] if target else _link(source, token.content)
        elif token.type == "text" and not target:
            yield from _marked(token.content)
        else:
            # The library shows %E2%80%AE in an address as the letter that it stands for.
            token.content = visible(token.content)
            words += token.content
            yield token


def _marked(text: str) -> Iterator[Token]:
    """A text with the steps that it names and the bare addresses in it."""
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
    return Token("link_open", "a", 1, attrs={"href": target, "rel": "noopener noreferrer"})


def _link_close(target: str) -> Token:
    return Token("link_close", "a", -1, meta={"href": target})


def _host(target: str, words: str) -> list[Token]:
    """Words may claim one address and lead to another: the real host is always told."""
    if words == target:
        return []
    try:
        host = urlsplit(target).hostname
    except ValueError:
        host = None
    return [Token("host", "", 0, content=host or target)]


def _text(text: str) -> Token:
    return Token("text", "", 0, content=text)


_PARSER: Final = _Parser("commonmark", {"html": False, "breaks": True, "maxNesting": _DEEPEST})
_PARSER.enable("table")
_PARSER.disable(["html_block", "html_inline", "reference", "code", "entity"])
_PARSER.core.ruler.push("harmless", _harmless)
OPTIONS: Final = _PARSER.options
