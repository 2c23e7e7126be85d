"""Background work: the queue of runs, upkeep and retention, whatever workers and databases do."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.waiting import until

from plansmith import Plan, Run, tool
from plansmith.app import Plansmith
from plansmith.engine.ownership import Ownership
from plansmith.engine.processes import this_process
from plansmith.errors import JournalDamaged, StoreAway
from plansmith.plan.events import Event
from plansmith.plan.timing import Timing
from plansmith.run_queue import QueueLimits, RunTaker, Taken
from plansmith.runs.intake import SEEN_FIRST
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store_ports import ProcessInfo
from plansmith.testing import FakeClock
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import ServerWiring
from plansmith_server import upkeep
from plansmith_server.background import RunCarrier
from plansmith_server.ops.logs import Log
from plansmith_server.ops.tasks import background_tasks
from plansmith_server.serve import make_state
from plansmith_server.state import ServerState


class Queue:
    """A queue that answers as it is told, then takes the run."""

    name = "queue"

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.entries: list[Taken] = []
        self.back: list[Taken] = []
        self.left: list[str] = []
        self.hold: asyncio.Event | None = None

    def taker(self, **given: object) -> RunTaker:
        raise NotImplementedError(given)

    async def open(self, limits: QueueLimits | None = None) -> None:
        self._answer()

    def _answer(self) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def add(self, run: str) -> bool:
        self.asked.append(run)
        if self.hold is not None:
            await self.hold.wait()
        return self._answer()

    async def waiting(self) -> Sequence[str]:
        return self.left

    async def taken(self) -> Sequence[Taken]:
        return self.entries

    async def hand_on(self, taken: Sequence[Taken]) -> None:
        self.back += taken

    async def tidy(self) -> None:
        self.entries.clear()

    async def close(self) -> None:
        """Nothing to close."""


def carrier(queue: Queue, clock: FakeClock | None = None) -> RunCarrier:
    return RunCarrier(queue, clock=clock or FakeClock(), log=Log(io.StringIO()))


async def later(clock: FakeClock, work: Awaitable[None]) -> None:
    """Wait for work, and let the time pass for which it waits."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        await clock.advance(2)
    await doing


async def test_a_run_that_a_worker_has_is_sent_again_until_that_worker_has_ended_with_it() -> None:
    queue, clock = Queue(False, False, True), FakeClock()
    carried = carrier(queue, clock)
    carried.send("r")
    await later(clock, carried.flush(5))
    assert queue.asked == ["r", "r", "r"]


async def test_a_run_is_sent_although_the_database_of_the_queue_was_away() -> None:
    queue, clock = Queue(StoreAway("gone"), True, StoreAway("gone")), FakeClock()
    carried = carrier(queue, clock)
    await later(clock, carried.open())
    carried.send("r")
    await later(clock, carried.flush(5))
    assert queue.asked == ["r", "r"]


async def test_what_happens_while_a_run_is_being_sent_sends_it_once_more() -> None:
    queue, clock = Queue(), FakeClock()
    queue.hold = asyncio.Event()
    carried = carrier(queue, clock)
    carried.send("r")
    await asyncio.sleep(0)
    assert queue.asked == ["r"]
    carried.send("r")  # a worker may have looked at the run already
    queue.hold.set()
    await later(clock, carried.flush(5))
    assert queue.asked == ["r", "r"]


async def test_only_what_dead_processes_had_taken_is_put_back_on_the_queue() -> None:
    queue = Queue()
    ownership, machine = Ownership(MemoryStore(), FakeClock()), this_process().rsplit(" ", 2)[0]
    dead, living = Taken("r/1", f"{machine} 999999 1"), Taken("r/2", ownership.me())
    queue.entries = [dead, living]
    await carrier(queue).hand_on(ownership)
    assert queue.back == [dead]


async def test_what_a_person_fires_now_is_sent_to_a_worker_by_every_server(tmp_path: Path) -> None:
    sent, url = asyncio.Event(), f"sqlite:///{tmp_path / 'runs.db'}"
    kept = Plan.model_validate({"goal": "see", "steps": [{"id": "a", "tool": "look"}]})

    @tool(effect="read")
    def look() -> str:
        """See."""
        return "seen"

    async def send(run_id: str) -> Run:
        sent.set()
        return await smith.get(run_id)

    async with Plansmith(tools=[look], store=url) as smith:
        state = SimpleNamespace(
            smith=smith,
            about=ProcessInfo("server"),
            carrier=object(),
            background=SimpleNamespace(until_rest=send),
        )
        async with Plansmith(store=url) as other:  # it has the role
            role = other.runs.journals.ownership.role(f"schedules {smith.runs.journals.folder}")
            async with role, background_tasks(upkeep._fire_schedules(state)):  # type: ignore[arg-type]
                timing = Timing(every_minutes=60)
                await smith.schedules.create(timing=timing, plan=kept, approve=kept.hash, name="n")
                await until(lambda: smith.schedules.execute is send)
                await smith.schedules.fire_now("n")
                await asyncio.wait_for(sent.wait(), 30)


