"""A PostgreSQL connection that reconnects, and converts the server's errors to ours."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from plansmith.errors import (
    JournalDamaged,
    JournalError,
    Misconfigured,
    PlansmithError,
    StoreAway,
)
from plansmith.plan.sentence import Sentence
from plansmith.store.commit import closed
from plansmith.store.sql import VERSION, require_same_version, tables

_T = TypeVar("_T")
SCHEMA: Final = "plansmith"
_SCHEMA_NAME: Final = re.compile(rf"{SCHEMA}(_[a-z0-9_]{{1,48}})?")
_TRY_AGAIN: Final = ("40001", "40P01")
_FULL: Final = ("53100", "53200")
# Shut down, starting, read-only for a while after a fail-over, too many connections.
_AWAY: Final = ("57P01", "57P02", "57P03", "25006", "53300")
_REFUSED: Final = ("42501", "28000", "28P01", "3D000")
_DAMAGED: Final = ("XX001", "XX002", "42P01", "42703")

# Any number will do, as long as every Plansmith takes the same.
_LOCK: Final = 0x504C4E53
# Rows that are written again and again find room on their page.
_IN_POSTGRES: Final = {
    "id": "id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "position": "bigint",
    "no_rowid": "",
    "half_full": " WITH (fillfactor = 50)",
    "tenth_full": " WITH (fillfactor = 10)",
    "terms": "CREATE SEQUENCE terms",
}


def load_psycopg() -> Any:
    """Imports the driver, which only this store needs."""
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise Misconfigured(
            Sentence(
                "a store on PostgreSQL needs psycopg, and it cannot be loaded: {error}", error=error
            ),
            hint="pip install packages/* 'plansmith[postgres]'",
        ) from error


def schema_of(url: str) -> tuple[str, str]:
    """Takes the name of the schema out of an address; each tenant has a schema of its own."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    schemas = [value for name, value in given if name == "schema"]
    if not schemas:
        return url, SCHEMA
    if len(schemas) > 1 or not _SCHEMA_NAME.fullmatch(schemas[0]):
        hint = Sentence("{schema}, or {schema}_ with small letters, digits and _", schema=SCHEMA)
        raise Misconfigured(Sentence("the address names no valid schema"), hint=hint)
    rest = urlencode([each for each in given if each[0] != "schema"])
    return urlunsplit(parts._replace(query=rest)), schemas[0]


