"""What two texts, or two folders of files, have that the other has not."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_PAIRED: Final = 40  # lines of either side; each is compared with each
_ALIKE: Final = 0.6


class Difference(NamedTuple):
    """What the second has more, what it has no longer, and what is changed in it."""

    added: list[str]
    removed: list[str]
    changed: list[tuple[str, str]]


def compare_lines(first: str, second: str) -> Difference:
    """Compares two texts line by line, wherever in the text a line stands."""
    before, after = _lines(first), _lines(second)
    removed, added = _more(before, after), _more(after, before)
    changed = _pairs(removed, added)
    for old, new in changed:
        removed.remove(old)
        added.remove(new)
    return Difference(added, removed, changed)


def compare_files(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> Difference:
    """Compares two folders, given as names with the digests of their contents."""
    both = [name for name in first if name in second]
    return Difference(
        [name for name in second if name not in first],
        [name for name in first if name not in second],
        [(name, name) for name in both if first[name] != second[name]],
    )


def told(found: Difference, names: tuple[str, str], *, unit: str, moved: bool = False) -> str:
    """Says in one sentence what differs."""
    first, second = names
    if not any(found):
        order = ", in another order" if moved else ""
        return f"{first} and {second} have the same {unit}s{order}."
    parts = [
        f"{_count(len(found.added), unit)} only in {second}" if found.added else "",
        f"{_count(len(found.removed), unit)} only in {first}" if found.removed else "",
        f"{_count(len(found.changed), unit)} changed" if found.changed else "",
    ]
    return f"{', '.join(part for part in parts if part)}."


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _more(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns the lines that stand oftener in one text than in the other, in order."""
    left = Counter(lines) - Counter(others)
    found: list[str] = []
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
            found.append(line)
    return found


def _pairs(removed: Sequence[str], added: Sequence[str]) -> list[tuple[str, str]]:
    """Returns lines that are the same line with a change in it; none where there are many."""
    if len(removed) > _PAIRED or len(added) > _PAIRED:
        return []
    open_lines = [line for line in added if len(line) <= 1_000]
    found: list[tuple[str, str]] = []
    for old in removed:
        near = difflib.get_close_matches(old[:1_000], open_lines, n=1, cutoff=_ALIKE)
        if near:
            open_lines.remove(near[0])
            found.append((old, near[0]))
    return found
