"""A store in memory, for tests, trials and one-off scripts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from plansmith.lazy import lazy_modules
from plansmith.plan.ids import document_name
from plansmith.store_ports import Claim, Document, Heartbeat, IntactPart, News, Store

if TYPE_CHECKING:
    from datetime import datetime

    from plansmith.plan import data
    from plansmith.plan import summary as summaries
    from plansmith.plan.data import Content, Json
    from plansmith.plan.events import Event
    from plansmith.plan.summary import DayTotal, Headline, PlanningFacts, RunSummary
    from plansmith.store import rows
else:
    lazy_modules(
        globals(),
        data="plansmith.plan.data",
        rows="plansmith.store.rows",
        summaries="plansmith.plan.summary",
    )

_ANY_RUN: Final = ""  # the name that no run has
_OVER: Final = "run_finished"


class MemoryStore(Store):
    """Journals and results in dictionaries.

    Examples:
        >>> from plansmith import Plansmith
        >>> from plansmith.testing import MemoryStore
        >>> smith = Plansmith(store=MemoryStore())
    """

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._news: list[Event | None] = []  # None: deleted or set aside
        self._values: dict[str, bytes] = {}
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._tombstones: list[Json] = []
        self._claims: dict[str, Claim] = {}
        self._terms = 0
        self._statuses: dict[str, str] = {}
        self._summaries: dict[str, RunSummary] = {}
        self._documents: dict[tuple[str, str], Document] = {}

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
        term: int = 0,
    ) -> None:
        # Kept as text, so that nobody can change it through a shared dictionary.
        contents = dict(map(data.content_of, values))
        if not events:
            self._values |= contents
            return
        run = events[0].run
        if term and (run not in self._claims or self._claims[run].term != term):
            raise rows.taken_over(run)
        journal = self._events.get(run, [])
        for number, event in enumerate(events, start=len(journal) + 1):
            if event.run != run or event.number != number:
                raise rows.stale(event.run, event.number)
        self._values |= contents
        journal += events
        self._events[run], self._statuses[run] = journal, status
        if summary is not None:
            self._summaries[run] = summary
        self._news += events
        if self._waiting:
            self._wake(run, _ANY_RUN)

    def _wake(self, *names: str) -> None:
        for waiting in [each for name in names for each in self._waiting.pop(name, ())]:
            waiting.set()

    async def _until(self, name: str, is_so: Callable[[], bool]) -> None:
        while not is_so():
            news = asyncio.Event()
            self._waiting.setdefault(name, []).append(news)
            await news.wait()

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        return self._events.get(run, [])[max(after, 0) :]

    async def wait(self, run: str, *, after: int = 0) -> None:
        await self._until(run, lambda: len(self._events.get(run, ())) > after)

    async def open_runs(self) -> Sequence[str]:
        return [run for run, events in self._events.items() if events[-1].body.type != _OVER]

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        start = max(after, 0)
        some = enumerate(islice(self._news, start, None), start=start + 1)
        kept = (News(at, each.run, each.number) for at, each in some if each is not None)
        return list(islice(kept, limit))

    async def wait_news(self, after: int) -> int:
        await self._until(_ANY_RUN, lambda: self._newest() > after)
        return len(self._news)

    def _newest(self) -> int:
        last = len(self._news)
        while last and self._news[last - 1] is None:
            last -= 1
        return last

    async def runs(self) -> Sequence[str]:
        return list(self._events)

    async def headlines(
        self, *, statuses: Collection[str] = (), before: str = "", text: str = "", limit: int
    ) -> Sequence[Headline]:
        found: list[Headline] = []
        older = before not in self._events
        for run in reversed(self._events):
            wanted = older and (before in self._events or not before or run < before)
            if wanted and (not statuses or self._statuses[run] in statuses):
                summary = self._summaries.get(run)
                if not text or summary is None or summary.has(text):
                    found.append(self._headline(run))
            older = older or run == before
            if len(found) == limit:
                break
        return found

    def _headline(self, run: str) -> Headline:
        last, summary = len(self._events[run]), self._summaries.get(run)
        current = summary if summary is not None and summary.number == last else None
        return summaries.Headline(run, last, self._statuses[run], current)

    async def without_summary(self) -> Sequence[Headline]:
        found = map(self._headline, self._events)
        return [each for each in found if each.summary is None]

    async def status_counts(self) -> Mapping[str, int]:
        return Counter(self._statuses.values())

    async def day_totals(self) -> Sequence[DayTotal]:
        return [
            summaries.DayTotal(summary.day, str(summary.money), 1, summary.tokens)
            for summary in self._summaries.values()
        ]

    async def planned(self) -> Sequence[PlanningFacts]:
        return [
            summaries.PlanningFacts(summary.figures, summary.models)
            for summary in self._summaries.values()
            if summary.planned
        ]

    async def keep_summaries(self, summaries: Sequence[tuple[int, RunSummary]]) -> None:
        for last, summary in summaries:
            if len(self._events.get(summary.run, ())) == last:
                self._summaries[summary.run] = summary
                if not summary.damage:
                    self._statuses[summary.run] = summary.status.value

    async def put(self, value: Json) -> str:
        digest, self._values[digest] = data.content_of(value)
        return digest

    async def get(self, digest: str) -> Json:
        if digest not in self._values:
            raise rows.no_value(digest)
        return data.parse_json(self._values[digest])

    async def get_many(self, digests: Sequence[str]) -> Sequence[Json]:
        return [await self.get(each) for each in digests]

    async def intact_part(self, run: str) -> IntactPart:
        """Returns the events of a run: nothing damages them here."""
        events = await self.events(run)
        return IntactPart(events, len(events))

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        journal = self._events.get(run, [])
        kept = journal[after - 1] if 0 < after <= len(journal) else None
        if kept is None or (events and events[0].before != kept.hash):
            raise rows.stale(run, after + 1)
        gone = journal[after:]
        self._news = [None if each in gone else each for each in self._news] + [*events]
        journal[after:] = events
        self._statuses[run] = ""
        self._summaries.pop(run, None)
        self._wake(run, _ANY_RUN)
        return len(gone)

    async def claim(
        self, run: str, owner: str, *, instead_of: int = 0, renewals: int = -1
    ) -> Claim:
        del renewals  # no other machine has this store
        found = self._claims.get(run)
        if found is None or not found.owner or found.term == instead_of:
            self._terms += 1
            found = self._claims[run] = Claim(owner, self._terms)
        return found._replace(last=len(self._events.get(run, ())))

    async def release(self, run: str, term: int, *, unfinished: bool = False) -> None:
        if run in self._claims and self._claims[run].term == term:
            if unfinished:
                self._claims[run] = Claim("", term)
            else:
                del self._claims[run]

    async def claim_of(self, run: str) -> Claim | None:
        return self._claims.get(run)

    async def claims(self, *, owner: str = "") -> Sequence[tuple[str, Claim]]:
        return [each for each in self._claims.items() if owner in ("", each[1].owner)]

    async def renew_lease(self, heartbeat: Heartbeat) -> None:
        """Does nothing: no other process has this store."""

    async def processes(self) -> Sequence[Heartbeat]:
        """Returns no process."""
        return []

    async def delete_run(
        self, run: str, *, last: int | None = None, tombstones: Sequence[Json] = ()
    ) -> bool:
        found = self._events.get(run)
        if found is None or last not in (None, len(found)):
            return False
        del self._events[run]
        self._tombstones += tombstones
        self._news = [None if each and each.run == run else each for each in self._news]
        for kept in (self._statuses, self._summaries, self._claims):
            kept.pop(run, None)
        self._documents = {key: each for key, each in self._documents.items() if each.run != run}
        return True

    async def tombstones(self) -> Sequence[Json]:
        return [*self._tombstones]

    async def over_before(self, before: datetime) -> dict[str, int]:
        return {
            run: sum(len(each.body_text) for each in events)
            for run, events in self._events.items()
            if events[-1].body.type == _OVER and events[-1].at < before
        }

    async def prune(self, before: datetime) -> int:
        """Removes no value: all of them go with this process."""
        del before
        return 0

    async def missing(self) -> Sequence[str]:
        """Returns nothing: what is gone was deleted."""
        return []

    async def unmentioned(self) -> int:
        """Counts no value, as `prune` removes none."""
        return 0

    async def put_documents(self, documents: Sequence[Document]) -> bool:
        for document in documents:
            found = self._documents.get((document.kind, document.name))
            if document.version != (found.version if found else 0) + 1:
                return False
        for document in documents:
            self._documents[document.kind, document.name] = document
            self._wake(document_name(document.kind, document.name))
        return True

    async def document(self, kind: str, name: str) -> Document | None:
        return self._documents.get((kind, name))

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
        found = [
            each
            for each in self._documents.values()
            if each.kind == kind
            and label in (None, each.label)
            and state in (None, each.state)
            and (after is None or (_place(each) < after if newest else _place(each) > after))
        ]
        return sorted(found, key=_place, reverse=newest)[:limit]

    async def remove_documents(
        self, kind: str, names: Sequence[str], *, labelled: Sequence[str] = ()
    ) -> int:
        gone = [key for key in self._documents if key[0] == kind and key[1] in names]
        self._documents = {
            key: document
            for key, document in self._documents.items()
            if key not in gone and not (document.kind in labelled and document.label in names)
        }
        return len(gone)

    async def wait_document(self, kind: str, name: str, *, version: int) -> None:
        def is_later() -> bool:
            found = self._documents.get((kind, name))
            return found is not None and found.version > version

        await self._until(document_name(kind, name), is_later)

    async def close(self) -> None:
        """Does nothing: nothing is open."""


def _place(document: Document) -> tuple[str, str]:
    return document.place, document.name
