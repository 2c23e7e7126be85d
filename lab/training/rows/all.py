"""Makes every file of rows, checked: `python -m lab.training.rows.all --out DIR --sets FOLDER`.

It writes DIR/train and DIR/validation with plans.jsonl and answers.jsonl each, ready for
`lab.training.encode`. `--share 0.01` makes a hundredth of all rows, to try it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from lab.training.processes import in_processes
from lab.training.rows import answers, trade
from lab.training.rows.check import checked_rows
from lab.training.rows.domains import Part
from lab.training.rows.generate import generate
from lab.training.rows.public import public_rows
from lab.training.rows.row import Row
from lab.training.rows.workflows import workflow_rows

PARTS: Final[tuple[Part, ...]] = ("train", "validation")


class Order(NamedTuple):
    """What is made: rows of a name, so many of each part."""

    name: str
    train: int
    validation: int

    def rows(self, part: Part, share: float) -> int:
        """Returns how many rows of a part are wanted."""
        return max(1, round((self.train if part == "train" else self.validation) * share))


# The rows of the seventh round; it had 7,800 answers and 7,715 rows of the public sets.
_FOLDER: Final = Order("folder", 26_000, 800)
_JOINS: Final = Order("joins", 3_500, 120)
_TRADE: Final = Order("trade", 8_000, 240)
_WORKFLOWS: Final = Order("workflows", 22_000, 400)
_ANSWERS: Final = Order("answers", 13_000, 300)
_MADE: Final = 2_500
Job = tuple[str, Part]


class RowFiles:
    """Makes rows of all names; a seed gives the same rows each time."""

    def __init__(self, sets: Path, seed: int, share: float) -> None:
        self._sets, self._seed, self._share = sets, seed, share

    def lines(self, job: Job) -> list[str]:
        """Returns the rows of a name and part, one JSON object each."""
        name, part = job
        made = self._makers[name](part)
        return [row.line() if isinstance(row, Row) else _line(row) for row in made]

    @property
    def _makers(self) -> Mapping[str, Callable[[Part], Iterable[Row | Mapping[str, Any]]]]:
        seed, share = self._seed, self._share
        return {
            "folder": lambda part: generate(seed, part, _FOLDER.rows(part, share)),
            "joins": lambda part: generate(seed + 1, part, _JOINS.rows(part, share), ("joins",)),
            "trade": lambda part: trade.rows(seed, _TRADE.rows(part, share), part),
            "workflows": lambda part: workflow_rows(seed, part, _WORKFLOWS.rows(part, share)),
            "tools": lambda part: _some(public_rows(self._sets, seed, part, self._made), share),
            "answers": lambda part: answers.rows(seed, _ANSWERS.rows(part, share), part=part),
        }

    @property
    def _made(self) -> int | None:
        """How many rows of made-up tools come with the public ones; None for all of them."""
        return None if self._share >= 1 else max(1, round(_MADE * self._share))

    @property
    def names(self) -> list[str]:
        """The names of all kinds of rows."""
        return [*self._makers]


def _some(rows: list[Row], share: float) -> list[Row]:
    return rows if share >= 1 else rows[: max(1, round(len(rows) * share))]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)


def write_all(out: Path, files: RowFiles, jobs: int) -> Iterator[str]:
    """Writes the files of both parts; yields a line about each."""
    todo: list[Job] = [(name, part) for name in files.names for part in PARTS]
    made = dict(zip(todo, in_processes(files.lines, todo, jobs), strict=True))
    apart: list[str] = []
    for part in reversed(PARTS):
        plans = [json.loads(each) for name in files.names if name != "answers"
                 for each in made[name, part]]  # fmt: skip
        good, problems = checked_rows(plans, apart, jobs)
        apart += [str(json.loads(each)["request"]) for each in good]
        _write(out / part / "plans.jsonl", good)
        _write(out / part / "answers.jsonl", made["answers", part])
        yield f"{part}: {len(good)} plans, {len(made['answers', part])} answers"
        for problem, count in problems.most_common():
            yield f"{part}: left out, {count} rows: {problem}"


def _write(path: Path, lines: list[str]) -> None:
    Random(1).shuffle(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Reads the arguments and writes all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the number of rows")
    parser.add_argument("--jobs", type=int, default=1, help="processes that make and check")
    given = parser.parse_args()
    for line in write_all(given.out, RowFiles(given.sets, given.seed, given.share), given.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