# Upkeep


PLAN = Plan.model_validate({"goal": "g", "steps": [{"id": "a", "tool": "look"}]})


@tool(effect="read")
def look() -> str:
    """Looks."""
    return "seen"


@pytest.mark.parametrize("failure", [ValueError("no"), None])
async def test_orphans_are_adopted_while_and_although_summing_up_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception | None
) -> None:
    log, adopting = io.StringIO(), asyncio.Event()
    wiring = ServerWiring(Settings(store=f"sqlite:///{tmp_path / 'runs.db'}"))
    server = make_state(wiring, log=Log(log), tools=[], store=MemoryStore())

    async def store_summaries() -> None:
        if failure is not None:
            raise failure
        await asyncio.Event().wait()

    async def adopt_orphans() -> None:
        adopting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(server.smith.runs.lists, "store_summaries", store_summaries)
    monkeypatch.setattr(server.background, "_adopt_orphans", adopt_orphans)
    tasks = [asyncio.create_task(each) for each in upkeep.upkeep(server)]
    try:
        await until(adopting.is_set)
        assert server.ready
        await until(lambda: ("runs_not_summed_up" in log.getvalue()) is (failure is not None))
        assert "runs_not_resumed" not in log.getvalue()
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.smith.close()


class DamagedStore(MemoryStore):
    """Later events of a damaged run cannot be read."""

    damaged = ""

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        if run == self.damaged and after:
            raise JournalDamaged("altered")
        return await super().events(run, after=after)


async def test_a_damaged_run_keeps_no_server_from_hearing_what_others_decide() -> None:
    store, log = DamagedStore(), Log(io.StringIO())
    server = make_state(ServerWiring(Settings()), log=log, store=store, tools=[look], agents=[])
    runs = [await server.smith.submit(PLAN) for _ in range(2)]
    for each in runs:
        await server.smith.runs.ask_for_review(each.id, SEEN_FIRST)
        await server.background.adopt(each.id)
    after = await store.wait_news(-1)
    other = Plansmith(store=store, tools=[look])
    for each in runs:
        await other.decide(each.id, approve=PLAN.hash, by="ann")
    store.damaged = runs[0].id

    async def is_over() -> bool:
        return (await server.smith.get(runs[1].id)).status.over

    async with background_tasks(upkeep.follow_decisions(server, after)):
        await until(is_over)
    await server.close()
    await other.close()


async def test_a_plan_that_waits_to_be_started_is_run_by_nothing_else(tmp_path: Path) -> None:
    server = state(tmp_path, "", FakeClock(NOW))
    run = (await server.smith.submit(PLAN)).id
    for starts in (False, True):
        server.background.go_on(run, starts=starts)
        assert await server.background.settle(30, asyncio.Event()) == []
        assert (await server.smith.get(run)).status.over is starts
    await server.close()


async def test_a_plan_that_was_to_be_started_while_another_process_had_it_is_started_then(
    tmp_path: Path,
) -> None:
    server = state(tmp_path, "", clock := FakeClock(NOW))
    run = (await server.smith.submit(PLAN)).id
    other = Ownership(server.smith.store, clock)
    held, _ = await other.claim(run)

    async def is_over() -> bool:
        return (await server.smith.get(run)).status.over

    server.background.go_on(run)  # a person starts it
    await until(lambda: not server.background.busy)
    looks = asyncio.create_task(server.background.keep_looking(released=True))
    try:
        await other.release(held)
        await until(lambda: clock.sleepers > 0)
        await clock.advance(60)
        await until(is_over)
    finally:
        looks.cancel()
        await server.close()


# Retention


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def state(folder: Path, keep: str, clock: FakeClock) -> ServerState:
    settings = Settings(store=f"sqlite:///{folder / 'runs.db'}", keep_runs=keep)
    store = SqliteStore(folder / "runs.db", now=clock.now)
    return make_state(
        ServerWiring(settings), log=Log(io.StringIO()), tools=[look], store=store, clock=clock
    )


async def one_run(server: ServerState) -> str:
    return (await server.smith.run((await server.smith.submit(PLAN)).id)).id


async def test_old_runs_go_at_the_start_and_a_day_later(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    server = state(tmp_path, "2d", clock)
    first = await one_run(server)
    await clock.advance(timedelta(days=1, hours=12).total_seconds())
    second = await one_run(server)
    task = asyncio.create_task(upkeep.prune_daily(server))
    try:
        await until(lambda: clock.sleepers > 0)
        assert await server.smith.store.runs() == [first, second]
        await clock.advance(86_400)
        await until(lambda: clock.sleepers > 0)
        assert await server.smith.store.runs() == [second]
    finally:
        task.cancel()
        await server.smith.close()
