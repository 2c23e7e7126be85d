"""Names that exist, and which of them somebody meant who wrote one that does not."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection
from functools import cached_property
from typing import Final

from plansmith.plan.sentence import Sentence, joined

_COMPARED: Final = 40
_LIKE: Final = 0.6
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def fold(name: str) -> str:
    """The name without case and separators."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def words(name: str) -> list[str]:
    """The words of a name in any of the usual spellings, in small letters."""
    return [word.lower() for word in _WORD.findall(name)]


class Names:
    """Known names. What costs time is done at the first unknown one, once."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known

    def __contains__(self, name: object) -> bool:
        return name in self.known

    def hint(self, name: str) -> str:
        """The known names most like this one, as advice."""
        if not self.known:
            return Sentence("hint.none_known")
        near = self.near(name)
        if near:
            names = joined([Sentence("ps.quoted", text=each) for each in near], "text.or")
            return Sentence("hint.mean", names=names)
        some = sorted(self.known)[:8]
        if len(self.known) <= 8:
            return Sentence("hint.known", names=some)
        return Sentence("hint.known_more", names=some, more=len(self.known) - 8)

    def near(self, name: str) -> list[str]:
        """Up to three names like this one, the likest first; one that differs by case alone."""
        folded = fold(name)
        if folded in self._folded:
            return self._folded[folded][:1]
        matcher = difflib.SequenceMatcher(b=folded)
        scored: list[tuple[float, str]] = []
        for each in self._similar(folded):
            matcher.set_seq1(each)
            ratio = matcher.ratio()
            if ratio >= _LIKE:
                scored.append((-ratio, each))
        return [self._folded[each][0] for _, each in sorted(scored)[:3]]

    def obvious(self, name: str) -> str | None:
        """The one name that this can only be: another spelling of it, or a slip of the pen."""
        folded = fold(name)
        same = self._folded.get(folded, [])
        if same or not folded:
            return same[0] if len(same) == 1 else None
        slips = [
            each
            for similar in self._similar(folded)
            for each in self._folded[similar]
            if is_slip(name, each)
        ]
        return slips[0] if len(slips) == 1 else None

    @cached_property
    def _folded(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}
        for name in self.known:
            table.setdefault(fold(name), []).append(name)
        return table

    @cached_property
    def _holders(self) -> dict[str, list[str]]:
        """Which names hold a pair of letters."""
        table: dict[str, list[str]] = {}
        for name in self._folded:
            for pair in _pairs(name):
                table.setdefault(pair, []).append(name)
        return table

    def _similar(self, folded: str) -> list[str]:
        """The few names that share most pairs of letters: worth a closer look."""
        pairs = _pairs(folded)
        shared: Counter[str] = Counter()
        for pair in pairs:
            shared.update(self._holders.get(pair, ()))
        scored = [(-2 * count / (len(pairs) + len(each)), each) for each, count in shared.items()]
        return [each for _, each in sorted(scored)[:_COMPARED]]


def _pairs(folded: str) -> set[str]:
    padded = f" {folded} "
    return {padded[place : place + 2] for place in range(len(padded) - 1)}


def is_slip(wrong: str, right: str) -> bool:
    """Whether a name is another one mistyped, and not a different name that looks like it.

    Numbers must agree, short words too; `unlock` is no slip for `lock`.
    """
    ours, theirs = words(wrong), words(right)
    if re.findall(r"\d+", wrong) != re.findall(r"\d+", right):
        return False
    if len(ours) != len(theirs):
        ours, theirs = [fold(wrong)], [fold(right)]
    differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    return len(differing) <= 2 and all(_is_word_slip(*pair) for pair in differing)


def _is_word_slip(wrong: str, right: str) -> bool:
    short, same_start = min(len(wrong), len(right)), wrong[:1] == right[:1]
    if short < 3 or (short < 5 and not same_start):
        return False
    allowed = 2 if short >= 8 and same_start else 1
    return edits(wrong, right, allowed) <= allowed


def edits(left: str, right: str, most: int) -> int:
    """How many letters were added, left out, replaced or swapped; `most + 1` if more."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for place, letter in enumerate(left, 1):
        above, before, row = before, row, [place]
        for at, other in enumerate(right, 1):
            cost = min(row[-1] + 1, before[at] + 1, before[at - 1] + (letter != other))
            swapped = place > 1 < at and letter == right[at - 2] and left[place - 2] == other
            row.append(min(cost, above[at - 2] + 1) if swapped else cost)
    return min(row[-1], most + 1)
