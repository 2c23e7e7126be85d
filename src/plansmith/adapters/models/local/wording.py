"""Wording: what a small model says of results is held against them, number by number."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from plansmith.errors import ModelFailed

SAY: Final = "Say exactly: "
_SAID: Final = re.compile(r'<(data-\w+) title="what to say[^"]*"[^>]*>\n(.*?)\n</\1>', re.DOTALL)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_MARKER: Final = re.compile(r"^\s*(?:\d+[.)]|[-*])\s+", re.MULTILINE)
_CITED: Final = re.compile(r"\[step:[^\]]*\]")
_QUOTED: Final = re.compile(r"[\"“「『《`]([^\"”」』》`\n]{2,80})[\"”」』》`]")
_FILE: Final = re.compile(r"\b[\w-]+(?:[/.][\w-]+)*\.[A-Za-z]\w{0,4}\b")


def said_exactly(prompt: str) -> str:
    """The text of a reply whose instruction is to say exactly that; nothing otherwise."""
    found = _SAID.search(prompt)
    body = found[2] if found else ""
    return body.removeprefix(SAY) if body.startswith(SAY) else ""


def unfounded(text: str, facts: str) -> list[str]:
    """The numbers, quoted names and file names of a text that do not stand in the facts."""
    said = _CITED.sub("", _MARKER.sub("", text))
    known = {number for each in _NUMBER.findall(_even(facts)) for number in _ways(each)}
    numbers = [each for each in _NUMBER.findall(_even(said)) if not _ways(each) & known]
    plain = _even(facts)
    names = [*_QUOTED.findall(said), *_FILE.findall(said)]
    return [*numbers, *(name for name in names if _even(name).strip() not in plain)]


def check_wording(text: str, facts: str) -> None:
    """Refuse a text that says what nobody found out; the plain results stand in for it."""
    wrong = unfounded(text, facts)
    if wrong:
        shown = ", ".join(dict.fromkeys(wrong[:3]))
        raise ModelFailed(f"its text named what is in no result: {shown}")


def _ways(number: str) -> set[str]:
    """The ways to write a number: with and without thousands' marks and idle zeros."""
    plain = number.replace(",", "")
    ways = {number, plain, number.replace(",", ".")}
    for each in tuple(ways):
        try:
            ways.add(f"{float(each):.10g}")
        except ValueError:
            continue
    return ways


def _even(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
