"""Rows of a data file, and batches of them: one shared start, like lengths, few empty places."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Data:
    """What `lab.training.encode` wrote."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            arrays: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in stored.files}
        self.end = int(arrays["end"])
        self.families = [str(name) for name in arrays["families"]]
        self.family = arrays["family"]
        self.part = arrays["part"]
        self.start = arrays["start"]
        self.starts = _lists(arrays, "starts")
        self.rests = _lists(arrays, "rests")
        self.answers = _lists(arrays, "answers")
        self.lengths = arrays["rests_lengths"] + arrays["answers_lengths"]

    def rows(self, part: int) -> list[int]:
        """Returns the numbers of the rows of a part (0: training, 1: validation)."""
        return [int(number) for number in np.flatnonzero(self.part == part)]

    def family_of(self, row: int) -> str:
        """Returns the name of a row's family."""
        return self.families[int(self.family[row])]


def _lists(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> list[Ids]:
    ends = np.cumsum(arrays[f"{name}_lengths"])
    return np.split(arrays[name].astype(np.int64), ends[:-1])


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows behind one start: ids filled up on the right, and where the answers are."""

    rows: tuple[int, ...]
    start: Ids
    ends: Ids
    places: Ids
    """Flat places whose next token belongs to an answer."""
    labels: Ids
    owners: Ids
    """For each label, the place of its row in `rows`."""


def aligned_width(first: int, longest: int, step: int = 16) -> int:
    """Returns a width for endings with which the whole is a multiple that kernels like."""
    return -(-(first + longest) // step) * step - first


def batch_of(data: Data, rows: Sequence[int], *, step: int = 16) -> Batch:
    """Joins rows that share a start."""
    start = data.starts[int(data.start[rows[0]])]
    width = aligned_width(len(start), int(max(data.lengths[row] for row in rows)), step)
    ends = np.zeros((len(rows), width), dtype=np.int64)
    places: list[Ids] = []
    for number, row in enumerate(rows):
        rest, answer = data.rests[row], data.answers[row]
        ends[number, : len(rest) + len(answer)] = np.concatenate([rest, answer])
        places.append(np.arange(len(answer)) + number * width + len(rest) - 1)
    return Batch(
        rows=tuple(rows),
        start=start,
        ends=ends,
        places=np.concatenate(places),
        labels=np.concatenate([data.answers[row] for row in rows]),
        owners=np.repeat(np.arange(len(rows)), [len(data.answers[row]) for row in rows]),
    )


def cut_batches(
    data: Data, rows: Sequence[int], *, tokens: int, most: int, pool: int = 16
) -> Iterator[list[int]]:
    """Yields rows of one start and like length, up to a number of tokens and of rows.

    Rows are sorted by length within pools only, so that batches differ from pass to pass.
    """
    by_start: dict[int, list[int]] = {}
    for row in rows:
        by_start.setdefault(int(data.start[row]), []).append(row)
    for number, group in by_start.items():
        room = max(tokens - len(data.starts[number]), 1)
        for first in range(0, len(group), most * pool):
            current: list[int] = []
            some = group[first : first + most * pool]
            for row in sorted(some, key=lambda each: int(data.lengths[each])):
                full = (len(current) + 1) * int(data.lengths[row]) > room
                if current and (full or len(current) >= most):
                    yield current
                    current = []
                current.append(row)
            if current:
                yield current


def one_pass(
    data: Data, weights: Mapping[str, float], *, tokens: int, most: int, rng: random.Random
) -> list[list[int]]:
    """Returns the batches of one pass: each family as often as its weight says."""
    chosen: list[int] = []
    by_family: dict[str, list[int]] = {}
    for row in data.rows(0):
        by_family.setdefault(data.family_of(row), []).append(row)
    for family, rows in by_family.items():
        weight = weights.get(family, 1.0)
        chosen += rows * int(weight)
        chosen += rng.sample(rows, int(len(rows) * (weight % 1)))
    rng.shuffle(chosen)
    batches = list(cut_batches(data, chosen, tokens=tokens, most=most))
    rng.shuffle(batches)
    return batches
