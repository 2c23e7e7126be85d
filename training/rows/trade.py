"""Rows about things that are counted in a column: sold, ordered, made, borrowed; in several tables.

How many were sold is the sum of a column, not the number of rows; revenue is a product of two
columns; the best of things that occur in many rows are found by a group.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from plansmith.adapters.tools.folder_brief.details import Entry
from training.rows.folder_lines import folder_lines
from training.rows.trade_sums import best, how_many, how_many_deals, worth
from training.rows.trade_tables import (
    by_group,
    in_papers,
    in_stock,
    not_back,
    plain_group,
    returned,
    saved,
)
from training.rows.trade_world import (
    Asked,
    World,
    day_of,
    world,
)

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
)
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


def rows(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yields different rows."""
    rng = Random(f"trade-{seed}")
    seen: set[str] = set()
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    while len(seen) < count:
        made = world(rng)
        asked = rng.choice(_ASKERS)(made)
        request = rng.choice(_POLITE_ZH if made.zh else _POLITE).format(asked.request)
        entries = [Entry(*line.split(": ", 1)) for line in dict.fromkeys(made.lines)]
        lines, near = folder_lines(entries, request)
        key = f"{request} {made.deals} {made.things}"
        if key in seen:
            continue
        seen.add(key)
        yield {
            "family": "folder",
            "request": request,
            "folder": list(lines),
            **({"near": list(near)} if near else {}),
            "now": f"{rng.choice(days)} {day_of(rng)} {rng.randrange(7, 20):02}:{rng.randrange(60):02}",
            "tools": "builtin",
            "answer": {"calls": asked.calls},
            "kind": asked.kind,
            "lang": "zh" if made.zh else "en",
            "part": "train",
        }


def main() -> None:
    """Writes rows to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000)
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as file:
        for row in rows(args.seed, args.count):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