class Connection:
    """One connection, opened at first use; reconnects for a while when it is lost.

    With `plan_once` the server plans a prepared statement once, not for each of its executions.
    """

    def __init__(
        self, dsn: str, *, patience_s: float, preparing: bool = True, plan_once: bool = False
    ) -> None:
        self._dsn, self.schema = schema_of(dsn)
        self._plans = "force_generic_plan" if plan_once else "auto"
        self._patience_s = patience_s
        self._preparing = preparing
        self._driver: Any = None
        self._connection: Any = None
        self._opening = asyncio.Lock()
        self._was_open = self._closed = False

    async def use(self, work: Callable[[Any, int], Awaitable[_T]]) -> _T:
        """Runs `work` with the connection, and as the next attempt again if that was lost."""
        deadline = time.monotonic() + self._patience_s
        attempt = 0
        while True:
            attempt += 1
            try:
                return await work(await self._opened(), attempt)
            except PlansmithError:
                raise
            except asyncio.CancelledError:
                self._drop_busy()
                raise
            except Exception as error:
                if self._driver is None or not isinstance(error, self._driver.Error):
                    raise
                # A first connection that fails is a setting; one that was there may come back.
                lost = self._connection is None or self._connection.closed
                again = getattr(error, "sqlstate", None) in _TRY_AGAIN or (self._was_open and lost)
                if not again or time.monotonic() > deadline:
                    raise our_error(error) from error
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Closes the connection for good, also one that is being opened."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _drop_busy(self) -> None:
        """Closes a connection whose command was given up half-way: it takes no other one."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        if connection.pgconn.transaction_status != self._driver.pq.TransactionStatus.IDLE:
            self._connection = None
            connection.pgconn.finish()

    async def _opened(self) -> Any:
        async with self._opening:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            self._connection = None
            self._driver = self._driver or load_psycopg()
            connection = await self._driver.AsyncConnection.connect(
                self._dsn, autocommit=True, connect_timeout=10
            )
            try:
                # Our statements are short. On tables that were not analysed yet the server
                # overrates them, and would compile them for seconds.
                await connection.execute(
                    f"SET search_path TO {self.schema}; SET jit TO off;"
                    f" SET plan_cache_mode TO {self._plans}"
                )
                if self._preparing and not self._was_open:
                    await prepare_postgres(connection)
                if self._closed:
                    # Whoever cancels us while we connect may go unheard (asyncio.wait_for).
                    raise closed()  # noqa: TRY301 - the connection is closed below
            except BaseException:
                await connection.close()
                raise
            self._connection, self._was_open = connection, True
            return connection


class ConnectionPool:
    """Connections for work that goes on at the same time; opened when all others are busy."""

    def __init__(self, make: Callable[[], Connection], *, most: int) -> None:
        self._make = make
        self._idle: list[Connection] = []
        self._all: list[Connection] = []
        self._free = asyncio.Semaphore(most)

    async def use(self, work: Callable[[Any, int], Awaitable[_T]]) -> _T:
        """Runs `work` with a connection that nobody else uses meanwhile."""
        async with self._free:
            if not self._idle:
                self._idle.append(self._make())
                self._all.append(self._idle[-1])
            connection = self._idle.pop()
            try:
                return await connection.use(work)
            finally:
                self._idle.append(connection)

    async def close(self) -> None:
        for connection in self._all:
            await connection.close()


def our_error(error: Exception) -> PlansmithError:
    """Returns our error for one of the driver or the server."""
    state: str = getattr(error, "sqlstate", None) or ""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state in _FULL:
        return StoreAway(
            Sentence("PostgreSQL has no room left: {text}", text=text),
            hint=Sentence("free some space"),
        )
    if state in _AWAY or state.startswith("08"):
        return StoreAway(
            Sentence("PostgreSQL cannot be used now: {text}", text=text),
            hint=Sentence("see the server's log"),
        )
    if state in _REFUSED:
        return Misconfigured(
            Sentence("PostgreSQL refused: {text}", text=text),
            hint=Sentence("check the user, its rights and the database"),
        )
    if state in _DAMAGED:
        return JournalDamaged(
            Sentence("the schema plansmith is damaged: {text}", text=text),
            hint=Sentence("restore it from a backup"),
        )
    if not state:
        return StoreAway(
            Sentence("PostgreSQL cannot be reached: {text}", text=text),
            hint=Sentence("check the address, the password and that the server runs"),
        )
    return JournalError(f"PostgreSQL: {text}", hint=Sentence("see the server's log"))


async def prepare_postgres(connection: Any) -> None:
    """Makes the schema and its tables where there are none; refuses other versions."""
    if await schema_version(connection) == VERSION:
        return
    # Locked before the transaction begins: only then does it see what others have made.
    await connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        async with connection.transaction():
            found = await schema_version(connection)
            require_same_version("the schema plansmith", found)
            if found == 0:
                encoding = await _value(connection, "SHOW server_encoding")
                if encoding != "UTF8":
                    raise Misconfigured(
                        Sentence(
                            "the database stores text as {encoding}, and Plansmith needs UTF8",
                            encoding=encoding,
                        ),
                        hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
                    )
                schema = await _value(connection, "SHOW search_path")
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                await connection.execute(_VERSIONS)
                await connection.execute(";".join(tables(_IN_POSTGRES)))
                await connection.execute("INSERT INTO migration VALUES (%s)", [VERSION])
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


_VERSIONS: Final = """
    CREATE TABLE IF NOT EXISTS migration (
        number integer PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT now()
    )
"""


async def schema_version(connection: Any) -> int:
    """Returns the version of the schema; 0 if there is none."""
    if not await _value(connection, "SELECT to_regclass('migration') IS NOT NULL"):
        return 0
    return int(await _value(connection, "SELECT coalesce(max(number), 0) FROM migration"))


async def _value(connection: Any, query: str) -> Any:
    return (await (await connection.execute(query)).fetchone())[0]
