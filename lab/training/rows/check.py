"""Checks rows and writes the good ones: `python -m lab.training.rows.check ROWS ... --out FILE`.

Every answer has to become a plan with the product's own reader, every call has to fit the tools
that are offered, every `$n` a call before it, and no request may be in the files of `--apart`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from lab.training.processes import in_processes
from lab.training.prompts import Renderer, Row, compact
from plansmith_desk.model.calls_to_plan import plan_of_draft
from plansmith_desk.model.prompt import DraftTask

_REFERENCE: Final = re.compile(r'"\$(\w+)')
_MAX_ALIKE: Final = 3  # the same request in so many folders


class Checker:
    """Checks rows one by one; remembers what it has seen."""

    def __init__(self, apart: Iterable[str] = ()) -> None:
        self._renderer = Renderer()
        self._apart = {each.casefold() for each in apart}
        self._seen: set[str] = set()
        self._asked: Counter[str] = Counter()

    def fault(self, row: Row) -> str:
        """Returns what is wrong with a row by itself."""
        return self._renderer.problem(row) or _reference_problem(row["answer"]) or self._plan(row)

    def repeated(self, row: Row) -> str:
        """Returns which other row a row repeats too much; remembers it otherwise."""
        asked = str(row["request"]).casefold()
        whole = json.dumps([row["request"], row.get("folder"), row.get("remark"), row["tools"]])
        if asked in self._apart:
            return "its request is kept apart"
        if whole in self._seen:
            return "it came before"
        self._seen.add(whole)
        self._asked[asked] += 1
        return "its request came too often" if self._asked[asked] > _MAX_ALIKE else ""

    def _plan(self, row: Row) -> str:
        """Returns what hinders the answer to become a plan."""
        tools = self._renderer.tools(row["tools"])
        task = DraftTask(request=str(row["request"]), tools=tools, now=row.get("now") or "")
        try:
            plan = plan_of_draft(compact(row["answer"]), task)
        except (KeyError, TypeError, ValueError) as error:
            return f"it makes no plan: {type(error).__name__}"
        return "" if plan.get("steps") else "its plan has no steps"


def _reference_problem(answer: Mapping[str, Any]) -> str:
    for place, each in enumerate(answer.get("calls") or ()):
        for name in _REFERENCE.findall(compact(each["args"])):
            if not name.isdigit() or not 0 < int(name) <= place:
                return f"${name} points nowhere"
    return ""


def read_rows(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yields the rows of files."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())


def checked_rows(
    rows: Sequence[Row], apart: Iterable[str], jobs: int
) -> tuple[list[str], Counter[str]]:
    """Returns the good rows as lines, and what was wrong with how many others."""
    checker = Checker(apart)
    problems: Counter[str] = Counter()
    good: list[str] = []
    for row, fault in zip(rows, in_processes(checker.fault, rows, jobs), strict=True):
        problem = fault or checker.repeated(row)
        if problem:
            problems[problem] += 1
        else:
            good.append(json.dumps(row, ensure_ascii=False))
    return good, problems


def main() -> None:
    """Checks files of rows and writes one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--apart", type=Path, nargs="*", default=[], help="rows never to repeat")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check")
    given = parser.parse_args()
    apart = [str(row["request"]) for row in read_rows(given.apart)]
    good, problems = checked_rows([*read_rows(given.rows)], apart, given.jobs)
    Random(1).shuffle(good)
    given.out.write_text("".join(f"{line}\n" for line in good), encoding="utf-8")
    print(f"{len(good)} rows")
    for problem, count in problems.most_common():
        print(f"left out, {count} rows: {problem}")


if __name__ == "__main__":
    main()
