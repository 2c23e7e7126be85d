"""The ports of stores; `plansmith.ports` has them too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from plansmith.errors import JournalDamaged
from plansmith.lazy import lazy_modules

if TYPE_CHECKING:
    from plansmith.plan import sentence
    from plansmith.plan.data import Content, Json
    from plansmith.plan.events import Event
    from plansmith.plan.summary import DayTotal, Headline, PlanningFacts, RunSummary
else:
    lazy_modules(globals(), sentence="plansmith.plan.sentence")


class News(NamedTuple):
    """An event of a run, and its position among the events of all runs."""

    position: int
    run: str
    number: int


class JournalStore(Protocol):
    """The least that a store must do: keep journals and results, for one process.

    Args of methods:
        run: The id of the run.
        after: The number of the last event that is known.
    """

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
    ) -> None:
        """Stores values, and events that follow the last one of their run: all or none.

        Args:
            events: The next events of one run.
            values: Inputs and results that they mention by hash.
            status: The status of the run after them; empty if the writer does not know it.
            summary: What lists show about the run after them.

        Raises:
            StaleWriter: The events do not follow the last one.
        """
        ...

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """Returns the events of a run after a number; none for an unknown run."""
        ...

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Waits until the run has an event after the number, whoever wrote it."""
        ...

    async def get(self, digest: str) -> Json:
        """Returns a stored value.

        Args:
            digest: The content hash of the value.

        Raises:
            JournalDamaged: There is no such value.
        """
        ...

    async def runs(self) -> Sequence[str]:
        """Returns the ids of all runs, oldest first."""
        ...

    async def open_runs(self) -> Sequence[str]:
        """Returns the ids of the runs that have not ended, oldest first."""
        ...

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """Returns the events of all runs after a position, in the order they became durable.

        Args:
            after: The position of the last event that is known.
            limit: How many at most.
        """
        ...

    async def wait_news(self, after: int) -> int:
        """Waits for an event after a position, whoever writes it; returns the newest position.

        Args:
            after: The position of the last event that is known.
        """
        ...

    async def put(self, value: Json) -> str:
        """Stores a value once, and returns its content hash.

        Args:
            value: The value.
        """
        ...

    async def close(self) -> None:
        """Closes the store; may be called twice."""
        ...


class Claim(NamedTuple):
    """Which process executes a run, and its term, which is higher than that of any claim before.

    Without an owner the run was left in the middle, and any process may go on with it. `last` is
    the number of the run's last event, if `claim` of the store returned it; else 0.
    """

    owner: str
    term: int
    last: int = 0


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What a process says about itself.

    Attributes:
        kind: `program`, `server` or `worker`.
        since: Since when a worker, or a server that leaves execution to workers, takes runs.
        runs: How many runs it takes at once.
        draining: Whether it takes no more.
        at: Where the page of a server is.
    """

    kind: str = "program"
    since: datetime | None = None
    runs: int = 0
    draining: bool = False
    at: str = ""


class Heartbeat(NamedTuple):
    """A process that renews its lease: how often it has, and how many seconds ago it last did."""

    process: str
    about: ProcessInfo
    version: str
    lease_s: float
    renewals: int = 0
    silent_s: float = 0.0


class IntactPart(NamedTuple):
    """The trustworthy part of a journal: its events up to the first damage, and the damage.

    `last` is the number of the last event that was written, even if it cannot be read.
    """

    events: Sequence[Event]
    last: int
    damage: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of a store.

    Attributes:
        level: How bad it is.
        subject: What was checked.
        message: What was found.
        hint: What can be done about it.
    """

    level: Literal["ok", "note", "warning", "error"]
    subject: str
    message: str
    hint: str = ""


class Document(NamedTuple):
    """A named JSON document; its version grows by one with every change.

    Attributes:
        kind: What it is, such as `template`.
        name: Its name, unique in its kind.
        version: 1 for the first.
        body: The document as JSON text.
        label: What it belongs to; lists choose by it.
        place: What lists sort by.
        state: What else lists choose by.
        run: The run together with which it is deleted.
        altered: Whether the stored text is not the one that was put.
    """

    kind: str
    name: str
    version: int
    body: str
    label: str = ""
    place: str = ""
    state: str = ""
    run: str = ""
    altered: bool = False

    @property
    def checked_body(self) -> str:
        """The body; `JournalDamaged` if it was altered."""
        if self.altered:
            altered = sentence.Sentence(
                "the value stored under {digest} was altered", digest=f"{self.kind} {self.name}"
            )
            raise JournalDamaged(
                altered,
                hint=sentence.Sentence(
                    "`plansmith store doctor` says what is damaged, and what can be done about it"
                ),
            )
        return self.body


