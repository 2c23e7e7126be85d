"""Keeps named JSON documents in a database, each with a version, in one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, Final

from plansmith.ports import Record
from plansmith.store.reading import Followers, record_key
from plansmith.store.sql import Change, Parameters, Step

_CELLS: Final = "kind, name, version, body, label, place, state, run, hash"
_ALL: Final = f"SELECT {_CELLS} FROM records WHERE kind = :kind"  # noqa: S608 - constants
_ONE: Final = f"{_ALL} AND name = :name"
_IS_AT: Final = """
    SELECT 1 WHERE :version - 1 = coalesce(
        (SELECT version FROM records WHERE kind = :kind AND name = :name), 0
    )
"""
_IS_PUT: Final = """
    SELECT 1 FROM records
    WHERE kind = :kind AND name = :name AND version = :version AND hash = :hash
"""
_PUT: Final = f"""
    INSERT INTO records ({_CELLS})
    VALUES (:kind, :name, :version, :body, :label, :place, :state, :run, :hash)
    ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, body = excluded.body,
        label = excluded.label, place = excluded.place, state = excluded.state,
        run = excluded.run, hash = excluded.hash
"""  # noqa: S608 - constants
_REMOVE: Final = "DELETE FROM records WHERE kind = :kind AND name = :name"
_REMOVE_LABELLED: Final = "DELETE FROM records WHERE kind = :kind AND label = :name"


class RecordRows:
    """The part of a store that keeps records."""

    def __init__(
        self,
        query: Callable[[str, Parameters], Awaitable[list[Any]]],
        transact: Callable[[Sequence[Change]], Awaitable[list[list[int] | None]]],
        *,
        notify: str,
        followers: Followers,
    ) -> None:
        self._find_records = query
        self._change_records = transact
        self._notify = notify
        self._record_followers = followers

    async def put_records(self, records: Sequence[Record]) -> bool:
        """Stores records of which each is the next version of its name, all or none."""
        rows = [{**each._asdict(), "hash": _hash_of(each.body)} for each in records]
        keys = {record_key(each.kind, each.name): each.version for each in records}
        notes = [{"note": f"{version} {key[:1000]}"} for key, version in keys.items()]
        steps: list[Step] = [(_PUT, rows), *([(self._notify, notes)] if self._notify else [])]
        change = Change(
            needs=[(_IS_AT, row) for row in rows],
            steps=steps,
            made=[(_IS_PUT, row) for row in rows],
        )
        [done] = await self._change_records([change]) if rows else [[]]
        if done is not None:
            self._record_followers.wake(keys)
        return done is not None

    async def record(self, kind: str, name: str) -> Record | None:
        """Returns the present version of a record, if there is one."""
        rows = await self._find_records(_ONE, {"kind": kind, "name": name})
        return _record(rows[0]) if rows else None

    async def records(
        self,
        kind: str,
        *,
        label: str | None = None,
        state: str | None = None,
        after: tuple[str, str] | None = None,
        newest: bool = False,
        limit: int | None = None,
    ) -> Sequence[Record]:
        """Returns records of a kind, sorted by place and name."""
        given: dict[str, object] = {"kind": kind, "label": label, "state": state, "most": limit}
        given["place"], given["name"] = after or (None, None)
        query = _ALL
        query += " AND label = :label" if label is not None else ""
        query += " AND state = :state" if state is not None else ""
        if after is not None:
            query += f" AND (place, name) {'<' if newest else '>'} (:place, :name)"
        order = "DESC" if newest else "ASC"
        query += f" ORDER BY place {order}, name {order}"
        query += " LIMIT :most" if limit is not None else ""
        return [_record(row) for row in await self._find_records(query, given)]

    async def remove_records(
        self, kind: str, names: Sequence[str], *, labelled: Sequence[str] = ()
    ) -> int:
        """Removes records, and those that are labelled with their names, all or none."""
        if not names:
            return 0
        steps: list[Step] = [(_REMOVE, [{"kind": kind, "name": each} for each in names])]
        steps += [
            (_REMOVE_LABELLED, [{"kind": other, "name": each} for each in names])
            for other in labelled
        ]
        [done] = await self._change_records([Change(needs=(), steps=steps)])
        return done[0] if done else 0

    async def wait_record(self, kind: str, name: str, *, version: int) -> None:
        """Returns when a record has a later version than this, whoever wrote it."""
        await self._record_followers.wait(record_key(kind, name), version)


def _hash_of(text: object) -> str:
    return sha256(str(text).encode(errors="replace")).hexdigest()


def _record(row: Sequence[Any]) -> Record:
    kind, name, version, body, label, place, state, run, digest = row
    altered = not isinstance(body, str) or _hash_of(body) != digest
    return Record(kind, name, version, str(body), label, place, state, run, altered)
