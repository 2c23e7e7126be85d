"""What SQLite and PostgreSQL stores have in common: all but writing journals."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.event_body import moment
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import RunSummary
from plansmith.ports import News, Sound
from plansmith.store import sql
from plansmith.store.claims import ClaimRecords, ClaimSql
from plansmith.store.commit import Append, Request, closed, settle
from plansmith.store.reading import ANY_RUN, Followers, ValueCache, apart, record_key
from plansmith.store.records import RecordRows
from plansmith.store.rows import (
    COLUMNS,
    RunHead,
    day_of,
    hashes_in,
    head_of,
    need_following,
    read_journal,
    rows_of,
    stale,
)
from plansmith.store.sql import Change, Dialect, Parameters, Step
from plansmith.store.summaries import OPEN, SummaryReads, cells_of

_RUNS_AT_ONCE: Final = 50
_BODIES_AT_ONCE: Final = 10_000
_FAR: Final = 2**63
_NO_DAY: Final = "9999-12-31"
_NAMES: Final = COLUMNS.split(", ")
# More rows are decoded in a thread, so that the event loop goes on.
_FEW: Final = 64


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was removed as too old."""

    runs: int = 0
    values: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The database operations that `DatabaseStore` needs; `submit` queues a request.

    `execute` and `transact` return how many rows changed; none if the `need` of a change is not
    met.
    """

    dialect: Dialect
    claims: ClaimSql
    query: Callable[[str, Parameters], Awaitable[list[Any]]]
    execute: Callable[[str, Parameters], Awaitable[int]]
    transact: Callable[[Sequence[Change]], Awaitable[list[list[int] | None]]]
    submit: Callable[[Request], Awaitable[Any]]
    change_claim: Callable[[str, Sequence[str], Parameters], Awaitable[Any]]
    now: Callable[[], datetime]


class DatabaseStore(SummaryReads, RecordRows, ClaimRecords, ABC):
    """A store over a database: journals, values, lists of runs, records, claims."""

    def __init__(self, database: Database) -> None:
        followers = Followers(numbers=self._numbers, watch=self._watch)
        query, transact, notify = database.query, database.transact, database.dialect.notify
        SummaryReads.__init__(self, query, transact)
        RecordRows.__init__(self, query, transact, notify=notify, followers=followers)
        ClaimRecords.__init__(
            self,
            database.claims,
            query=query,
            execute=database.execute,
            change_claim=database.change_claim,
            now=database.now,
        )
        self._database = database
        self._values = ValueCache(self._read_values)
        self._followers = followers
        self._closed = False

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
        term: int = 0,
    ) -> None:
        """Stores events that follow the last one of their run, and values; all or none."""
        need_following(events)
        texts = [content_of(each) for each in values]
        if events or texts:
            run = events[0].run if events else ""
            cells = cells_of(summary) if summary is not None else None
            request = Append(run, events, texts, status=status, summary=cells, term=term)
            await self._database.submit(request)
            self._values.keep(texts)

    @abstractmethod
    async def close(self) -> None:
        """Finishes all requests and closes the database; may be called twice."""

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """Returns the events of a run after a number; none for an unknown run."""
        after = max(after, 0)
        rows = await self._database.query(sql.EVENTS, {"run": run, "after": after})
        if len(rows) <= _FEW:
            return read_journal(run, rows, after=after)
        return await asyncio.to_thread(read_journal, run, rows, after=after)

    async def put(self, value: Json) -> str:
        """Stores a value once and returns its content hash."""
        content = content_of(value)
        await self.append((), [content])
        return content.digest

    async def get(self, digest: str) -> Json:
        """Returns the value of a content hash."""
        if self._closed:
            raise closed()
        return await self._values.get(digest)

    async def get_many(self, digests: Sequence[str]) -> Sequence[Json]:
        """Returns the values of content hashes, in this order."""
        if self._closed:
            raise closed()
        return await self._values.get_many(digests)

    async def _read_values(self, hashes: Sequence[str]) -> Mapping[str, object]:
        return dict(await self._among(sql.VALUES, hashes))

    async def _among(self, statement: str, keys: Sequence[str], **given: str) -> list[Any]:
        """Returns the rows of a statement about any of these keys."""
        if not keys:
            return []
        query = statement.format(among=self._database.dialect.among)
        return await self._database.query(query, {"keys": json.dumps(keys), **given})

    async def runs(self) -> Sequence[str]:
        """Returns the ids of all runs, oldest first."""
        return [str(row[0]) for row in await self._database.query(sql.RUNS, {})]

    async def heads(self) -> Sequence[RunHead]:
        """Returns number, type and time of the last event of every run, oldest first."""
        return [head_of(*row) for row in await self._database.query(sql.HEADS, {})]

    async def open_runs(self) -> Sequence[str]:
        """Returns the ids of the runs that are not over, oldest first."""
        return [str(row[0]) for row in await self._database.query(OPEN, {})]

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """Returns the events of all runs after a position, in the order they became durable."""
        rows = await self._database.query(sql.NEWS, {"after": after, "most": limit})
        return [News(*row) for row in rows]

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Returns when the run has an event after the number, whoever appends it."""
        await self._followers.wait(run, after)

    async def wait_news(self, after: int) -> int:
        """Returns the newest position once it is after the given one."""
        while (position := await self._position()) <= after:
            await self._followers.wait(ANY_RUN, after)
        return position

    async def _numbers(self, keys: Sequence[str]) -> Mapping[str, int]:
        runs, records = apart(keys)
        numbers = {str(run): int(last) for run, last in await self._among(sql.LASTS, runs)}
        for kind, names in records.items():
            for name, version in await self._among(sql.VERSIONS, names, kind=kind):
                numbers[record_key(kind, name)] = int(version)
        return numbers | ({ANY_RUN: await self._position()} if ANY_RUN in runs else {})

    @abstractmethod
    async def _watch(self) -> None:
        """Calls `look` of the followers whenever another process may have written."""

    async def _position(self) -> int:
        return int((await self._database.query(self._database.dialect.position, {}))[0][0])

    def _wake(self, numbers: Mapping[str, int]) -> None:
        # Whoever follows all runs asks for the position itself.
        self._followers.wake({**numbers, ANY_RUN: _FAR} if numbers else {})

    def _settle(self, requests: Sequence[Request]) -> None:
        """Tells every caller the outcome, and wakes those who follow the runs."""
        settle(requests)
        if self._followers.any:
            appends = (each for each in requests if isinstance(each, Append) and each.error is None)
            self._wake({each.run: each.events[-1].number for each in appends if each.events})

    async def delete_run(
        self, run: str, *, last: int | None = None, tombstones: Sequence[Json] = ()
    ) -> bool:
        """Deletes a run's journal, if it ends with `last`; its values go with the next `prune`."""
        while rows := await self._database.query(sql.LAST, {"run": run}):
            if last not in (None, int(rows[0][0])):
                return False
            if await self._delete({run: int(rows[0][0])}, tombstones):
                return True
        return False

    async def tombstones(self) -> Sequence[Json]:
        """Returns the tombstones of deleted runs, oldest first."""
        rows = await self._database.query(sql.TOMBSTONES, {})
        return [json.loads(str(row[0])) for row in rows]

    async def _delete(self, runs: Mapping[str, int], tombstones: Sequence[Json] = ()) -> int:
        """Deletes runs that have no events after the given number."""
        changes = [
            Change(
                [(sql.IS_AT, {"run": run, "number": number})],
                [
                    *((step, [{"run": run}]) for step in sql.DELETE_RUN),
                    *((sql.BURY, [{"run": run, "body": json.dumps(each)}]) for each in tombstones),
                ],
            )
            for run, number in runs.items()
        ]
        found = await self._database.transact(changes) if changes else []
        return sum(steps is not None for steps in found)

    async def over_before(self, before: datetime) -> dict[str, int]:
        """Returns the runs that ended before a moment, with the bytes of their journals."""
        query = self._database.query
        sizes = {run: await query(sql.RUN_SIZE, {"run": run}) for run in await self._over(before)}
        return {run: int(rows[0][0] or 0) for run, rows in sizes.items()}

    async def _over(self, before: datetime) -> dict[str, int]:
        """Returns the runs that ended before a moment, with the number of their last event."""
        given = {"before": moment(before.astimezone(UTC))}
        rows = await self._database.query(sql.OVER_BEFORE, given)
        return {str(run): int(number) for run, number in rows}

    async def prune(self, before: datetime, *, spared: Collection[str] = ()) -> Pruned:
        """Deletes runs that ended before a moment, then values that no event mentions."""
        self._values.forget()
        old = [each for each in (await self._over(before)).items() if each[0] not in spared]
        runs = 0
        for start in range(0, len(old), _RUNS_AT_ONCE):  # others write in between
            runs += await self._delete(dict(old[start : start + _RUNS_AT_ONCE]))
        # A value put a moment ago may not have its event yet.
        day = min(day_of(before), day_of(self._database.now() - timedelta(days=1)))
        return Pruned(runs, await self._sweep(day, await self._position()))

    async def unmentioned(self) -> int:
        """Returns how many values no event mentions."""
        return len(await self._unmentioned(_NO_DAY, await self._position()))

    async def _unmentioned(self, day: str, seen: int) -> set[str]:
        """Returns the values last put before a day that no event up to a position mentions."""
        rows = await self._database.query(sql.OLD_CONTENTS, {"day": day})
        old = {str(row[0]) for row in rows}
        for after in range(0, seen if old else 0, _BODIES_AT_ONCE):
            window = {"after": after, "until": min(after + _BODIES_AT_ONCE, seen)}
            bodies = await self._database.query(sql.BODIES, window)
            old -= hashes_in(str(row[0]) for row in bodies)
        return old

    async def _sweep(self, day: str, seen: int) -> int:
        """Deletes the values that no event mentions; returns how many there were."""
        rows = [
            {"hash": each, "day": day, "seen": seen, "pattern": f"%{each}%"}
            for each in sorted(await self._unmentioned(day, seen))
        ]
        if not rows:
            return 0
        [done] = await self._database.transact([Change((), [(sql.DELETE_CONTENT, rows)])])
        return sum(done or ())

    async def missing(self) -> Sequence[str]:
        """Describes the runs that were written and are no longer there."""
        [[should]] = await self._database.query(sql.TALLY, {})
        short = should - len(await self.runs())
        return [Sentence("{count} of {total} runs", count=short, total=should)] if short > 0 else []

    @abstractmethod
    async def sound(self, run: str) -> Sound:
        """Returns the events of a run up to the first that is missing or altered."""

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        """Moves the events after a number aside and appends these instead; all or none."""
        need_following(events)
        sound = (await self.sound(run)).events
        kept = sound[after - 1] if 0 < after <= len(sound) else None
        if kept is None or (events and events[0].before != kept.hash):
            raise stale(run, after + 1)
        last = events[-1].number if events else after
        rows = [
            {"run": run, "back": len(events) - place, **dict(zip(_NAMES, cells, strict=True))}
            for place, cells in enumerate(rows_of(events), start=1)
        ]
        dialect, where = self._database.dialect, {"run": run, "after": after}
        [[written]] = await self._database.query(sql.LAST, where) or [[0]]
        steps: list[Step] = [
            (sql.SET_ASIDE, [where]),
            (sql.CUT, [where]),
            *((step, [where]) for step in sql.FORGET_SUMMARY),
            (dialect.take, [{"count": len(events)}]),
            *([(sql.ADD, rows)] if rows else []),
            (sql.END, [{"run": run, "last": last}]),
            *([(dialect.notify, [{"note": f"{last} {run[:1000]}"}])] if dialect.notify else []),
        ]
        need = where | {"last": written, "hash": kept.hash}
        [done] = await self._database.transact([Change([(sql.ENDS_WITH, need)], steps)])
        if done is None:
            raise stale(run, after + 1)
        self._wake({run: last} if events else {})
        return done[0]

    async def aside(self, run: str) -> Sequence[tuple[int, bytes]]:
        """Returns the events of a run that were set aside, oldest first."""
        rows = await self._database.query(sql.ASIDE, {"run": run})
        return [(int(number), str(body).encode(errors="replace")) for number, body in rows]
