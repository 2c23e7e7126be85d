"""Measures what the product's judging of drafts gives: exact calls with and without each part.

`python -m lab.training.ablation ROWS.jsonl ... --wrong WRONG.jsonl`, the file of
`lab.training.score`. Tools of other makers count as tools outside, whose values are grounded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from lab.training.prompts import Renderer, Row, compact
from lab.training.rows.check import read_rows
from lab.training.score import plain
from plansmith_desk.model.grounding import grounded, without_later
from plansmith_desk.model.prompt import DraftTask

_VARIANTS: Final = ("", "grounding")


class Draft(NamedTuple):
    """What a model wrote for a row, and what it should have written."""

    family: str
    task: DraftTask
    wanted: Mapping[str, Any]
    given: Mapping[str, Any]


class Count(NamedTuple):
    """How many drafts of a family are exact under one variant."""

    rows: int
    exact: int
    changed: int
    """Drafts whose calls the parts changed."""


def drafts(rows: Iterable[Row], wrong: Iterable[Row], renderer: Renderer) -> list[Draft]:
    """Returns what was written: the wrong drafts as they are, for other rows their answer."""
    written = {_key(row): str(row["written"]) for row in wrong if row["family"] != "answer"}
    found: list[Draft] = []
    for row in rows:
        text = written.get(_key(row), compact(row["answer"]))
        try:
            given: Any = json.loads(text)
        except ValueError:
            given = {}
        task = renderer.task(row)
        if row["family"] == "tools":
            task = replace(task, tools=tuple(replace(t, is_safe=False) for t in task.tools))
        found.append(Draft(str(row["family"]), task, row["answer"], given))
    return found


def _key(row: Row) -> str:
    return compact([row["request"], row.get("folder"), row.get("remark"), row["tools"]])


def count(some: Sequence[Draft], without: str) -> Count:
    """Counts exact drafts, also when grounding is left out."""
    exact = changed = 0
    for draft in some:
        calls, wanted = draft.given.get("calls"), draft.wanted.get("calls")
        offered = {tool.name: tool for tool in draft.task.tools}
        if not calls or not wanted or any(each.get("tool") not in offered for each in calls):
            exact += bool(draft.given.get("reply")) and not wanted
            continue
        made = without_later(calls, offered)
        if not without:
            made = grounded(calls, offered, draft.task.request_text, draft.task.context)
        changed += made != calls
        # A table may be called by its path or by its name.
        exact += plain(made) in (plain(wanted), plain(without_later(wanted, offered)))
    return Count(len(some), exact, changed)


def main() -> None:
    """Prints a table: a line for each family and variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--wrong", type=Path, required=True)
    given = parser.parse_args()
    every = drafts(read_rows(given.rows), read_rows([given.wrong]), Renderer())
    print("| Rows | without | rows | exact | changed |\n|---|---|--:|--:|--:|")
    for family in dict.fromkeys(draft.family for draft in every):
        for without in _VARIANTS:
            found = count([draft for draft in every if draft.family == family], without)
            cells = (family, without, *map(str, found))
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
