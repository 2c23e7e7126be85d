"""Writes training rows: `python -m lab.training.rows --out FILE [--seed 1] [--count N]`."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from lab.training.rows.assemble import FAMILIES
from lab.training.rows.generate import generate


def main() -> None:
    """Reads the arguments and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int)
    parser.add_argument("--part", choices=("train", "validation"), default="train")
    parser.add_argument("--only", nargs="*", choices=sorted(FAMILIES), default=[])
    given = parser.parse_args()
    count = given.count or (12_000 if given.part == "train" else 600)
    rows = generate(given.seed, given.part, count, given.only)
    given.out.write_text("".join(f"{row.line()}\n" for row in rows), encoding="utf-8")
    kinds = Counter(row.kind for row in rows)
    print(f"{len(rows)} rows: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))


if __name__ == "__main__":
    main()
