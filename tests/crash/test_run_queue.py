"""The queue of DBOS: a run waits once, its limits hold, and a dead worker's entries come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.postgres import Server
from tests.waiting import until

from plansmith.engine.run_queue import QueueLimits
from plansmith_postgres.queue import SCHEMA, DbosQueue, DbosTaker


class Advancing:
    """Notes the runs that are advanced, and holds each until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.now = self.most = 0
        self.go = asyncio.Event()

    async def __call__(self, run: str) -> None:
        self.begun.append(run)
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go.wait()
        self.now -= 1


@asynccontextmanager
async def taking(queue: DbosQueue, advancing: Advancing, name: str) -> AsyncIterator[DbosTaker]:
    taker = DbosTaker(queue, name=name, advance=advancing)
    await taker.start()
    try:
        yield taker
    finally:
        advancing.go.set()
        await taker.stop(5)


@pytest.fixture
async def queue(postgres_server: Server, tmp_path: Path) -> AsyncIterator[DbosQueue]:
    made = DbosQueue(postgres_server.new_database(), str(tmp_path))
    yield made
    await made.close()


async def test_a_run_waits_once_as_plain_json_and_all_workers_together_keep_to_the_total(
    queue: DbosQueue, postgres_server: Server
) -> None:
    await queue.open(QueueLimits(per_worker=5, total=2))
    runs = [f"r{number}" for number in range(5)]
    for run in (*runs, *runs):
        assert await queue.add(run)
    assert await queue.waiting() == runs
    found = postgres_server.sql(
        f"SELECT inputs FROM {SCHEMA}.workflow_input", database=queue.address
    )
    assert [json.loads(line)["positionalArgs"] for line in found.splitlines()] == [
        [r] for r in runs
    ]
    advancing = Advancing()
    async with taking(queue, advancing, "host - - 1 1"):
        await until(lambda: advancing.now == 2)
        assert not await queue.add(advancing.begun[0])  # whoever has it may have looked already
        assert {each.worker for each in await queue.taken()} == {"host - - 1 1"}
        advancing.go.set()
        await until(lambda: len(advancing.begun) == 5)

        async def is_empty() -> bool:
            return not await queue.taken()

        await until(is_empty)
    assert advancing.most == 2
    assert sorted(advancing.begun) == runs


async def test_what_a_dead_worker_had_taken_is_taken_by_another_one(queue: DbosQueue) -> None:
    await queue.open(QueueLimits(per_worker=5))
    assert await queue.add("r")
    first, second = Advancing(), Advancing()
    async with taking(queue, first, "host - - 1 1"):
        await until(lambda: first.begun == ["r"])
        left = await queue.taken()
        await queue.hand_on(left)  # as if it were dead: it does not end its entry any more
        assert [each.worker for each in left] == ["host - - 1 1"]
    async with taking(queue, second, "host - - 2 2"):
        await until(lambda: bool(first.begun[1:] or second.begun))
    assert [*first.begun, *second.begun] == ["r", "r"]


async def test_no_more_runs_start_in_a_time_than_the_limit_allows(queue: DbosQueue) -> None:
    await queue.open(QueueLimits(per_worker=5, starts=2, seconds=600))
    for number in range(4):
        assert await queue.add(f"r{number}")
    advancing = Advancing()
    advancing.go.set()
    async with taking(queue, advancing, "host - - 1 1"):

        async def two_have_ended() -> bool:
            return len(advancing.begun) == 2 and not await queue.taken()

        await until(two_have_ended)
        assert await queue.waiting() == ["r2", "r3"]
    assert advancing.begun == ["r0", "r1"]
