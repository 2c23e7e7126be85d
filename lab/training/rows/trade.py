"""Rows about things that are counted in a column: sold, ordered, made, borrowed; in several tables.

How many were sold is the sum of a column, not the number of rows; revenue is a product of two
columns; the best of things that occur in many rows are found by a group.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

from lab.training.rows.builtin import in_order
from lab.training.rows.domains import Part
from lab.training.rows.folder_lines import folder_lines
from lab.training.rows.row import Call
from lab.training.rows.trade_sums import best, how_many, how_many_deals, worth
from lab.training.rows.trade_tables import (
    by_group,
    in_papers,
    in_stock,
    not_back,
    plain_group,
    returned,
    saved,
)
from lab.training.rows.trade_time import best_span, by_span, drawn
from lab.training.rows.trade_world import (
    Asked,
    World,
    day_of,
    sql_name,
    world,
)
from plansmith_desk.folder_brief import Entry

_ASKERS: Final[tuple[Callable[[World], Asked], ...]] = (
    how_many,
    how_many,
    how_many,
    how_many_deals,
    best,
    best,
    best,
    worth,
    worth,
    worth,
    by_group,
    by_group,
    returned,
    returned,
    in_stock,
    plain_group,
    plain_group,
    saved,
    in_papers,
    in_papers,
    in_papers,
    not_back,
    by_span,
    by_span,
    by_span,
    best_span,
    drawn,
    drawn,
)
_TABLE: Final = re.compile(r"(.+?(?:\.(?:csv|json|tsv)|\.(?:db|sqlite)/[^/]+?)): (.+)")
_COLUMN: Final = re.compile(r"(?:^|, )([^()]+?) \([^()]*\)")
_POLITE: Final = (
    "{}",
    "{}",
    "{}",
    "{}",
    "Please: {}",
    "{} Thanks!",
    "hi, {}",
    "Quick question: {}",
)
_POLITE_ZH: Final = ("{}", "{}", "{}", "{}", "请问{}", "麻烦{}", "{}谢谢", "帮我看看，{}")


def rows(seed: int, count: int, part: Part = "train") -> Iterator[dict[str, Any]]:
    """Yields different rows whose queries run on the tables of their folders."""
    rng = Random(f"trade-{seed}" if part == "train" else f"trade-{part}-{seed}")
    seen: set[str] = set()
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    while len(seen) < count:
        made = world(rng, part)
        asked = rng.choice(_ASKERS)(made)
        request = rng.choice(_POLITE_ZH if made.zh else _POLITE).format(asked.request)
        entries = [Entry(*line.split(": ", 1)) for line in dict.fromkeys(made.lines)]
        lines, near = folder_lines(entries, request)
        key = f"{request} {made.deals} {made.things}"
        if key in seen or not _runs(asked.calls, (*lines, *near)):
            continue
        seen.add(key)
        yield {
            "family": "folder",
            "request": request,
            "folder": list(lines),
            **({"near": list(near)} if near else {}),
            "now": f"{rng.choice(days)} {day_of(rng)} {rng.randrange(7, 20):02}:{rng.randrange(60):02}",
            "tools": "builtin",
            "answer": {"calls": [in_order(each) for each in asked.calls]},
            "kind": asked.kind,
            "lang": "zh" if made.zh else "en",
        }


def _runs(calls: Sequence[Call], lines: Sequence[str]) -> bool:
    """Whether the queries run on the tables that the lines tell, and other tables are told."""
    told = {found[1]: found[2] for line in lines if (found := _TABLE.fullmatch(line))}
    if len({sql_name(path) for path in told}) < len(told):
        return False
    with closing(sqlite3.connect(":memory:")) as database:
        for path, columns in told.items():
            names = ", ".join(f'"{each}"' for each in _COLUMN.findall(columns))
            source = sql_name(path).strip('"')
            database.execute(f'CREATE TABLE "{source}" ({names})')
        for each in calls:
            if each["tool"] == "tables.group" and each["args"]["table"] not in told:
                return False
            try:
                database.execute(each["args"].get("query", "SELECT 1"))
            except sqlite3.OperationalError:
                return False
    return True


def main() -> None:
    """Writes rows to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--part", choices=("train", "validation"), default="train")
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as file:
        for row in rows(args.seed, args.count, args.part):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
