"""The person's terminal: the language that is spoken there, and text that fits its columns."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pkgutil import resolve_name
from typing import Final, TextIO

from plansmith.lazy import lazy_pattern
from plansmith.text import visible
from plansmith_planner.language.characters import CJK_RANGE

# What `--lang` names, else the language of the request or of the run that is shown.
LANGUAGE: Final = ContextVar("LANGUAGE", default="")
_NARROWEST: Final = 40
_WHOLE: Final = ("plansmith ", "$ ", "http", "|")
BAR: Final = "│"
# A word or one Chinese character with the marks around it and a space; other spaces are pieces too.
_PIECES: Final = lazy_pattern(
    rf"(?s)(?:[（“《]{{0,9}}[{CJK_RANGE}]|[^\s{CJK_RANGE}（“《，。；：、！？）”》]+)[，。；：、！？）”》]*\s?|\s|."
)


def own_locale() -> str:
    """Returns the person's language, such as `zh-CN`: what is spoken, else the environment's."""
    if LANGUAGE.get():
        return LANGUAGE.get()
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    found = next((os.environ[name] for name in names if os.environ.get(name)), "en")
    return found.partition(".")[0].replace("_", "-")


def use_language(lang: str | None, request: str | None) -> None:
    """Speaks the language that is named from now on, else that of the request."""
    language = lang or ""
    if request and not language and not request.isascii():
        found: str = resolve_name("plansmith_planner.language.locales:locale_of")(request)
        language = "" if found.startswith("en") else found
    LANGUAGE.set(language)


def wrapped(text: str, width: int | None = None) -> Iterator[str]:
    """Yields a text in lines that fit the terminal; Chinese breaks between any two characters."""
    if width is None:
        width = max(min(shutil.get_terminal_size().columns, 100), _NARROWEST) - 1
    return (line.rstrip() for line in folded(text, width, cuts=False))


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
    begins = line.lstrip()
    indent = line[: len(line) - len(begins)]
    if begins.startswith(BAR[0]) and text_width(line) >= width:
        bar = indent + begins[:2]
        parts = folded(line[len(bar) :], max(width, _NARROWEST) - len(bar) - 1)
        yield from (bar + part for part in parts)
    elif text_width(line) <= width or begins.startswith(_WHOLE) or "\x1b" in line:
        yield line
    else:
        first, *rest = wrapped(begins, width - len(indent))
        yield indent + first
        yield from ((indent if len(indent) < 12 else "") + part for part in rest)


def fitted_to(stream: TextIO, lines: Iterable[str]) -> Iterator[str]:
    """Yields lines that fit the terminal, broken between words.

    Elsewhere they stay as they are, but for those with a bar, which a terminal may show later.
    """
    width, is_terminal = shutil.get_terminal_size().columns, stream.isatty()
    for line in lines:
        fits = not is_terminal and not line.lstrip().startswith(BAR[0])
        yield from [line] if fits else fitted(line, width)


def say_fitted(text: str) -> None:
    """Writes a text to stderr, in lines that fit a terminal."""
    lines = fitted_to(sys.stderr, visible(text).split("\n"))
    sys.stderr.writelines(f"{line}\n" for line in lines)


def padded(text: str, width: int) -> str:
    """Returns a text with spaces after it, up to so many columns of a terminal."""
    return text + " " * max(width - text_width(text), 0)


def text_width(text: str) -> int:
    """Returns how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(unicodedata.combining(each) != 0 for each in text)