@runtime_checkable
class Store(JournalStore, Protocol):
    """What our stores do besides: lists, documents, repairs, deletion, and claims of runs.

    Args of methods:
        run: The id of the run.
        events: The next events of one run.
        values: Inputs and results that they mention by hash.
        status: The status of the run after them; empty if the writer does not know it.
        summary: What lists show about the run after them.
        term: The term under which the run is claimed; 0 if it need not be claimed.
        digests: The content hashes of values.
        last: The number of the last event.
        tombstones: What is kept about calls with an unknown outcome.
        before: A moment.
        owner: The process that claims the run.
        instead_of: The term of the claim that this one replaces.
        renewals: How often the present owner has renewed its lease; -1 if that does not matter.
        unfinished: Whether the run was left in the middle.
        heartbeat: The process, and what it tells about itself.
        documents: Named documents; the first version of a name is 1.
        kind: The kind of documents.
        name: The name of a document, unique in its kind.
        version: The version that is known; 0 waits for the first.
    """

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
        term: int = 0,
    ) -> None:
        """Stores events and values as every store does, if the run is still claimed under `term`.

        Else it stores nothing and raises `RunTakenOver`.
        """
        ...

    async def get_many(self, digests: Sequence[str]) -> Sequence[Json]:
        """Returns the values with these content hashes, in this order, each a new object.

        Raises `JournalDamaged` if one of them is missing or altered.
        """
        ...

    # Lists and totals, without reading journals.

    async def headlines(
        self, *, statuses: Collection[str] = (), before: str = "", text: str = "", limit: int
    ) -> Sequence[Headline]:
        """Returns runs, newest first.

        Args:
            statuses: Only runs with one of these.
            before: Only runs that are older than the one with this id.
            text: Only runs that contain this text, ignoring case, and runs that the store cannot
                search.
            limit: How many at most.
        """
        ...

    async def without_summary(self) -> Sequence[Headline]:
        """Returns the open runs whose summary is missing or older than their last event."""
        ...

    async def status_counts(self) -> Mapping[str, int]:
        """Returns how many runs have each status."""
        ...

    async def day_totals(self) -> Sequence[DayTotal]:
        """Returns the totals of all summaries, by the day when the run was created."""
        ...

    async def planned(self) -> Sequence[PlanningFacts]:
        """Returns, for each run whose plan a planner made, how it was planned."""
        ...

    async def keep_summaries(self, summaries: Sequence[tuple[int, RunSummary]]) -> None:
        """Stores summaries and statuses of runs whose last event still has the given number.

        Args:
            summaries: The number of the last event, and the summary, of each run.
        """
        ...

    # Repair of a journal.

    async def intact_part(self, run: str) -> IntactPart:
        """Returns the events of a run up to the first that is missing or altered."""
        ...

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        """Moves the rows after a number aside, and appends these events: all or none.

        Args:
            run: The id of the run.
            after: The number of the last good event.
            events: What follows that event instead.

        Returns:
            The number of moved rows.

        Raises:
            StaleWriter: The last good event has changed.
        """
        ...

    # Deletion and retention.

    async def delete_run(
        self, run: str, *, last: int | None = None, tombstones: Sequence[Json] = ()
    ) -> bool:
        """Deletes a run's journal, if it ends with `last`; its values go with the next `prune`."""
        ...

    async def tombstones(self) -> Sequence[Any]:
        """Returns the tombstones of deleted runs, oldest first."""
        ...

    async def over_before(self, before: datetime) -> dict[str, int]:
        """Returns the runs that ended before a moment, with the bytes of their journals."""
        ...

    async def prune(self, before: datetime) -> int:
        """Removes values older than `before` that no event refers to."""
        ...

    async def missing(self) -> Sequence[str]:
        """Describes runs that were written and are not there any more."""
        ...

    async def unmentioned(self) -> int:
        """Returns how many values no event refers to."""
        ...

    # Documents: named, with a version; if two write the same version, one wins.

    async def put_documents(self, documents: Sequence[Document]) -> bool:
        """Stores documents, each of which is the next version of its name: all or none.

        Returns:
            False if another writer came first.
        """
        ...

    async def document(self, kind: str, name: str) -> Document | None:
        """Returns the present version of a document, if there is one."""
        ...

    async def documents(
        self,
        kind: str,
        *,
        label: str | None = None,
        state: str | None = None,
        after: tuple[str, str] | None = None,
        newest: bool = False,
        limit: int | None = None,
    ) -> Sequence[Document]:
        """Returns documents of a kind, sorted by place and name.

        Args:
            kind: The kind of the documents.
            label: Only documents with this label.
            state: Only documents in this state.
            after: Place and name of the document after which the list begins.
            newest: Whether the list begins with the last place instead of the first.
            limit: How many at most; None for all.
        """
        ...

    async def remove_documents(
        self, kind: str, names: Sequence[str], *, labelled: Sequence[str] = ()
    ) -> int:
        """Removes documents, and those that are labelled with their names: all or none.

        Args:
            kind: The kind of the documents.
            names: Their names.
            labelled: Kinds whose documents are removed too if their label is one of the names.

        Returns:
            How many of the named documents there were.
        """
        ...

    async def wait_document(self, kind: str, name: str, *, version: int) -> None:
        """Waits until a document has a later version than this, whoever wrote it."""
        ...

    # Which process executes a run, which is not in the journal, and which processes live.

    async def claim(
        self, run: str, owner: str, *, instead_of: int = 0, renewals: int = -1
    ) -> Claim:
        """Claims a run that nobody owns, or that is claimed under the term `instead_of`.

        With `renewals`, it does so only if the present owner has not renewed its lease since that
        number. Returns the claim that holds now.
        """
        ...

    async def release(self, run: str, term: int, *, unfinished: bool = False) -> None:
        """Ends the claim with this term, if it still holds; an `unfinished` run keeps its row."""
        ...

    async def claim_of(self, run: str) -> Claim | None:
        """Returns the claim of a run, if there is one."""
        ...

    async def claims(self, *, owner: str = "") -> Sequence[tuple[str, Claim]]:
        """Returns every claimed run with its claim, or only those of one owner."""
        ...

    async def renew_lease(self, heartbeat: Heartbeat) -> None:
        """Renews the lease of a process, and counts that."""
        ...

    async def processes(self) -> Sequence[Heartbeat]:
        """Returns all processes; the store measures the times, not this machine."""
        ...
