"""What a database keeps beside journals, told by name: templates, schedules, owners, damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from plansmith.adapters.stores.aside import (
    POSTGRES_ASIDE,
    POSTGRES_TALLY,
    SQLITE_ASIDE,
    missing_in_sqlite,
    missing_words,
    set_aside_in_postgres,
    set_aside_in_sqlite,
    sound_in_sqlite,
)
from plansmith.adapters.stores.ends import End, Ends
from plansmith.adapters.stores.owners import (
    OWNERS,
    POSTGRES_OWNER,
    POSTGRES_RELEASE,
    SQLITE_OWNER,
    claim_in_postgres,
    claim_in_sqlite,
    release_in_sqlite,
)
from plansmith.adapters.stores.rows import entries_of, mark_of, sound_part
from plansmith.adapters.stores.schedules import (
    FIRES,
    OPEN_FIRES,
    SCHEDULES,
    put_in_postgres,
    put_in_sqlite,
    read_fires,
    read_schedules,
)
from plansmith.adapters.stores.statements import EVENTS
from plansmith.adapters.stores.templates import (
    ALL,
    drop_from_postgres,
    drop_from_sqlite,
    keep_in_postgres,
    keep_in_sqlite,
    read_templates,
)
from plansmith.plan.data import Json
from plansmith.plan.events import Event
from plansmith.plan.schedules import Fire, Schedule
from plansmith.ports import Sound

_T = TypeVar("_T")


class SqliteRecords:
    """The records of a SQLite store, over its one reader and its one writer."""

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        raise NotImplementedError

    async def _transact(self, work: Callable[[sqlite3.Connection], int]) -> int:
        raise NotImplementedError

    async def _with_others(self, work: Callable[[sqlite3.Connection], object]) -> Any:
        raise NotImplementedError

    def _wake(self, numbers: Mapping[str, int]) -> None:
        raise NotImplementedError

    @property
    def ends(self) -> Ends:
        """Where journals ended when they were last written."""
        raise NotImplementedError

    async def sound(self, run: str) -> Sound:
        """The events of a run up to the first that is missing or altered."""
        return await self._read(
            lambda connection: sound_in_sqlite(connection, run, self.ends.of(run))
        )

    async def missing(self) -> Sequence[str]:
        """Runs that were written and are not there any more, in words."""
        return await self._read(lambda connection: missing_in_sqlite(connection, self.ends))

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        """Keep what comes behind a number apart, and go on with these events; all or none."""
        entries = entries_of(events)
        moved = await self._transact(
            lambda connection: set_aside_in_sqlite(connection, run, after, entries)
        )
        self.ends.forget(run)
        self.ends.note(End(run, each.number, mark_of(each.hash)) for each in entries[-1:])
        self._wake({run: entries[-1].number} if entries else {})
        return moved

    async def aside(self, run: str) -> Sequence[tuple[int, bytes]]:
        """What was set aside of a run: numbers and rows, oldest first."""
        return await self._read(lambda connection: list(connection.execute(SQLITE_ASIDE, (run,))))

    async def claim(self, run: str, owner: str, *, instead_of: str = "") -> str:
        """Own a run that nobody owns, or that exactly this other one does; who owns it now."""
        return str(
            await self._with_others(
                lambda connection: claim_in_sqlite(connection, run, owner, instead_of)
            )
        )

    async def release(self, run: str, owner: str) -> None:
        """Own a run no more; harmless when another one does."""
        await self._with_others(lambda connection: release_in_sqlite(connection, run, owner))

    async def owner(self, run: str) -> str:
        """Who owns a run, or nobody."""
        found = await self._read(
            lambda connection: connection.execute(SQLITE_OWNER, (run,)).fetchone()
        )
        return str(found[0]) if found else ""

    async def owners(self) -> Sequence[tuple[str, str]]:
        """Every run that is owned, and who owns it."""
        query = OWNERS.format("owner")
        return await self._read(lambda connection: connection.execute(query).fetchall())

    async def keep_template(self, name: str, value: Json) -> int:
        """Keep the next version of a name; one equal to the last is that one."""
        return await self._transact(lambda connection: keep_in_sqlite(connection, name, value))

    async def kept_templates(self) -> Sequence[tuple[str, int, bool, Json]]:
        """All versions of all names, by name and version."""
        return await self._read(
            lambda connection: read_templates(connection.execute(ALL.format("template")))
        )

    async def drop_template(self, name: str, version: int | None = None) -> int:
        """Take one version or all out of use; returns how many there were."""
        return await self._transact(lambda connection: drop_from_sqlite(connection, name, version))

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Keep the next version of a schedule; false when another one came first."""
        return await self._transact(lambda connection: put_in_sqlite(connection, schedule)) > 0

    async def schedules(self) -> Sequence[Schedule]:
        """All schedules, removed ones too, oldest first."""
        query = SCHEDULES.format("schedule")
        return await self._read(lambda connection: read_schedules(connection.execute(query)))

    async def put_fire(self, fire: Fire) -> bool:
        """Keep a fire, or its next version; false when another one came first."""
        return await self._transact(lambda connection: put_in_sqlite(connection, fire)) > 0

    async def fires(self, schedule: str, *, limit: int) -> Sequence[Fire]:
        """The newest fires of a schedule, newest first."""
        query = FIRES.format("fire", "?")
        return await self._read(
            lambda connection: read_fires(connection.execute(query, (schedule, limit)))
        )

    async def open_fires(self) -> Sequence[Fire]:
        """The fires of all schedules of which something may still come, oldest first."""
        query = OPEN_FIRES.format("fire")
        return await self._read(lambda connection: read_fires(connection.execute(query)))


