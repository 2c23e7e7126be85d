"""Chooses what is told of each file of a folder, within a number of tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from plansmith.adapters.tools.folder_brief.details import Entry

_BUDGET: Final = 350  # tokens, about
_NAMES: Final = 200  # of them for names
_CROWD: Final = 12
_LETTERS: Final = 3.5  # letters of a token
_WORD: Final = re.compile(r"[a-z]{3,}|\d{2,}")
_HAN_RUN: Final = re.compile(r"[\u3400-\u9fff]+")


def brief_lines(entries: Sequence[Entry], request: str, *, tokens: int) -> list[str]:
    """Returns the lines: what the request shares words with first, then names, then counts."""
    asked, folded = words(request), request.casefold()
    shared = {each.path: len(words(each.line) & asked) for each in entries}
    # One of many alike says less than a file that stands alone.
    beside = Counter(_place(each.path) for each in entries)
    crowded = {each.path: beside[_place(each.path)] > _CROWD for each in entries}
    order = sorted(entries, key=lambda each: (-shared[each.path], crowded[each.path], each.path))
    room = min(_BUDGET, tokens)
    named = [each for each in order if is_named(each.path, folded)]
    shown, rest = _names(order, min(_NAMES, room * 0.6))
    left = room - sum(cost(each.path) for each in shown)
    lines: dict[str, str] = {}
    for each in (*named, *order):
        extra = cost(each.line) - cost(each.path)
        if each in shown and each.path not in lines and left >= extra:
            lines[each.path] = each.line
            left -= extra
    return [*(lines.get(each.path, each.path) for each in shown), *_counts(rest)]


def _place(path: str) -> str:
    return path.rpartition("/")[0]


def _names(order: Sequence[Entry], room: float) -> tuple[list[Entry], list[Entry]]:
    """Splits entries into those whose names fit and the others."""
    for place, each in enumerate(order):
        room -= cost(each.path) + 1
        if room < 0:
            return [*order[:place]], [*order[place:]]
    return [*order], []


def _counts(rest: Sequence[Entry]) -> list[str]:
    folders = Counter(
        f"{each.path.partition('/')[0]}/" if "/" in each.path else "./" for each in rest
    )
    return [f"{folder}: {count} files" for folder, count in folders.most_common(8)]


def is_named(path: str, request: str) -> bool:
    """Whether a request, in small letters, names a file by its path, its name or its stem."""
    name = path.casefold().rpartition("/")[2]
    stem = name.partition(".")[0]
    return name in request or (
        len(stem) > 2 and bool(re.search(rf"(?<!\w){re.escape(stem)}(?!\w)", request))
    )


def words(text: str) -> set[str]:
    """Returns what texts are compared by: words, and pairs of Chinese letters."""
    low = text.casefold()
    found = set(_WORD.findall(low))
    for run in _HAN_RUN.findall(low):
        found |= {run[place : place + 2] for place in range(len(run) - 1)}
    return found


def cost(text: str) -> float:
    """Returns about how many tokens a text takes."""
    wide = sum(letter > "\u2fff" for letter in text)
    return wide + (len(text) - wide) / _LETTERS
