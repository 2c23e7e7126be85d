"""Workers share the runs of a store: none is lost, and no effect is repeated without asking."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.postgres import Server
from tests.waiting import until
from tests.worker_processes import Workers, acting, approved, status


@pytest.fixture
async def workers(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: Server
) -> AsyncIterator[Workers]:
    made = Workers(
        tmp_path, postgres_server.new_database(f"workers_{abs(hash(request.node.name))}")
    )
    yield made
    await made.stop_all()


async def test_two_workers_share_the_runs_that_others_decide_and_hold_nothing_of_parked_runs(
    workers: Workers,
) -> None:
    started = await asyncio.gather(
        *(workers.start(name, "--concurrency", "2") for name in ("one", "two"))
    )
    queue = workers.queue()
    async with workers.smith() as smith:
        runs = [await approved(smith, acting(f"a{n}", f"b{n}", ask=True)) for n in range(4)]
        await until(lambda: sorted(workers.effects) == ["a0", "a1", "a2", "a3"])
        assert workers.doers == {each.pid for each in started}
        code, told = await workers.command("workers")
        assert code == 0
        assert sorted(each["concurrency"] for each in told["processes"]) == [2, 2]
        assert sorted(run for each in told["processes"] for run in each["runs"]) == sorted(runs)
        workers.let("a0", "a1", "a2", "a3")

        async def all_ask() -> bool:
            return await status(smith, *runs) == ["waiting"] * 4

        await until(all_ask)

        async def nothing_is_held() -> bool:
            owned = await smith.runs.journals.owners.owned(set(runs))
            return not (owned or await queue.taken() or await queue.waiting())

        await until(nothing_is_held)
        workers.let()
        for run in runs:
            await smith.answer(run, "q", "yes", by="ada")

        async def all_done() -> bool:
            return await status(smith, *runs) == ["done"] * 4

        await until(all_done)
    assert sorted(workers.effects) == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]
    await queue.close()
