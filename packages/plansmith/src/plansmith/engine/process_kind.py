"""What servers and workers tell about themselves in their rows of processes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class ProcessKind(NamedTuple):
    """A server or a worker: since when, how many runs it takes at once, whether it takes no more.

    Servers that execute what they create tell only their kind, and where their page is (`at`).
    """

    kind: str
    since: datetime | None = None
    runs: int = 0
    draining: bool = False
    at: str = ""

    def __str__(self) -> str:
        kind = f"{self.kind} at={self.at}" if self.at else self.kind
        if self.since is None:
            return kind
        since = self.since.astimezone(UTC).isoformat(timespec="seconds")
        draining = " draining" if self.draining else ""
        return f"{kind} since={since} runs={self.runs}{draining}"


def read_kind(text: str) -> ProcessKind:
    """Reads what a process told about itself."""
    kind, *rest = text.split() or ["program"]
    told = {name: value for name, _, value in (word.partition("=") for word in rest)}
    try:
        since, runs = datetime.fromisoformat(told["since"]), int(told["runs"])
    except (KeyError, ValueError):
        return ProcessKind(kind, at=told.get("at", ""))
    return ProcessKind(kind, since, runs, "draining" in told, told.get("at", ""))
