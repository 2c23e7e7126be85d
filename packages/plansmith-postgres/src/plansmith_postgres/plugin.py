"""What this package brings for `postgresql://` addresses, by the entry point `plansmith.stores`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Misconfigured, PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith.ports import Finding
from plansmith.store.sql import require_same_version
from plansmith_postgres.connection import Connection, schema_version
from plansmith_postgres.store import PostgresStore

if TYPE_CHECKING:
    from plansmith.run_queue import RunQueue

_SERVER: Final = """
    SELECT current_setting('server_version'), coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""
_OWNERS: Final = """
    SELECT DISTINCT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation
    WHERE relnamespace = current_schema()::regnamespace AND granted AND mode IN
        ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


def open_store(url: str) -> PostgresStore:
    """Returns the store at an address; opens nothing before its first use."""
    return PostgresStore(url)


async def examine(url: str) -> list[Finding]:
    """Checks that a server can be reached, knows our tables, and is not blocked."""
    connection = Connection(url, patience_s=0, preparing=False)
    try:
        return await connection.use(_findings)
    except PlansmithError as error:
        return [Finding("error", "server", error.message, error.hint)]
    finally:
        await connection.close()


async def _findings(connection: Any, attempt: int) -> list[Finding]:
    del attempt
    schema = await schema_version(connection)
    require_same_version("the schema plansmith", schema)
    if schema == 0:
        none = Sentence("there are no tables yet; they are made when the store is first used")
        return [Finding("note", "schema", none)]
    version, size = await (await connection.execute(_SERVER)).fetchone()
    server = Sentence(
        "PostgreSQL {version}, {size} bytes in the schema plansmith", version=version, size=size
    )
    owners = [str(row[0]) for row in await (await connection.execute(_OWNERS)).fetchall()]
    held = Sentence("another session blocks writers: {owners}", owners=[*owners])
    hint = Sentence("if it hangs, end it with pg_terminate_backend")
    free = Finding("ok", "lock", Sentence("free"))
    return [
        Finding("ok", "server", server),
        Finding("warning", "lock", held, hint) if owners else free,
    ]


def run_queue(url: str, folder: str) -> RunQueue:
    """Returns the queue of the runs of a store and folder; says what is missing to have one."""
    try:
        queue: RunQueue = import_module("plansmith_postgres.queue").DbosQueue(url, folder)
    except ModuleNotFoundError as error:
        hint = "pip install packages/* 'plansmith[scale]'"
        raise Misconfigured(Sentence("worker.needs_package", name=error.name), hint=hint) from None
    return queue
