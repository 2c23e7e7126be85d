"""Everything about words of English and Chinese: verbs, numbers, dates, units, yes and no."""

from __future__ import annotations

from pathlib import Path


def lines(name: str) -> list[str]:
    """Returns the lines of a list that lies in this folder."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]
