"""Facts: results as plain Markdown that a person can read, quoted and never re-told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from plansmith.plan.data import Json

_MOST_LINES: Final = 40
_LONGEST: Final = 300


def facts(text: str) -> str:
    """A result as it came out of a tool, as lines; JSON as a list, text as it is."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return _clipped(text.strip().splitlines())
    if isinstance(value, str):
        return _clipped(value.strip().splitlines())
    return _clipped(list(_lines(value, 0)))


def _lines(value: Json, depth: int) -> Iterator[str]:
    """Objects and lists as bullets: what is plain on one line, what is not below it."""
    indent = "  " * depth
    if isinstance(value, dict):
        plain = [f"{key}: {_plain(each)}" for key, each in value.items() if not _holds(each)]
        if plain:
            yield f"{indent}- {', '.join(plain)}"
        for name, each in value.items():
            if _holds(each):
                yield f"{indent}- {name}:"
                yield from _lines(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _lines(each, depth)
    else:
        yield f"{indent}- {_plain(value)}"


def _holds(value: Json) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def _plain(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _clipped(lines: list[str]) -> str:
    more = len(lines) - _MOST_LINES
    shown = lines[:_MOST_LINES]
    return "\n".join([*shown, f"… ({more} more lines)"] if more > 0 else shown)
