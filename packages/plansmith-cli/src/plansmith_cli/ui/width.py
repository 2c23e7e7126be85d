"""Fits text into the columns of a terminal: wraps at words, pads, shortens."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

from plansmith.lazy import lazy_pattern
from plansmith.text import CJK_RANGE, text_width, visible

_WIDEST: Final = 100
_NARROWEST: Final = 40
_DEEPEST: Final = 12
_WHOLE: Final = ("plansmith ", "$ ", "http", "|")
BAR: Final = "│"
# A word or one Chinese character with the marks around it and a space; other spaces are pieces too.
_PIECES: Final = lazy_pattern(
    rf"(?s)(?:[（“《]{{0,9}}[{CJK_RANGE}]|[^\s{CJK_RANGE}（“《，。；：、！？）”》]+)[，。；：、！？）”》]*\s?|\s|."
)


def line_width() -> int:
    """Returns how many columns a line of prose may take on this terminal."""
    return max(min(shutil.get_terminal_size().columns, _WIDEST), _NARROWEST) - 1


def wrapped(text: str, width: int | None = None) -> Iterator[str]:
    """Yields a text in lines that fit the terminal; Chinese breaks between any two characters."""
    lines = folded(text, line_width() if width is None else width, cuts=False)
    return (line.rstrip() for line in lines)


def folded(text: str, width: int, *, cuts: bool = True) -> Iterator[str]:
    """Yields a text in parts that fit, broken after words; `cuts` words that are too long."""
    line, used = "", 0
    for piece in _PIECES.findall(text):
        for part in piece if cuts and text_width(piece) > width else [piece]:
            if line and used + text_width(part.rstrip()) > width:
                yield line
                line, used = "", 0
            line, used = line + part, used + text_width(part)
    yield line


def fitted(line: str, width: int) -> Iterator[str]:
    """Yields a line in parts that fit, broken between words; further parts are indented as it is.

    A command stays whole, so that it can be copied; so does a line with colours. Each part of a
    line with a bar has the bar: nobody takes it for a line of ours.
    """
    indent = line[: len(line) - len(line.lstrip())]
    begins = line.lstrip()
    if begins.startswith(BAR) and text_width(line) >= width:
        bar = indent + begins[:2]
        yield from (
            bar + part for part in folded(line[len(bar) :], max(width, _NARROWEST) - len(bar) - 1)
        )
        return
    if text_width(line) <= width or begins.startswith(_WHOLE) or "\x1b" in line:
        yield line
        return
    below = indent if len(indent) < _DEEPEST else ""
    first, *rest = wrapped(begins, width - len(indent))
    yield indent + first
    for part in rest:
        yield below + part


def say_fitted(text: str) -> None:
    """Writes a text to stderr, in lines that fit a terminal."""
    lines = fitted_to(sys.stderr, visible(text).split("\n"))
    sys.stderr.writelines(f"{line}\n" for line in lines)


def fitted_to(stream: TextIO, lines: Iterable[str]) -> Iterator[str]:
    """Yields lines that fit the terminal, broken between words.

    Elsewhere they stay as they are, but for those with a bar, which a terminal may show later.
    """
    width, is_terminal = shutil.get_terminal_size().columns, stream.isatty()
    for line in lines:
        if is_terminal or line.lstrip().startswith(BAR):
            yield from fitted(line, width)
        else:
            yield line


def clip_width(text: str, width: int) -> str:
    """Shortens a text to so many columns of a terminal; a cut text ends with `…`."""
    if text_width(text) <= width:
        return text
    while text and text_width(text) >= width:
        text = text[:-1]
    return f"{text}…"
