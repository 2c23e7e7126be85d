"""What this package brings for `postgresql://` addresses, by the entry point `plansmith.stores`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith_postgres.store import PostgresStore

if TYPE_CHECKING:
    from plansmith.engine.run_queue import RunQueue
    from plansmith.ports import Finding
    from plansmith_postgres import examine as server
else:
    lazy_modules(globals(), server="plansmith_postgres.examine")


def open_store(url: str) -> PostgresStore:
    """Returns the store at an address; opens nothing before its first use."""
    return PostgresStore(url)


async def examine(url: str) -> list[Finding]:
    """Checks the server of a store."""
    return await server.examine_server(url)


def run_queue(url: str, folder: str) -> RunQueue:
    """Returns the queue of the runs of a store and folder; says what is missing to have one."""
    try:
        queue: RunQueue = import_module("plansmith_postgres.queue").DbosQueue(url, folder)
    except ModuleNotFoundError as error:
        hint = "pip install packages/* 'plansmith[scale]'"
        raise Misconfigured(Sentence("worker.needs_package", name=error.name), hint=hint) from None
    return queue
