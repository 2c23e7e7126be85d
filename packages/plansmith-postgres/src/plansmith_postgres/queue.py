"""The queue on which runs wait for a worker, in the same database as the runs, and who takes them.

Each run is taken as a workflow of DBOS that ends when the run parks or ends.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import Any, Final, TypeVar

from dbos import (
    DBOS,
    DBOSClient,
    DBOSConfig,
    EnqueueOptions,
    WorkflowHandle,
    WorkflowSerializationFormat,
    WorkflowStatus,
)
from sqlalchemy.exc import SQLAlchemyError

from plansmith.errors import StoreAway
from plansmith.plan.sentence import Sentence
from plansmith.run_queue import QueueLimits, RunTaker, Taken
from plansmith_postgres.connection import schema_of

_T = TypeVar("_T")
# Beside the schemas of stores, all of which begin with plansmith.
SCHEMA: Final = "dbos_plansmith"
APPLICATION: Final = "plansmith"
WORKFLOW: Final = "advance"
# The same in every release: a workflow holds no more than the name of a run.
VERSION: Final = "1"
_WAITING: Final = "ENQUEUED"
_TAKEN: Final = "PENDING"
_OVER: Final = ["SUCCESS", "ERROR", "CANCELLED"]
_KEPT: Final = timedelta(hours=1)
_SOME: Final = 1000
_CONNECTIONS: Final = 3


class DbosQueue:
    """The queue of the runs of one store and folder; a run waits on it once at most."""

    def __init__(self, url: str, folder: str) -> None:
        self.address, schema = schema_of(url)
        self.name = f"{schema} {folder}"
        self._client: DBOSClient | None = None
        # Few threads, and our own: tools must not wait while the database is away.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="plansmith-queue")

    def taker(self, *, name: str, advance: Callable[[str], Coroutine[Any, Any, None]]) -> RunTaker:
        """Returns what takes runs from this queue for the process of a name."""
        return DbosTaker(self, name=name, advance=advance)

    async def open(self, limits: QueueLimits | None = None) -> None:
        """Makes the tables and the queue if they are missing; changes the limits to those given."""
        await self.do(lambda: self._open(limits))

    def _open(self, limits: QueueLimits | None) -> None:
        # It would tell of every start and offer its services; what matters is in our own log.
        logging.getLogger("dbos").setLevel(logging.WARNING)
        DBOS.migrate(self.address, schema=SCHEMA)
        if limits is None and self._opened.retrieve_queue(self.name) is not None:
            return
        given = limits or QueueLimits()
        per_worker = min(given.per_worker, given.total or given.per_worker)
        self._opened.register_queue(
            self.name,
            worker_concurrency=per_worker,
            global_concurrency=given.total,
            limiter={"limit": given.starts, "period": given.seconds} if given.starts else None,
            polling_interval_sec=given.poll_s,
        )

    async def add(self, run: str) -> bool:
        """Puts a run on the queue; false if a worker has it, who may have looked already."""
        return await self.do(lambda: self._add(run))

    def _add(self, run: str) -> bool:
        name = f"{run}/{secrets.token_hex(6)}"
        options = EnqueueOptions(
            workflow_name=WORKFLOW,
            queue_name=self.name,
            workflow_id=name,
            deduplication_id=run,
            duplication_policy="return-existing",
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        handle: WorkflowHandle[None] = self._opened.enqueue(options, run)
        return handle.get_workflow_id() == name or handle.get_status().status == _WAITING

    async def waiting(self) -> list[str]:
        """Returns the runs that wait for a worker, the longest waiting first."""
        found = await self.do(lambda: self._list(_WAITING))
        return [each.workflow_id.rpartition("/")[0] for each in found]

    async def taken(self) -> list[Taken]:
        """Returns what workers have taken from the queue and not ended."""
        found = await self.do(lambda: self._list(_TAKEN))
        return [Taken(each.workflow_id, each.executor_id or "") for each in found]

    def _list(self, *status: str, before: str | None = None) -> Sequence[WorkflowStatus]:
        return self._opened.list_workflows(
            status=[*status],
            queue_name=self.name,
            completed_before=before,
            limit=_SOME if before else None,
            load_input=False,
            load_output=False,
        )

    async def hand_on(self, taken: Sequence[Taken]) -> None:
        """Puts what dead workers had taken back on the queue."""
        if taken:
            names = [each.entry for each in taken]
            await self.do(lambda: self._opened.resume_workflows(names, queue_name=self.name))

    async def tidy(self) -> None:
        """Removes what ended more than an hour ago; the journals of the runs tell what happened."""
        await self.do(self._tidy)

    def _tidy(self) -> None:
        before = (datetime.now(UTC) - _KEPT).isoformat()
        while old := self._list(*_OVER, before=before):
            self._opened.delete_workflows([each.workflow_id for each in old])

    @property
    def _opened(self) -> DBOSClient:
        if self._client is None:
            self._client = DBOSClient(
                system_database_url=self.address,
                dbos_system_schema=SCHEMA,
                application_name=APPLICATION,
                system_database_pool_size=2,
                retry_connection_errors=False,
            )
        return self._client

    async def do(self, work: Callable[[], _T]) -> _T:
        """Does blocking work in a thread; raises `StoreAway` if the database does not answer."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except SQLAlchemyError as error:
            why = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            raise StoreAway(
                Sentence("the queue of runs does not answer: {why}", why=why)
            ) from error

    async def close(self) -> None:
        """Closes the connections; nothing may be asked of the queue afterwards."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.get_running_loop().run_in_executor(self._threads, client.destroy)
        self._threads.shutdown(wait=False)


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
        loop = asyncio.get_running_loop()
        # In a thread: DBOS takes the loop it is started in for its own, and its threads too.
        await self._queue.do(lambda: self._start(loop))

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
