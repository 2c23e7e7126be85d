"""The journal of a run: what is appended together, read again, and written by two processes."""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import AsyncMock

import pytest
from tests.flow.plans import approved, plan, step

from plansmith import Plan, Plansmith, Run, RunStatus, read_plan, tool
from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged, NotFound, PlansmithError, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.events import Event, RunStarted, StepDone
from plansmith.plan.fold import fold
from plansmith.plan.limits import Limits
from plansmith.runs.journals import delete_run
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import MemoryStore

ADA = e.Actor(kind="person", name="ada")
LOOK_STEPS = [
    {"id": "a", "tool": "look"},
    {"id": "b", "tool": "look", "after": ["a"]},
    {"id": "c", "tool": "look", "after": ["b"]},
]
LOOKS = Plan.model_validate({"goal": "look", "steps": LOOK_STEPS})


class MeddlingStore(MemoryStore):
    """Remembers what was appended together; `before` writes first when a type is appended."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.before: dict[str, Callable[[str], Awaitable[None]]] = {}

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Any] = (), **options: Any
    ) -> None:
        types = [event.body.type for event in events]
        for name in types:
            if meddle := self.before.pop(name, None):
                await meddle(events[0].run)
        await super().append(events, values, **options)
        self.batches.append(types)

    def writes(self, *bodies: e.AnyBody) -> Callable[[str], Awaitable[None]]:
        """Returns what a person writes from another process."""

        async def write(run: str) -> None:
            await (await Journal.load(run, store=self, clock=SystemClock())).append(*bodies, by=ADA)

        return write


def looking(store: MeddlingStore) -> tuple[Plansmith, list[str]]:
    calls: list[str] = []

    @tool(effect="read")
    async def look() -> str:
        calls.append("look")
        return "seen"

    return Plansmith(tools=[look], store=store), calls


PAUSE, CANCEL = e.RunPaused(reason="lunch"), e.CancelAsked(reason="no")


@pytest.mark.parametrize(
    ("body", "comes_before", "status", "calls_made"),
    [
        (PAUSE, "run_started", RunStatus.PAUSED, 0),
        (CANCEL, "run_started", RunStatus.CANCELLED, 0),
        (CANCEL, "run_finished", RunStatus.CANCELLED, 3),
    ],
)
async def test_what_a_person_writes_before_the_first_or_the_last_append_counts(
    body: e.AnyBody, comes_before: str, status: RunStatus, calls_made: int
) -> None:
    """The run does not begin then, or does not end as it would have."""
    store = MeddlingStore()
    smith, calls = looking(store)
    made = await smith.submit(LOOKS)
    store.before[comes_before] = store.writes(body)
    await smith.run(made.id)
    run = await smith.run(made.id)  # whoever looks next ends it
    assert (run.status, len(calls)) == (status, calls_made)
    assert all(step.status == ("done" if calls else step.status) for step in run.steps.values())
    begun = "run_started" in [each for batch in store.batches for each in batch]
    assert begun is (calls_made > 0)


class ReadAtOnce(MemoryStore):
    """Lets the journal read back what it writes, before it hears that it is written."""

    journal: Journal

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        await super().append(events, values, **options)
        await self.journal.catch_up()


async def test_a_journal_that_catches_up_while_it_writes_takes_no_event_twice() -> None:
    store = ReadAtOnce()
    store.journal = journal = Journal("r", store=store, clock=SystemClock())
    await journal.append(e.RunCreated(request="x"), by=e.Actor(kind="person"))
    await journal.append(e.RunPaused(reason="so"))
    await journal.append(e.RunResumed())
    assert [event.number for event in journal.events] == [1, 2, 3]
    assert journal.run.last == journal.events[-1]
    assert not journal.run.paused


class Counting(MemoryStore):
    """Counts the events and values that are read, and the lists of all runs."""

    read = values = lists = 0

    async def runs(self) -> Sequence[str]:
        self.lists += 1
        return await super().runs()

    async def get(self, digest: str) -> Json:
        self.values += 1
        return await super().get(digest)

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        found = await super().events(run, after=after)
        self.read += len(found)
        return found


@tool(effect="write")
def order() -> str:
    return "ordered"


def questions(count: int) -> Plan:
    return read_plan({"steps": [{"id": f"q{n}", "question": f"Q{n}?"} for n in range(count)]})


async def test_a_change_of_a_repeated_run_reads_that_run_alone_as_long_as_it_is_there() -> None:
    store = Counting()
    smith = Plansmith(tools=[order], store=store)
    first = await approved(smith, plan(step("a", "order")))
    again = await smith.rerun(first.id, by="ada")
    reasons: list[tuple[str, ...]] = []
    for title in ("one", "two"):
        run = await smith.edit(again.id, plan(step("a", "order", title=title)), by="ada")
        assert run.last is not None
        assert isinstance(run.last.body, e.ReviewAsked)
        reasons.append(run.last.body.reasons)
        await delete_run(smith.runs.journals, first.id, by="ada")
    told = f"a was done in run {first.id} and is done again"
    assert [told in each for each in reasons] == [True, False]
    assert store.lists == 0


async def test_a_run_that_another_process_deleted_is_not_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Plansmith(store=url) as here, Plansmith(store=url) as there:
        run = await here.do(questions(2))
        await there.cancel(run.id, by="bob")
        await delete_run(there.runs.journals, run.id, by="bob")
        with pytest.raises(NotFound):
            await here.answer(run.id, "q0", "yes", by="ada")


async def test_damage_of_what_was_read_before_is_seen_and_nothing_of_it_is_approved_or_run(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    async with Plansmith(store=f"sqlite:///{path}", tools=[order]) as smith:
        run = await smith.submit(read_plan({"steps": [{"id": "a", "tool": "order"}]}))
        assert run.plan is not None
        await smith.pause(run.id, by="ada")
        await smith.resume(run.id, by="ada")
        with closing(sqlite3.connect(path)) as other:
            other.execute(
                "UPDATE events SET body = replace(body, 'order', 'ordeR') WHERE number = 2"
            )
            other.commit()
        assert "event 2" in (await smith.get(run.id)).damage
        with pytest.raises(PlansmithError):
            await smith.decide(run.id, approve=run.plan.hash, by="ada")
        with pytest.raises(JournalDamaged):
            await smith.run(run.id)


async def test_a_journal_whose_end_was_set_aside_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    other = SqliteStore(path)
    async with Plansmith(store=f"sqlite:///{path}") as smith:
        run = await smith.do(questions(2))
        await smith.answer(run.id, "q0", "yes", by="ada")
        events = await other.events(run.id)
        await other.set_aside(run.id, len(events) - 2, ())
        assert "q0" in (await smith.get(run.id)).questions
    await other.close()


async def test_each_of_many_answers_reads_a_few_events_and_not_the_whole_journal() -> None:
    store = Counting()
    smith = Plansmith(store=store)
    run = await smith.do(questions(40))
    for number in range(40):
        before, values = store.read, store.values
        run = await smith.answer(run.id, f"q{number}", f"yes {number}", by="ada")
        # The first one reads what the run wrote since it was created, the others what they wrote.
        assert store.read - before <= (6 if number else 50)
        assert store.values - values <= 1
    assert [each.result for each in run.steps.values()] == [f"yes {n}" for n in range(40)]
    assert (await smith.run(run.id)).status is RunStatus.DONE


async def test_an_answer_is_as_much_work_with_many_steps_as_with_few() -> None:
    async def work(count: int) -> int:
        done = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal done
            frame.f_trace_opcodes = "plansmith" in frame.f_code.co_filename
            done += event == "opcode"
            return trace

        smith, before = Plansmith(store=MemoryStore()), sys.gettrace()
        run = await smith.do(questions(count))
        await smith.answer(run.id, "q0", "yes", by="ada")
        sys.settrace(trace)
        try:
            await smith.answer(run.id, "q1", "yes", by="ada")
        finally:
            sys.settrace(before)
        return done

    assert await work(320) < 1.1 * await work(20)


async def test_a_result_that_its_reader_changed_is_read_anew() -> None:
    smith = Plansmith(store=MemoryStore())
    run = await smith.do(questions(2))
    run = await smith.answer(run.id, "q0", {"rows": [1]}, by="ada")
    run.steps["q0"].result["rows"].append(2)  # type: ignore[index, union-attr, call-overload]
    run = await smith.answer(run.id, "q1", "yes", by="ada")
    assert run.result("q0") == {"rows": [1]}


async def test_a_report_has_the_results_that_were_kept_and_a_copied_run_folds_the_same() -> None:
    smith = Plansmith(store=MemoryStore())
    run = await smith.do(questions(2))
    run = await smith.answer(run.id, "q0", "forty-two", by="ada")
    events = await smith.store.events(run.id)
    for number, event in enumerate(events[1:], start=1):
        before = fold(events[:number])
        assert fold([event], pickle.loads(pickle.dumps(before))) == fold([event], before)
    run = await smith.cancel(run.id, by="ada")
    assert "forty-two" in run.report
    assert run.report == (await smith.get(run.id)).report


async def test_a_value_is_stored_without_an_event_too() -> None:
    store, value = MemoryStore(), content_of({"rows": [1]})
    await store.append((), [value])
    assert await store.get(value.digest) == {"rows": [1]}


WAIT = asyncio.timeout


class Two:
    """Two Plansmiths on one file, as two processes have them, and a tool that waits."""

    def __init__(self, path: Path) -> None:
        self.entered, self.leave = asyncio.Event(), asyncio.Event()
        self.calls: list[str] = []
        self.stopped = False

        @tool(effect="read")
        async def hold() -> str:
            self.entered.set()
            try:
                await self.leave.wait()
            except asyncio.CancelledError:
                self.stopped = True
                raise
            return "held"

        @tool(effect="read")
        async def look(x: Any = None) -> Any:
            self.calls.append(str(x))
            return {"seen": x}

        limits = Limits(first_wait_s=0)
        self.here, self.there = (
            Plansmith(tools=[hold, look], store=f"sqlite:///{path}", limits=limits)
            for _ in range(2)
        )

    async def begin(self, *steps: dict[str, Any]) -> tuple[str, asyncio.Future[Run]]:
        """Runs a plan here until its tool waits; returns the run's id, and its execution."""
        run = await self.here.submit(plan(*steps))
        running = asyncio.ensure_future(self.here.run(run.id))
        await self.entered.wait()
        return run.id, running


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    both = Two(tmp_path / "runs.db")
    yield both
    await both.here.close()
    await both.there.close()


