"""Makes a whole set of rows: no request twice in one folder, varied by tools and remarks."""

from __future__ import annotations

from random import Random

from training.rows.assemble import RowMaker
from training.rows.domains import Part
from training.rows.row import Row


def generate(seed: int, part: Part, count: int) -> list[Row]:
    """Returns so many different rows."""
    rng = Random(f"{part} {seed}")
    found: dict[str, Row] = {}
    for row in RowMaker(rng, part).rows():
        found.setdefault(row.request.casefold(), row)
        if len(found) >= count:
            break
    return list(found.values())
