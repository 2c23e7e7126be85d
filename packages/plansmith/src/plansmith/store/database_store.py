"""What SQLite and PostgreSQL stores have in common: all but the commit of appends and claims."""

from __future__ import annotations

import asyncio
import json
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import msgspec

from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.event_body import moment
from plansmith.plan.events import Event
from plansmith.plan.ids import NOT_A_RUN, document_name
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import RunSummary
from plansmith.ports import Claim, Document, Heartbeat, IntactPart, News
from plansmith.store import sql
from plansmith.store.commit import Append, Request, closed
from plansmith.store.reading import Followers, ValueCache
from plansmith.store.rows import (
    day_of,
    intact_part,
    read_journal,
    require_following,
    rows_of,
    stale,
)
from plansmith.store.sql import Change, Dialect, Parameters, Statement
from plansmith.store.summaries import OPEN_RUNS, SummaryQueries, cells_of
from plansmith.store_ports import ProcessInfo

_BODIES_AT_ONCE: Final = 10_000
_BEYOND_ALL: Final = 2**63
_NO_DAY: Final = "9999-12-31"
_HASH: Final = re.compile("[0-9a-f]{64}")
# More rows than this are decoded in a thread, so that the event loop goes on.
_FEW_ROWS: Final = 64
# Followers of all runs wait under this name, which no run has.
_ANY_RUN: Final = ""
_ABOUT: Final = msgspec.json.Decoder(ProcessInfo)