async def test_an_answer_from_elsewhere_lets_the_run_go_on_and_cuts_nothing_off(two: Two) -> None:
    run_id, running = await two.begin(
        step("h", "hold"),
        {"id": "q", "question": "what?"},
        step("a", inputs={"x": "{{q}}"}),
        step("b", inputs={"x": "{{h}}"}),
    )
    async with WAIT(30):
        await two.there.answer(run_id, "q", "mine", by="ada")
        async for event in two.here.events(run_id, follow=True):
            if isinstance(event.body, StepDone) and event.body.step == "a":
                break  # while h is still held: the answer was heeded at once
        two.leave.set()
        run = await running
    assert run.status is RunStatus.DONE
    assert two.calls == ["mine", "held"]
    assert not two.stopped


async def test_a_pause_from_elsewhere_lets_running_calls_end(two: Two) -> None:
    run_id, running = await two.begin(step("h", "hold"), step("b", inputs={"x": "{{h}}"}))
    assert (await two.there.pause(run_id, by="ada", reason="lunch")).status is RunStatus.PAUSED
    two.leave.set()
    async with WAIT(30):
        run = await running
    assert run.status is RunStatus.PAUSED
    assert run.steps["h"].result == "held"
    assert two.calls == []
    await two.there.resume(run.id, by="ada")
    run = await two.there.run(run.id)
    assert run.status is RunStatus.DONE


