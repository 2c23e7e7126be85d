"""The outside world of the compared programs: what they call, with a log of every call.

A program can be made to die by SIGKILL inside a call, once: `COMPARE_KILL` is the name of the call
and `before` or `after`, which is before or after the call has taken effect.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SOURCES: Final = ("alpha", "beta", "gamma")
ITEMS: Final = ("bolt", "nut", "pin", "rod", "cap")
POLLS: Final = 5
PAUSE_S: Final = 0.2
# Before it dies, a program gets this time to store what other calls have returned.
SETTLE_S: Final = float(os.environ.get("COMPARE_SETTLE", "5"))


class Unavailable(Exception):
    """A call failed, and has changed nothing."""


def log_path() -> Path:
    """Where calls are logged, a line each: `begin`, `effect` or `ask`, and the name of the call."""
    return Path(os.environ["COMPARE_LOG"])


def read(source: str) -> str:
    """Reads a source."""
    _call(f"read {source}")
    return f"what {source} says"


def write(text: str) -> str:
    """Writes the report."""
    return _call("write", text)


def notify(question: str, kind: str = "approval") -> None:
    """Tells a person that something waits for them."""
    _log(f"ask {kind}", question)


def poll() -> bool:
    """Says whether the supplier is ready: at the third look, or never."""
    number = sum(line.startswith("begin poll") for line in _lines()) + 1
    _call(f"poll {number}")
    return number >= int(os.environ.get("COMPARE_READY", "3"))


def stock() -> int:
    """Says how many there are."""
    _call("stock")
    return int(os.environ.get("COMPARE_STOCK", "4"))


def order(count: int) -> str:
    """Orders so many."""
    return _call("order", str(count))


def reserve(item: str) -> str:
    """Reserves an item; there is no pin."""
    if item == "pin":
        raise Unavailable("there is no pin")
    return _call(f"reserve {item}", item)


def confirm(reservations: Sequence[str]) -> str:
    """Confirms reservations: it refuses."""
    _log("begin confirm", " ".join(reservations))
    _die_at("confirm before")
    raise Unavailable("the supplier refuses")


def release(reservation: str) -> str:
    """Takes a reservation back."""
    return _call(f"release {reservation}", reservation)


def _call(name: str, value: str = "") -> str:
    _log(f"begin {name}")
    _die_at(f"{name} before")
    _log(f"effect {name}", value)
    _die_at(f"{name} after")
    return value


def _die_at(point: str) -> None:
    if os.environ.get("COMPARE_KILL") != point:
        return
    mark = log_path().with_suffix(".killed")
    if not mark.exists():
        mark.touch()
        time.sleep(SETTLE_S)
        os.kill(os.getpid(), signal.SIGKILL)


def _log(what: str, value: str = "") -> None:
    with log_path().open("a", encoding="utf-8") as log:
        log.write(f"{what}\t{value}\n")


def _lines() -> list[str]:
    path = log_path()
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
