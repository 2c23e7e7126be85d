"""What servers and workers tell about themselves in their rows of processes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class ProcessKind(NamedTuple):
    """A server or a worker: since when, how many runs it takes at once, whether it takes no more.

    Earlier releases, and servers that execute what they create, tell only their kind.
    """

    kind: str
    since: datetime | None = None
    runs: int = 0
    draining: bool = False

    def __str__(self) -> str:
        if self.since is None:
            return self.kind
        since = self.since.astimezone(UTC).isoformat(timespec="seconds")
        draining = " draining" if self.draining else ""
        return f"{self.kind} since={since} runs={self.runs}{draining}"


def read_kind(text: str) -> ProcessKind:
    """Reads what a process told about itself."""
    kind, *rest = text.split() or ["program"]
    told = {name: value for name, _, value in (word.partition("=") for word in rest)}
    try:
        since, runs = datetime.fromisoformat(told["since"]), int(told["runs"])
    except (KeyError, ValueError):
        return ProcessKind(kind)
    return ProcessKind(kind, since, runs, "draining" in told)