async def test_a_cancel_from_elsewhere_stops_the_call_where_it_runs(two: Two) -> None:
    run_id, running = await two.begin(step("h", "hold"), step("b", after=["h"]))
    async with WAIT(30):
        cancelled = await two.there.cancel(run_id, by="ada")
        run = await running
    assert two.stopped
    assert cancelled.status is run.status is RunStatus.CANCELLED
    assert {state.status.value for state in run.steps.values()} == {"cancelled"}


async def test_a_plan_is_not_edited_under_a_running_call(two: Two) -> None:
    run_id, running = await two.begin(step("h", "hold"))
    with pytest.raises(Refused, match="pause it first"):
        await two.there.edit(run_id, plan(step("b")), by="ada")
    two.leave.set()
    await running


async def test_a_run_created_here_begins_with_what_was_decided_elsewhere_meanwhile(
    two: Two,
) -> None:
    paused, cancelled, edited = [
        (await two.here.submit(plan(step("a", inputs={"x": name})))).id for name in "pce"
    ]
    await two.there.pause(paused, by="ann")
    await two.there.cancel(cancelled, by="ann")
    await two.there.edit(edited, plan(step("a", inputs={"x": "new"})), by="ann")
    assert (await two.here.run(paused)).status is RunStatus.PAUSED
    assert (await two.here.run(cancelled)).status is RunStatus.CANCELLED
    assert (await two.here.run(edited)).status is RunStatus.DONE
    assert two.calls == ["new"]


async def test_a_run_created_here_and_executed_elsewhere_is_not_executed_again(two: Two) -> None:
    run = await two.here.submit(plan(step("a", inputs={"x": 1})))
    await two.there.run(run.id)
    assert (await two.here.run(run.id)).status is RunStatus.DONE
    assert two.calls == ["1"]


async def test_a_run_deleted_while_all_are_resumed_keeps_no_other_from_going_on(two: Two) -> None:
    runs = [await two.here.submit(plan(step("a", "look", inputs={"x": n}))) for n in range(120)]
    for run in runs:
        journal = await two.here.runs.journals.load_verified(run.id)
        await journal.append(RunStarted(hash=journal.plan_hash))
    store = two.there.store
    assert isinstance(store, SqliteStore)
    listed = await store.open_runs()
    await store.delete_run(runs[0].id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "open_runs", AsyncMock(return_value=listed))
        with pytest.raises(NotFound):
            await two.there.runs.resume_all()
    for run in runs[1:]:
        assert (await two.there.get(run.id)).status is RunStatus.DONE
    assert len(two.calls) == 119
