"""What a store does to keep threads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from plansmith.plan.thread import ThreadEntry


class ThreadHeadline(NamedTuple):
    """A thread in a list; `last` is the number of its last entry."""

    thread: str
    owner: str
    title: str
    folder: str
    messages: int
    last: int
    updated: datetime


@runtime_checkable
class ThreadStore(Protocol):
    """A store that keeps threads; if two write the same number, one wins."""

    async def append_entries(self, entries: Sequence[ThreadEntry]) -> bool:
        """Stores entries that follow the last one of their thread, all or none.

        False if another one came first.
        """
        ...

    async def thread_entries(self, thread: str, *, after: int = 0) -> Sequence[ThreadEntry]:
        """Returns the entries of a thread after a number; none for an unknown thread."""
        ...

    async def threads(
        self, *, owner: str | None = None, before: str = "", limit: int
    ) -> Sequence[ThreadHeadline]:
        """Returns threads, newest activity first; `before` is the last one of the page before."""
        ...

    async def thread_of(self, run: str) -> str:
        """Returns the thread that a run belongs to; empty if it belongs to none."""
        ...

    async def remove_thread(self, thread: str) -> bool:
        """Removes all entries of a thread; false if there is none."""
        ...

    async def wait_thread(self, thread: str, *, after: int) -> None:
        """Returns when the thread has an entry after the number, whoever wrote it."""
        ...
