"""Which runs are old enough to go, and which values nobody mentions any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from plansmith.adapters.stores.rows import KEY_BYTES, RunHead, day_of, hashes_in


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much retention took away."""

    runs: int = 0
    values: int = 0
    fires: int = 0


def expired(heads: Iterable[RunHead], before: datetime) -> list[RunHead]:
    """The runs that finished before a moment."""
    return [head for head in heads if head.over and head.at < before]


def last_day(before: datetime, now: datetime) -> int:
    """Values put before this day may go; one put a moment ago may not have its event yet."""
    return min(day_of(before), day_of(now) - 1)


def keys_in(rows: Iterable[tuple[str, int, bytes]]) -> set[bytes]:
    """The keys of all values that events mention."""
    return {found[:KEY_BYTES] for found in hashes_in(rows)}
