"""The port of a queue that carries runs to workers, and of a worker that takes from it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol


class QueueLimits(NamedTuple):
    """The most runs that one worker, and all together, execute; how many start in some seconds.

    Each worker looks every `poll_s` seconds: the more there are, the less often each has to.
    """

    per_worker: int = 10
    total: int | None = None
    starts: int | None = None
    seconds: float = 60.0
    poll_s: float = 0.2


class Taken(NamedTuple):
    """An entry of the queue that a worker has taken, and the process that is this worker."""

    entry: str
    worker: str


class RunTaker(Protocol):
    """Takes runs from the queue and has each of them executed in this process."""

    async def start(self) -> None:
        """Begins to take runs."""
        ...

    async def stop(self, seconds: float) -> None:
        """Takes no more runs from now on; waits for those taken, for so many seconds at most."""
        ...


class RunQueue(Protocol):
    """The queue on which the runs of one store and folder wait for a worker."""

    @property
    def name(self) -> str:
        """The name of the queue, which tells the store and the folder."""
        ...

    def taker(self, *, name: str, advance: Callable[[str], Coroutine[Any, Any, None]]) -> RunTaker:
        """Returns what takes runs for the process of a name; `advance` goes on with one of them."""
        ...

    async def open(self, limits: QueueLimits | None = None) -> None:
        """Makes the queue if it is missing; changes its limits to those given."""
        ...

    async def add(self, run: str) -> bool:
        """Puts a run on the queue, unless it waits there already.

        False if a worker has it: it may have looked at the run before the reason for this call.
        """
        ...

    async def waiting(self) -> Sequence[str]:
        """Returns the runs that wait for a worker."""
        ...

    async def taken(self) -> Sequence[Taken]:
        """Returns what workers have taken and not ended."""
        ...

    async def hand_on(self, taken: Sequence[Taken]) -> None:
        """Puts what dead workers had taken back on the queue."""
        ...

    async def tidy(self) -> None:
        """Removes what ended long ago."""
        ...

    async def close(self) -> None:
        """Closes the queue."""
        ...
