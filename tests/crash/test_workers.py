"""Workers and their queue: no run is lost, limits hold, no effect is repeated without asking."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.crash.test_several_servers import approve, serving
from tests.postgres import Server
from tests.waiting import until
from tests.worker_processes import TOOLS, Workers, acting, all_are, approved, status

from plansmith.plan.timing import Timing
from plansmith.run_queue import QueueLimits
from plansmith_postgres.queue import SCHEMA, DbosQueue, DbosTaker


@pytest.fixture
async def workers(tmp_path: Path, postgres_server: Server) -> AsyncIterator[Workers]:
    made = Workers(tmp_path, postgres_server.new_database())
    yield made
    await made.stop_all()


async def test_two_workers_share_the_runs_that_others_decide_and_hold_nothing_of_parked_runs(
    workers: Workers,
) -> None:
    started = await asyncio.gather(
        workers.start("one", "--concurrency", "2"),
        workers.start("two", "--concurrency", "2", is_forked=False),
    )
    queue = workers.queue()
    async with workers.smith() as smith:
        runs = [await approved(smith, acting(f"a{n}", f"b{n}", ask=True)) for n in range(4)]
        await until(lambda: sorted(workers.effects) == ["a0", "a1", "a2", "a3"])
        assert workers.doers == {each.pid for each in started}
        code, listed = await workers.command("store", "workers")
        assert code == 0
        assert sorted(each["concurrency"] for each in listed["processes"]) == [2, 2]
        assert sorted(run for each in listed["processes"] for run in each["runs"]) == sorted(runs)
        workers.let("a0", "a1", "a2", "a3")
        await until(lambda: all_are(smith, "asking", *runs))

        async def nothing_is_held() -> bool:
            owned = await smith.runs.journals.ownership.in_use(set(runs))
            return not (owned or await queue.taken() or await queue.waiting())

        await until(nothing_is_held)
        for run in runs:
            await smith.answer(run, "q", "yes", by="ada")
        await until(lambda: len(workers.effects) == 8)
        # One of them stops: its calls end first, and the other one ends its runs.
        started[0].send_signal(signal.SIGTERM)
        await until(lambda: "draining" in workers.log(started[0]))
        workers.let()
        assert await started[0].wait() == 0
        await until(lambda: all_are(smith, "done", *runs))
    assert sorted(workers.effects) == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]
    await queue.close()


async def test_a_killed_worker_s_runs_go_on_at_its_successor_and_doubtful_effects_are_asked(
    workers: Workers,
) -> None:
    first = await workers.start("one", "--concurrency", "2")
    async with workers.smith() as smith:
        runs = [await approved(smith, acting(f"a{n}", f"b{n}")) for n in range(3)]
        # The third one waits on the queue, and the worker dies with two calls in flight.
        await until(lambda: len(workers.effects) == 2)
        first.kill()
        await first.wait()
        store = smith.store
        cut_off = [run for run in runs if await store.claim_of(run)]
        await workers.start("one", "--concurrency", "2")
        workers.let()

        async def asked_and_done() -> bool:
            found = dict(zip(runs, await status(smith, *runs), strict=True))
            return all(found[run] == ("asking" if run in cut_off else "done") for run in runs)

        await until(asked_and_done)
        assert len(cut_off) == 2
        for run in cut_off:
            await smith.answer(run, "unknown:s0", "done", by="ada")
        await until(lambda: all_are(smith, "done", *runs))
    assert sorted(workers.effects) == ["a0", "a1", "a2", "b0", "b1", "b2"]


@pytest.mark.long
async def test_a_worker_that_drains_for_no_time_cuts_the_call_off_and_says_so(
    workers: Workers,
) -> None:
    first = await workers.start("one", "--drain", "0")
    async with workers.smith() as smith:
        run = await approved(smith, acting("a", "b"))
        await until(lambda: workers.effects == ["a"])
        first.send_signal(signal.SIGTERM)
        assert await first.wait() == 7
        assert "Runs whose calls were cut off: 1." in workers.log(first)
        await workers.start("two")
        await until(lambda: all_are(smith, "asking", run))
    assert workers.effects == ["a"]


@pytest.mark.long
async def test_a_worker_without_the_tool_leaves_the_run_to_others_and_at_last_pauses_it(
    workers: Workers,
) -> None:
    (workers.folder / "other.py").write_text(TOOLS.replace("def act", "def sing"))
    await workers.start("one", tools="other.py")
    async with workers.smith() as smith:
        run = await approved(smith, acting("a"))
        await until(lambda: all_are(smith, "paused", run))
        assert workers.effects == []
        assert "act" in (await smith.runs.journals.load_verified(run)).run.reason
        await workers.start("two")
        workers.let()
        await smith.resume(run, by="ada")
        await until(lambda: all_are(smith, "done", run))
    assert workers.effects == ["a"]


@pytest.mark.long
async def test_a_server_with_an_engine_shows_and_decides_and_a_worker_executes(
    workers: Workers,
) -> None:
    serving_, working = (
        serving(workers.folder, workers.url, "web", "--engine", "dbos"),
        workers.start("one"),
    )
    async with serving_ as web, asyncio.timeout(200):
        worker = await working
        await until(web.is_ready)
        given = acting("a", "b", ask=True).model_dump(mode="json", exclude_unset=True)
        run = (await web.post("/v1/runs", {"plan": given}))["id"]
        await web.until(run, "reviewing")
        await approve(web, run)
        await until(lambda: workers.effects == ["a"])
        workers.let()
        await web.follow(run, "question_asked")
        await web.post(f"/v1/runs/{run}/answers", {"question": "q", "answer": "yes"})
        await web.follow(run, "run_finished")
        assert (await web.run(run))["status"] == "done"
    assert workers.effects == ["a", "b"]
    assert workers.doers == {worker.pid}


@pytest.mark.long
async def test_workers_alone_fire_a_schedule_and_execute_its_run(workers: Workers) -> None:
    await asyncio.gather(*(workers.start(name) for name in ("one", "two")))
    workers.let()
    async with workers.smith() as smith:
        plan = acting("a")
        at = datetime.now(UTC) + timedelta(seconds=5)
        soon = Timing(once_at=at.replace(tzinfo=None).isoformat(timespec="seconds"))
        await smith.schedules.create(timing=soon, plan=plan, approve=plan.hash, by="ada")
        await until(lambda: workers.effects == ["a"])

        async def has_ended() -> bool:
            [schedule] = await smith.schedules.store.schedules()
            fires = await smith.schedules.store.fires(schedule.id, limit=5)
            return [fire.state.value for fire in fires] == ["done"]

        await until(has_ended)
    assert workers.effects == ["a"]


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
