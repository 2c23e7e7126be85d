"""Makes a whole set of rows: no request too often, varied by tools and remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Final

from lab.training.rows.assemble import RowMaker
from lab.training.rows.builtin import in_order
from lab.training.rows.domains import Part
from lab.training.rows.row import Row
from lab.training.rows.variations import varied

_MAX_ALIKE: Final = 3  # a greeting may come in some folders, a question about one only once


def generate(seed: int, part: Part, count: int, only: Collection[str] = ()) -> list[Row]:
    """Returns so many different rows, of all families or of some."""
    rng = Random(f"{part} {seed}")
    seen: Counter[str] = Counter()
    found: dict[tuple[str, tuple[str, ...], str], Row] = {}
    for made in RowMaker(rng, part, only).rows():
        ordered = replace(made, calls=tuple(map(in_order, made.calls)))
        row = varied(ordered, rng, part)
        key = row.request.casefold(), row.folder, row.remark
        seen[row.request.casefold()] += 1
        if key not in found and seen[row.request.casefold()] <= _MAX_ALIKE:
            found[key] = row
        if len(found) >= count:
            break
    return list(found.values())
