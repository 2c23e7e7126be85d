"""What a store does so that only one process executes a run: claims, terms, and leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from plansmith.plan.data import Content, Json
    from plansmith.plan.events import Event
    from plansmith.plan.summary import RunSummary


class Claim(NamedTuple):
    """Which process executes a run, and under which term: every claim in a store gets a higher one.

    Without an owner the run was left in the middle, and anyone may go on with it.
    """

    owner: str
    term: int


@runtime_checkable
class OwnerStore(Protocol):
    """A store that knows which process executes a run; this is not in the journal."""

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
        term: int = 0,
    ) -> None:
        """Stores events and values as every store does; whoever executes the run gives its `term`.

        If the run is no longer claimed under it, stores nothing and raises `RunTakenOver`.
        """
        ...

    async def claim(self, run: str, owner: str, *, instead_of: int = 0, beats: int = -1) -> Claim:
        """Claims a run that nobody owns, or that is claimed under the term `instead_of`.

        With `beats`, only if the present owner has not renewed its lease since that number. Returns
        the claim that holds now.
        """
        ...

    async def release(self, run: str, term: int, *, unfinished: bool = False) -> None:
        """Ends the claim with a term, if it still holds; an `unfinished` run keeps its row."""
        ...

    async def claim_of(self, run: str) -> Claim | None:
        """Returns the claim of a run, if there is one."""
        ...

    async def claims(self, *, owner: str = "") -> Sequence[tuple[str, Claim]]:
        """Returns every claimed run with its claim, or those of one owner."""
        ...


class Beat(NamedTuple):
    """A process that renews its lease: how often it did, and how many seconds ago at last."""

    process: str
    kind: str
    version: str
    lease_s: float
    beats: int = 0
    silent_s: float = 0.0


@runtime_checkable
class ProcessStore(Protocol):
    """A store that several machines share, and that knows which of their processes live."""

    async def beat(self, beat: Beat) -> None:
        """Renews the lease of a process, and counts that."""
        ...

    async def beats(self) -> Sequence[Beat]:
        """Returns all processes; times are those of the store, not of this machine."""
        ...
