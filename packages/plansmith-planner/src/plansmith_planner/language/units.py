"""Units of measure: what the calculator calls those of Chinese speakers."""

from __future__ import annotations

import re
from typing import Final

from plansmith_planner.language import lines

CHINESE_UNITS: Final = {
    name: unit for unit, *names in map(str.split, lines("units.txt")) for name in names
}
_DEGREES: Final = re.compile(r"(?:degrees? |° ?)?(c(?:elsius)?|f(?:ahrenheit)?)", re.IGNORECASE)


def unit_name(said: str) -> str:
    """Returns a unit as the calculator writes it; what is not known stays as it was said."""
    name = CHINESE_UNITS.get(said.strip(), said.strip())
    if degrees := _DEGREES.fullmatch(name):
        return f"°{degrees[1][0].upper()}"
    return name.upper() if name in ("kb", "mb", "gb", "tb") else name