class PostgresRecords:
    """The records of a PostgreSQL store, over its connections."""

    async def _read(self, query: str, parameters: Sequence[object]) -> list[Any]:
        raise NotImplementedError

    async def _change(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        raise NotImplementedError

    async def sound(self, run: str) -> Sound:
        """The events of a run up to the first that is missing or altered."""
        rows = await self._read(EVENTS, [[run], [0]])
        placed = [(number, data) for _, _, number, data, _ in rows if number is not None]
        return sound_part(run, placed, last=(rows[-1][4] or 0) if rows else 0)

    async def missing(self) -> Sequence[str]:
        """Runs that were written and are not there any more, in words."""
        [[runs, should]] = await self._read(POSTGRES_TALLY, [])
        return missing_words(int(runs), int(should))

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        """Keep what comes behind a number apart, and go on with these events; all or none."""
        entries = entries_of(events)
        return await self._change(lambda link: set_aside_in_postgres(link, run, after, entries))

    async def aside(self, run: str) -> Sequence[tuple[int, bytes]]:
        """What was set aside of a run: numbers and rows, oldest first."""
        return [
            (int(number), bytes(data)) for number, data in await self._read(POSTGRES_ASIDE, [run])
        ]

    async def claim(self, run: str, owner: str, *, instead_of: str = "") -> str:
        """Own a run that nobody owns, or that exactly this other one does; who owns it now."""
        return await self._change(lambda link: claim_in_postgres(link, run, owner, instead_of))

    async def release(self, run: str, owner: str) -> None:
        """Own a run no more; harmless when another one does."""

        async def drop(link: Any) -> int:
            return int((await link.execute(POSTGRES_RELEASE, [run, owner])).rowcount)

        await self._change(drop)

    async def owner(self, run: str) -> str:
        """Who owns a run, or nobody."""
        rows = await self._read(POSTGRES_OWNER, [run])
        return str(rows[0][0]) if rows else ""

    async def owners(self) -> Sequence[tuple[str, str]]:
        """Every run that is owned, and who owns it."""
        return await self._read(OWNERS.format("plansmith.owner"), [])

    async def keep_template(self, name: str, value: Json) -> int:
        """Keep the next version of a name; one equal to the last is that one."""
        return await self._change(lambda link: keep_in_postgres(link, name, value))

    async def kept_templates(self) -> Sequence[tuple[str, int, bool, Json]]:
        """All versions of all names, by name and version."""
        return read_templates(await self._read(ALL.format("plansmith.template"), []))

    async def drop_template(self, name: str, version: int | None = None) -> int:
        """Take one version or all out of use; returns how many there were."""
        return await self._change(lambda link: drop_from_postgres(link, name, version))

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Keep the next version of a schedule; false when another one came first."""
        return await self._change(lambda link: put_in_postgres(link, schedule)) > 0

    async def schedules(self) -> Sequence[Schedule]:
        """All schedules, removed ones too, oldest first."""
        return read_schedules(await self._read(SCHEDULES.format("plansmith.schedule"), []))

    async def put_fire(self, fire: Fire) -> bool:
        """Keep a fire, or its next version; false when another one came first."""
        return await self._change(lambda link: put_in_postgres(link, fire)) > 0

    async def fires(self, schedule: str, *, limit: int) -> Sequence[Fire]:
        """The newest fires of a schedule, newest first."""
        return read_fires(await self._read(FIRES.format("plansmith.fire", "%s"), [schedule, limit]))

    async def open_fires(self) -> Sequence[Fire]:
        """The fires of all schedules of which something may still come, oldest first."""
        return read_fires(await self._read(OPEN_FIRES.format("plansmith.fire"), []))