class DatabaseStore(SummaryQueries):
    """A store over a database: journals, values, lists of runs, documents, claims.

    What its methods do is said where the ports are: `store_ports`.
    """

    def __init__(self, dialect: Dialect, *, now: Callable[[], datetime]) -> None:
        self._dialect = dialect
        self._now = now
        self._values = ValueCache(self._read_values)
        self._followers = Followers(numbers=self._numbers, watch=self._watch)
        self._known_processes: set[str] = set()
        self._closed = False

    @abstractmethod
    def _submit(self, request: Append) -> Awaitable[Any]:
        """Makes an append durable, together with others."""

    @abstractmethod
    async def _change_claim(self, run: str, statements: Sequence[str], given: Parameters) -> Any:
        """Makes statements about the claim of a run; returns the row that it has then."""

    @abstractmethod
    async def _watch(self) -> None:
        """Calls `look` of the followers whenever another process may have written."""

    @abstractmethod
    async def close(self) -> None:
        """Finishes all requests and closes the database; may be called twice."""

    # Journals and values.

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
        term: int = 0,
    ) -> None:
        require_following(events)
        texts = [each for each in map(content_of, values) if not each.is_short]
        if events or texts:
            run = events[0].run if events else ""
            cells = cells_of(summary) if summary is not None else None
            await self._submit(Append(run, events, texts, status=status, summary=cells, term=term))
            self._values.keep(texts)

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        after = max(after, 0)
        rows = await self._query(sql.EVENTS, {"run": run, "after": after})
        if len(rows) <= _FEW_ROWS:
            return read_journal(run, rows, after=after)
        return await asyncio.to_thread(read_journal, run, rows, after=after)

    async def put(self, value: Json) -> str:
        content = content_of(value)
        if self._closed:
            raise closed()
        await self.append((), [content])
        return content.digest

    async def get(self, digest: str) -> Json:
        return (await self.get_many([digest]))[0]

    async def get_many(self, digests: Sequence[str]) -> Sequence[Json]:
        if self._closed:
            raise closed()
        return await self._values.get(digests)

    async def _read_values(self, hashes: Sequence[str]) -> Mapping[str, object]:
        return dict(await self._among(sql.VALUES, hashes))

    async def _among(self, statement: str, keys: Sequence[str], **given: str) -> list[Any]:
        """Returns the rows of a statement about any of these keys."""
        query = statement.format(among=self._dialect.among)
        return await self._query(query, {"keys": json.dumps(keys), **given})

    async def runs(self) -> Sequence[str]:
        return [str(row[0]) for row in await self._query(sql.RUNS, {})]

    async def open_runs(self) -> Sequence[str]:
        return [str(row[0]) for row in await self._query(OPEN_RUNS, {})]

    # What others write.

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        rows = await self._query(sql.NEWS, {"after": after, "most": limit})
        return [News(*row) for row in rows]

    async def wait(self, run: str, *, after: int = 0) -> None:
        await self._followers.wait(run, after)

    async def wait_news(self, after: int) -> int:
        while (position := await self._position()) <= after:
            await self._followers.wait(_ANY_RUN, after)
        return position

    async def wait_document(self, kind: str, name: str, *, version: int) -> None:
        await self._followers.wait(document_name(kind, name), version)

    async def _position(self) -> int:
        return int((await self._query(self._dialect.position, {}))[0][0])

    async def _numbers(self, names: Sequence[str]) -> Mapping[str, int]:
        """Returns the last numbers of what followers wait for."""
        runs = [each for each in names if each and not each.startswith(NOT_A_RUN)]
        documents: dict[str, list[str]] = {}
        for each in names:
            if each.startswith(NOT_A_RUN):
                kind, _, name = each.removeprefix(NOT_A_RUN).partition(" ")
                documents.setdefault(kind, []).append(name)
        found: dict[str, int] = dict(await self._among(sql.LAST_NUMBERS, runs)) if runs else {}
        for kind, some in documents.items():
            for name, version in await self._among(sql.VERSIONS, some, kind=kind):
                found[document_name(kind, name)] = version
        if _ANY_RUN in names:
            found[_ANY_RUN] = await self._position()
        return found

    def _wake(self, numbers: Mapping[str, int]) -> None:
        # Wakes followers of all runs too, whatever they have seen: they ask for the position.
        self._followers.wake({**numbers, _ANY_RUN: _BEYOND_ALL} if numbers else {})

    def _wake_followers(self, requests: Sequence[Request]) -> None:
        """Wakes those who follow runs that have new events."""
        if self._followers.any:
            appends = (each for each in requests if isinstance(each, Append) and each.error is None)
            self._wake({each.run: each.events[-1].number for each in appends if each.events})

    def _note(self, *notes: str) -> list[Statement]:
        """Returns the statement that tells other processes, where a database does."""
        rows = [{"note": each} for each in notes]
        return [(self._dialect.notify, rows)] if self._dialect.notify else []

    # Deletion and retention.

    async def delete_run(
        self, run: str, *, last: int | None = None, tombstones: Sequence[Json] = ()
    ) -> bool:
        statements: list[Statement] = [(each, [{"run": run}]) for each in sql.DELETE_RUN]
        bodies = (json.dumps(each) for each in tombstones)
        statements += [(sql.ADD_TOMBSTONE, [{"run": run, "body": body}]) for body in bodies]
        while rows := await self._query(sql.LAST_NUMBER, {"run": run}):
            number = int(rows[0][0])
            if last not in (None, number):
                return False
            need = sql.IS_AT, {"run": run, "number": number}
            [done] = await self._transact([Change([need], statements)])
            if done is not None:
                return True
        return False

    async def tombstones(self) -> Sequence[Json]:
        return [json.loads(str(row[0])) for row in await self._query(sql.TOMBSTONES, {})]

    async def over_before(self, before: datetime) -> dict[str, int]:
        given = {"before": moment(before.astimezone(UTC))}
        return {str(run): int(size) for run, size in await self._query(sql.OVER_BEFORE, given)}

    async def prune(self, before: datetime) -> int:
        self._values.forget()
        # The event that mentions a value put a moment ago may not be written yet.
        day = min(day_of(before), day_of(self._now() - timedelta(days=1)))
        seen = await self._position()
        values = [
            {"hash": digest, "day": day, "seen": seen, "pattern": f"%{digest}%"}
            for digest in sorted(await self._unmentioned(day, seen))
        ]
        if not values:
            return 0
        [done] = await self._transact([Change((), [(sql.DELETE_CONTENT, values)])])
        return sum(done or ())

    async def unmentioned(self) -> int:
        return len(await self._unmentioned(_NO_DAY, await self._position()))

    async def _unmentioned(self, day: str, seen: int) -> set[str]:
        """Returns the values last put before a day that no event up to a position mentions."""
        old = {str(row[0]) for row in await self._query(sql.OLD_CONTENTS, {"day": day})}
        for after in range(0, seen if old else 0, _BODIES_AT_ONCE):
            window = {"after": after, "until": min(after + _BODIES_AT_ONCE, seen)}
            for row in await self._query(sql.EVENT_BODIES, window):
                old.difference_update(_HASH.findall(str(row[0])))
        return old

    async def missing(self) -> Sequence[str]:
        [[should]] = await self._query(sql.TALLY, {})
        short = should - len(await self.runs())
        return [Sentence("{count} of {total} runs", count=short, total=should)] if short > 0 else []

    # Repair of a journal.

    async def intact_part(self, run: str) -> IntactPart:
        rows = await self._query(sql.EVENTS, {"run": run, "after": 0})
        placed = [row for _, *row in rows if row[0] is not None]
        return intact_part(run, placed, last=rows[-1][0] if rows else 0)

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        require_following(events)
        sound = (await self.intact_part(run)).events
        kept = sound[after - 1] if 0 < after <= len(sound) else None
        if kept is None or (events and events[0].before != kept.hash):
            raise stale(run, after + 1)
        last = events[-1].number if events else after
        names = sql.COLUMNS.split(", ")
        rows = [
            {"run": run, "back": len(events) - place, **dict(zip(names, cells, strict=True))}
            for place, cells in enumerate(rows_of(events), start=1)
        ]
        where = {"run": run, "after": after}
        [[written]] = await self._query(sql.LAST_NUMBER, where) or [[0]]
        statements: list[Statement] = [
            (sql.SET_EVENTS_ASIDE, [where]),
            (sql.CUT_EVENTS, [where]),
            (sql.FORGET_SUMMARY, [where]),
            (self._dialect.take_positions, [{"count": len(events)}]),
            *([(sql.ADD_EVENTS, rows)] if rows else []),
            (sql.SET_LAST, [{"run": run, "last": last}]),
            *self._note(f"{last} {run[:1000]}"),
        ]
        need = where | {"last": written, "hash": kept.hash}
        [done] = await self._transact([Change([(sql.ENDS_WITH, need)], statements)])
        if done is None:
            raise stale(run, after + 1)
        self._wake({run: last} if events else {})
        return done[0]

    # Documents: named JSON documents, each with a version.

    async def put_documents(self, documents: Sequence[Document]) -> bool:
        if not documents:
            return True
        rows = [{**each._asdict(), "hash": _hash_of(each.body)} for each in documents]
        numbers = {document_name(each.kind, each.name): each.version for each in documents}
        notes = [f"{version} {name[:1000]}" for name, version in numbers.items()]
        change = Change(
            needs=[(sql.COMES_NEXT, row) for row in rows],
            statements=[(sql.PUT_DOCUMENT, rows), *self._note(*notes)],
            made=[(sql.IS_PUT, row) for row in rows],
        )
        [done] = await self._transact([change])
        if done is not None:
            self._followers.wake(numbers)
        return done is not None

    async def document(self, kind: str, name: str) -> Document | None:
        query = f"{sql.DOCUMENTS} AND name = :name"
        rows = await self._query(query, {"kind": kind, "name": name})
        return _document(rows[0]) if rows else None

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
        given: dict[str, object] = {"kind": kind, "label": label, "state": state, "most": limit}
        given["place"], given["name"] = after or (None, None)
        order, beyond = ("DESC", "<") if newest else ("ASC", ">")
        query = sql.DOCUMENTS + (" AND label = :label" if label is not None else "")
        of_state = "state" if label is None else "state || ''"  # so the index of labels is used
        query += f" AND {of_state} = :state" if state is not None else ""
        query += f" AND (place, name) {beyond} (:place, :name)" if after is not None else ""
        query += f" ORDER BY place {order}, name {order}"
        query += " LIMIT :most" if limit is not None else ""
        return [_document(row) for row in await self._query(query, given)]

    async def remove_documents(
        self, kind: str, names: Sequence[str], *, labelled: Sequence[str] = ()
    ) -> int:
        if not names:
            return 0
        statements: list[Statement] = [
            (statement, [{"kind": each, "name": name} for name in names])
            for statement, each in (
                (sql.REMOVE_DOCUMENT, kind),
                *((sql.REMOVE_LABELLED, each) for each in labelled),
            )
        ]
        [done] = await self._transact([Change((), statements)])
        return done[0] if done else 0

    # Claims of runs, and the processes that make them.

    async def claim(
        self, run: str, owner: str, *, instead_of: int = 0, renewals: int = -1
    ) -> Claim:
        given = {"run": run, "owner": owner, "instead_of": instead_of, "renewals": renewals}
        found = None
        while found is None:  # the row was deleted before it was read
            found = await self._change_claim(run, self._dialect.claim, given)
        return Claim(*found)

    async def release(self, run: str, term: int, *, unfinished: bool = False) -> None:
        statement = sql.LEAVE_CLAIM if unfinished else sql.RELEASE_CLAIM
        await self._change_claim(run, [statement], {"run": run, "term": term})

    async def claim_of(self, run: str) -> Claim | None:
        rows = await self._query(sql.CLAIM_OF, {"run": run})
        return Claim(*rows[0][:2]) if rows else None

    async def claims(self, *, owner: str = "") -> Sequence[tuple[str, Claim]]:
        rows = await self._query(sql.CLAIMS_BY if owner else sql.CLAIMS, {"owner": owner})
        return [(run, Claim(who, term)) for run, who, term in rows]

    async def renew_lease(self, heartbeat: Heartbeat) -> None:
        machine, _, rest = heartbeat.process.rpartition(" ")
        machine, _, pid = machine.rpartition(" ")
        row = {
            "run": "",
            "name": heartbeat.process,
            "machine": machine or rest,
            "pid": int(pid) if pid.isdigit() else 0,
            "kind": heartbeat.about.kind,
            "about": msgspec.json.encode(heartbeat.about).decode(),
            "version": heartbeat.version,
            "lease_s": heartbeat.lease_s,
            "now": self._now().timestamp(),
        }
        statements = [sql.ADD_BEAT]
        if heartbeat.process not in self._known_processes:
            self._known_processes.add(heartbeat.process)
            statements.append(sql.FORGET_PROCESSES)
        statements = [each.format(now=self._dialect.now) for each in statements]
        await self._change_claim("", statements, row)

    async def processes(self) -> Sequence[Heartbeat]:
        given = {"now": self._now().timestamp()}
        rows = await self._query(sql.BEATS.format(now=self._dialect.now), given)
        return [Heartbeat(name, _ABOUT.decode(about), *rest) for name, about, *rest in rows]


def _hash_of(text: object) -> str:
    return sha256(str(text).encode(errors="replace")).hexdigest()


def _document(row: Sequence[Any]) -> Document:
    kind, name, version, body, label, place, state, run, digest = row
    altered = not isinstance(body, str) or _hash_of(body) != digest
    return Document(kind, name, version, str(body), label, place, state, run, altered)
