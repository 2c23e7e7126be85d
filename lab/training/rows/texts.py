"""Reads lists of texts from the data files: `[name language]`, then one text a line."""

from __future__ import annotations

from functools import cache

from lab.training.rows.domains import DATA


@cache
def texts(file: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Returns the lists of a file by name and language."""
    found: dict[tuple[str, str], list[str]] = {}
    here: list[str] = []
    for line in (DATA / f"{file}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name, _, lang = line.strip("[] ").partition(" ")
            here = found.setdefault((name, lang), [])
        elif line.strip() and not line.startswith("#"):
            here.append(line.strip())
    return {key: tuple(values) for key, values in found.items()}
