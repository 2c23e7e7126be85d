"""Sortable unique ids of runs (UUID version 7), and names with a meaning: of parts, questions."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Final, Literal

# Roles and documents are kept beside runs: their names begin so, those of runs do not.
NOT_A_RUN: Final = "\n"
_RANDOM_BITS: Final = 74


def uuid7(milliseconds: int, randomness: int) -> str:
    """Makes a UUID from a Unix time in milliseconds and 74 random bits."""
    high = (milliseconds & (1 << 48) - 1) << 80
    upper, lower = randomness >> 62 & 0xFFF, randomness & (1 << 62) - 1
    text = f"{high | 7 << 76 | upper << 64 | 2 << 62 | lower:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Ids:
    """Makes ids, each greater than the last; safe to share between threads."""

    def __init__(
        self,
        *,
        milliseconds: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        randomness: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._milliseconds = milliseconds
        self._randomness = randomness
        self._lock = threading.Lock()
        self._last = (0, 0)

    def __call__(self) -> str:
        """Returns the next id; counts up within a millisecond or when the clock goes back."""
        with self._lock:
            now, (last, bits) = self._milliseconds(), self._last
            if now > last:
                self._last = now, self._randomness(_RANDOM_BITS - 1)
            elif bits + 1 < 1 << _RANDOM_BITS:
                self._last = last, bits + 1
            else:
                self._last = last + 1, self._randomness(_RANDOM_BITS - 1)
            return uuid7(*self._last)


def is_part(name: str) -> bool:
    """Tells whether a name is of a part: `map/3`, `plan/step`, `repeated/2`."""
    return "/" in name


def call_key(run: str, step: str, mark: str) -> str:
    """Returns the key that goes to a service with a call: the same for the same step and inputs."""
    return f"{run}/{step}/{mark}"


def root_of(name: str) -> str:
    """Returns the step of the plan that a step or part is or belongs to."""
    return name.partition("/")[0]


def parent_of(name: str) -> str:
    """Returns the step or part around a part; empty for a step of the plan."""
    return name.rpartition("/")[0]


def question_name(kind: Literal["call", "consent", "unknown"], unit: str, number: int = 0) -> str:
    """Returns the name of a question about a call: `x?2`, `data:x?3` or `unknown:x`."""
    name = f"{unit}?{number}" if number else unit
    return name if kind == "call" else f"{'data' if kind == 'consent' else kind}:{name}"


def document_name(kind: str, name: str) -> str:
    """Returns the name of a document among those of runs."""
    return f"{NOT_A_RUN}{kind} {name}"
