"""A store of other people that keeps journals and results, as the rest of Plansmith sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Refused
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import Headline
from plansmith.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from plansmith.plan.data import Content, Json
    from plansmith.plan.events import Event
    from plansmith.plan.summary import RunSummary
    from plansmith.ports import JournalStore

_KEPT: Final = ("events", "wait", "get", "runs", "open_runs", "news", "wait_news", "put", "close")
_LEFT_OUT: Final = ("put_documents", "set_aside", "delete_run", "over_before")


class JournalsOnly(MemoryStore):
    """Claims are kept in memory, lists read the journals, and documents are refused."""

    def __init__(self, kept: JournalStore) -> None:
        super().__init__()
        self._kept = kept
        vars(self).update({name: getattr(kept, name) for name in _KEPT})
        vars(self).update(dict.fromkeys(_LEFT_OUT, _refuse))

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **told: Any
    ) -> None:
        """Stores events and values; a term says nothing, as no other process has this store."""
        told.pop("term", None)
        await self._kept.append(events, values, **told)

    async def headlines(
        self, *, statuses: Collection[str] = (), before: str = "", text: str = "", limit: int
    ) -> Sequence[Headline]:
        """Returns the newest runs, newest first; what they are stands in their journals."""
        del statuses, text
        runs = [*reversed(await self._kept.runs())]
        start = runs.index(before) + 1 if before in runs else 0
        return [Headline(run, 0, "", None) for run in runs[start:][:limit]]

    async def without_summary(self) -> Sequence[Headline]:
        """Returns all runs."""
        return await self.headlines(limit=len(await self._kept.runs()))

    async def status_counts(self) -> Mapping[str, int]:
        """Returns how many runs there are: nobody knows their statuses."""
        return {"": len(await self._kept.runs())}

    async def keep_summaries(self, summaries: Sequence[tuple[int, RunSummary]]) -> None:
        """Keeps summaries until the next look, for totals."""
        self._summaries |= {each.run: each for _, each in summaries}


async def _refuse(*_: object, **__: object) -> Any:
    why = Sentence("this store keeps journals only")
    raise Refused(why, hint=Sentence("use SQLite or PostgreSQL"))
