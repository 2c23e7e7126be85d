"""Checks the server of a store, for `plansmith doctor`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from plansmith.errors import PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith.ports import Finding
from plansmith.store.doctor import finding_of
from plansmith.store.sql import refuse_other_version
from plansmith_postgres.connection import Connection, schema_version


async def examine_server(url: str) -> list[Finding]:
    """Checks that a server can be reached, knows our tables, and is not blocked."""
    connection = Connection(url, patience_s=0, preparing=False)
    look: Callable[[Any, bool], Awaitable[list[Finding]]] = _look_at_server
    try:
        return await connection.use(look)
    except PlansmithError as error:
        return [finding_of("server", error)]
    finally:
        await connection.close()


async def _look_at_server(connection: Any, _: bool) -> list[Finding]:  # noqa: FBT001 - as `use` calls it
    schema = await schema_version(connection)
    refuse_other_version("the schema plansmith", schema)
    if schema == 0:
        return [
            Finding(
                "note",
                "schema",
                Sentence("there are no tables yet; they are made when the store is first used"),
            )
        ]
    version, size = await (await connection.execute(_SERVER)).fetchone()
    owners = [str(row[0]) for row in await (await connection.execute(_OWNERS)).fetchall()]
    held = Sentence("another session blocks writers: {owners}", owners=[*owners])
    return [
        Finding(
            "ok",
            "server",
            Sentence(
                "PostgreSQL {version}, {size} bytes in the schema plansmith",
                version=version,
                size=size,
            ),
        ),
        Finding("warning", "lock", held, Sentence("if it hangs, end it with pg_terminate_backend"))
        if owners
        else Finding("ok", "lock", Sentence("free")),
    ]


_SERVER: Final = """
    SELECT current_setting('server_version'), coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""
_OWNERS: Final = """
    SELECT DISTINCT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation
    WHERE relnamespace = current_schema()::regnamespace AND granted AND mode IN
        ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
