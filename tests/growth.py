"""Tells how the time of some work grows, without a bar in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

TIMES: Final = 4
_TRIES: Final = 3


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether four times the size takes about four times as long, and not sixteen times."""
    small, large = (
        min(_seconds(work, each) for _ in range(_TRIES)) for each in (size, size * TIMES)
    )
    return large < small * TIMES * 2


def _seconds(work: Callable[[int], object], size: int) -> float:
    start = time.process_time()
    work(size)
    return time.process_time() - start
