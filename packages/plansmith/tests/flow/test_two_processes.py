"""Words that reach a run through another process than the one that conducts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from tests.flow.plans import plan, step

from plansmith import Run, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import NotFound, Refused
from plansmith.plan.events import RunStarted, StepDone
from plansmith.plan.limits import Limits
from plansmith.store.sqlite import SqliteStore

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
    paused = await two.there.pause(run_id, by="ada", reason="lunch")
    assert paused.status is RunStatus.PAUSED
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
        journal = await two.here.runs.journals.load(run.id)
        await journal.append(RunStarted(hash=journal.plan_hash))
    store = two.there.store
    assert isinstance(store, SqliteStore)
    listed = await store.open_runs()
    await store.delete_run(runs[0].id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "open_runs", AsyncMock(return_value=listed))
        with pytest.raises(NotFound):
            await two.there.runs.resume_all()
    async with WAIT(30):
        for run in runs[1:]:
            assert (await two.there.run(run.id)).status is RunStatus.DONE
    assert len(two.calls) == 119
