"""Takes runs from the queue, each as a workflow of DBOS that ends when the run parks or ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from math import ceil
from typing import Any, Final

from dbos import DBOS, DBOSConfig, WorkflowSerializationFormat
from sqlalchemy.exc import SQLAlchemyError

from plansmith.adapters.engines.dbos.queue import (
    APPLICATION,
    SCHEMA,
    VERSION,
    WORKFLOW,
    DbosQueue,
)
from plansmith.errors import StoreAway
from plansmith.plan.sentence import Sentence

_CONNECTIONS: Final = 3


class DbosTaker:
    """Has DBOS take runs for this process; `advance` goes on with one as far as it goes.

    DBOS keeps one application a process, so a process has one of these.
    """

    def __init__(
        self, queue: DbosQueue, *, name: str, advance: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        self._queue = queue
        self._name = name
        self._advance = advance

    async def start(self) -> None:
        """Begins to take runs."""
        loop = asyncio.get_running_loop()
        try:
            # In a thread: DBOS takes the loop it is started in for its own, and its threads too.
            await asyncio.to_thread(self._start, loop)
        except SQLAlchemyError as error:
            raise StoreAway(Sentence("worker.queue_silent", why=error)) from error

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        DBOS(
            config=DBOSConfig(
                name=APPLICATION,
                system_database_url=self._queue.address,
                dbos_system_schema=SCHEMA,
                sys_db_pool_size=_CONNECTIONS,
                # A process of its own in every start: no other one may go on with its workflows.
                executor_id=self._name,
                application_version=VERSION,
                use_listen_notify=False,
                run_migrations=False,
                enable_otlp=False,
                log_level="WARNING",
            )
        )
        _log_with_ours()

        # Without a limit of attempts: a run that was interrupted often is not dead.
        @DBOS.workflow(
            name=WORKFLOW,
            max_recovery_attempts=None,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        async def advance(run: str) -> None:  # pyright: ignore[reportUnusedFunction]
            going = asyncio.run_coroutine_threadsafe(self._advance(run), loop)
            await asyncio.wrap_future(going)

        DBOS.listen_queues([self._queue.name])
        DBOS.launch()

    async def stop(self, seconds: float) -> None:
        """Takes no more runs from now on; waits for those taken, for so many seconds at most."""
        stop = partial(DBOS.destroy, destroy_registry=True)
        await asyncio.to_thread(stop, workflow_completion_timeout_sec=ceil(seconds))


def _log_with_ours() -> None:
    """Has what DBOS logs written by our own log, not a second time by DBOS."""
    log = logging.getLogger("dbos")
    log.handlers.clear()
    log.propagate = True
