"""A run that is to go on waits on the queue in the end, whatever workers and the database do."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Sequence
from pathlib import Path
from types import SimpleNamespace

from tests.waiting import until

from plansmith import Plan, Run, tool
from plansmith.app import Plansmith
from plansmith.engine.ownership import Owners
from plansmith.engine.processes import ProcessKind, this_process
from plansmith.engine.run_queue import QueueLimits, RunTaker, Taken
from plansmith.errors import StoreAway
from plansmith.plan.timing import Timing
from plansmith.store.memory import MemoryStore
from plansmith.testing import FakeClock
from plansmith_server import upkeep
from plansmith_server.background import RunCarrier
from plansmith_server.ops.logs import Log
from plansmith_server.ops.tasks import beside


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
    owners, machine = Owners(MemoryStore(), FakeClock()), this_process().rsplit(" ", 2)[0]
    dead, living = Taken("r/1", f"{machine} 999999 1"), Taken("r/2", owners.me())
    queue.entries = [dead, living]
    await carrier(queue).hand_on(owners)
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
            kind=ProcessKind("server"),
            carrier=object(),
            background=SimpleNamespace(until_rest=send),
        )
        async with Plansmith(store=url) as other:  # it has the role
            role = other.runs.journals.owners.role(f"schedules {smith.runs.journals.folder}")
            async with role, beside(upkeep._fire_schedules(state)):  # type: ignore[arg-type]
                timing = Timing(every_minutes=60)
                await smith.schedules.create(timing=timing, plan=kept, approve=kept.hash, name="n")
                await until(lambda: smith.schedules.firing.execute is send)
                await smith.schedules.fire_now("n")
                await asyncio.wait_for(sent.wait(), 30)
