"""Databases by their address; every statement runs in a child process with a memory limit."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, unquote, urlsplit

from plansmith.adapters.context.schema import Column, ForeignKey, Table
from plansmith.adapters.tools.sql_duckdb import DuckEngine
from plansmith.adapters.tools.sql_postgres import PostgresEngine
from plansmith.adapters.tools.sql_rows import Found, RowLimits, told
from plansmith.adapters.tools.sql_sqlite import SqliteEngine
from plansmith.adapters.tools.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith.adapters.tools.toolset import Job
from plansmith.errors import Misconfigured
from plansmith.plan.data import Json

HINT: Final = "sqlite:///file.db, duckdb:///file.duckdb or postgresql://user@host/database"
_HERE: Final = "plansmith.adapters.tools.sql_engines"
Parameters = Sequence[Any] | Mapping[str, Any]


class Engine(Protocol):
    """One database, whatever its kind."""

    kind: str

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Found:
        """The rows of one statement that reads."""
        ...

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        """Do one statement that writes; how many rows it changed."""
        ...

    def schema(self) -> list[Table]:
        """The tables and views."""
        ...


class Database:
    """One database as the tools use it: what it is asked is done in a child process."""

    def __init__(self, url: str, limits: RowLimits) -> None:
        self._url = _absolute(url)
        self._limits = limits
        # Nothing is opened here: this only says whether the address can be one.
        self.kind = engine(self._url, limits).kind

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> dict[str, Json]:
        """The rows of one statement that reads, as a result."""
        given = {"sql": sql, "parameters": parameters, "rows": rows}
        return cast("dict[str, Json]", self._do("query", given, job))

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        """Do one statement that writes; how many rows it changed."""
        given = {"sql": sql, "parameters": parameters}
        return cast("int", self._do("execute", given, job, writes=True))

    def schema(self) -> list[Table]:
        """The tables and views."""
        return [_table(each) for each in cast("list[Any]", self._do("schema", {}, None))]

    def _do(
        self, act: str, given: Mapping[str, Any], job: Job | None, *, writes: bool = False
    ) -> Json:
        # A child starts without the environment; libpq is given its own part of it.
        own = {name: text for name, text in os.environ.items() if name.startswith("PG")}
        place = {
            "url": self._url,
            "limits": asdict(self._limits),
            "environment": own if self.kind == "postgresql" else {},
        }
        limits = ProcessLimits(
            seconds=self._limits.seconds, memory_bytes=self._limits.memory_bytes, writes=writes
        )
        work = f"{_HERE}:{act}_here"
        return SUBPROCESSES.call(work, {"place": place, **given}, limits=limits, job=job)


def engine(url: str, limits: RowLimits) -> Engine:
    """The database at an address; nothing is opened before it is used."""
    scheme = url.partition(":")[0]
    if scheme in ("postgresql", "postgres"):
        return PostgresEngine(url, limits=limits)
    made = SqliteEngine if scheme == "sqlite" else DuckEngine
    return made(_path(url), limits=limits)


def _path(url: str) -> Path:
    scheme = url.partition(":")[0]
    if scheme not in ("sqlite", "duckdb") or not url.startswith(f"{scheme}:///"):
        raise Misconfigured(f"{scheme!r} is not the address of a database", hint=HINT)
    # Three slashes and a path relative to here; a fourth one makes it absolute.
    return Path(unquote(urlsplit(url).path)[1:]).expanduser()


def _absolute(url: str) -> str:
    """The address with the whole path of its file: a child may stand in another folder."""
    scheme = url.partition(":")[0]
    if scheme in ("postgresql", "postgres"):
        return url
    return f"{scheme}:///{quote(str(_path(url).absolute()))}"


def query_here(
    job: Job, *, place: Mapping[str, Any], sql: str, parameters: Parameters, rows: int
) -> Json:
    """Query a database from this process; the child calls it."""
    with _opened(place) as (database, limits):
        return told(database.query(sql, parameters, rows, job), limits)


def execute_here(job: Job, *, place: Mapping[str, Any], sql: str, parameters: Parameters) -> Json:
    """Write to a database from this process; the child calls it."""
    with _opened(place) as (database, _):
        return database.execute(sql, parameters, job)


def schema_here(job: Job, *, place: Mapping[str, Any]) -> Json:
    """The tables of a database, seen from this process; the child calls it."""
    del job
    with _opened(place) as (database, _):
        return cast("Json", [asdict(each) for each in database.schema()])


@contextmanager
def _opened(place: Mapping[str, Any]) -> Generator[tuple[Engine, RowLimits]]:
    limits = RowLimits(**place["limits"])
    os.environ.update(place["environment"])
    try:
        yield engine(place["url"], limits), limits
    finally:
        for name in place["environment"]:
            del os.environ[name]


def _table(told: Mapping[str, Any]) -> Table:
    keys = (
        ForeignKey(tuple(key["columns"]), key["table"], tuple(key["targets"]))
        for key in told["foreign_keys"]
    )
    columns = (Column(**each | {"samples": tuple(each["samples"])}) for each in told["columns"])
    return Table(told["name"], tuple(columns), tuple(keys), told["kind"], told["comment"])
