"""Schedules: what is due runs once, under one approval, by the policies, and tells what it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from plansmith import AgentSpec, Effect, Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.config import Settings
from plansmith.errors import InvalidPlan, Misconfigured, Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.origin import Origin
from plansmith.plan.schedules import Fire, FireState, Schedule
from plansmith.plan.timing import Timing, make_timing
from plansmith.ports import Agent, Call
from plansmith.runner.limits import RunLimits
from plansmith.runner.replay import replay
from plansmith.runner.templates import TemplateBook
from plansmith.testing import FakeClock, ScriptedModel

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
HOURLY = Timing(every_minutes=60)


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "look", "steps": list(steps)} | fields)


LOOK = plan({"id": "a", "tool": "look", "inputs": {"x": 1}})
HOLD = plan({"id": "a", "tool": "hold"})
NOTE = plan({"id": "n", "tool": "note", "inputs": {"text": "hello"}})
FLAKY = plan({"id": "f", "tool": "flaky"})


class Desk:
    """A Plansmith whose clock, tools and store a test holds in its hands."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.clock = FakeClock(START)
        self.calls: list[str] = []
        self.leave = asyncio.Event()
        self.inside = 0
        self.broken = False
        self.path = path
        self.options = options
        self.smith = self.another()

    def another(self) -> Plansmith:
        """One more process on the same store."""

        @tool(effect="read")
        async def look(x: Any = None) -> Any:
            """See."""
            self.calls.append(f"look {x}")
            return {"seen": x}

        @tool(effect="read")
        async def hold() -> str:
            """Wait until told."""
            self.calls.append("hold")
            self.inside += 1
            try:
                await self.leave.wait()
            finally:
                self.inside -= 1
            return "held"

        @tool(effect="write")
        async def note(text: str) -> str:
            """Write down."""
            self.calls.append(f"note {text}")
            return text

        @tool(effect="read")
        async def flaky() -> str:
            """Works at times."""
            if self.broken:
                raise ValueError("boom")
            return "fine"

        options: dict[str, Any] = {"limits": RunLimits(first_wait_s=0, tries=1)}
        return Plansmith(
            tools=[look, hold, note, flaky],
            store=f"sqlite:///{self.path}",
            clock=self.clock,
            **options | self.options,
        )

    async def add(self, wanted: Plan = LOOK, timing: Timing = HOURLY, **more: Any) -> Schedule:
        return await self.smith.schedules.create(
            timing=timing, plan=wanted, approve=wanted.hash, by="ada", **more
        )

    async def later(self, **passed: float) -> list[Fire]:
        """Let time pass, deal with what is due, and wait for what came of it."""
        self.clock._elapsed += timedelta(**passed).total_seconds()
        begun = await self.smith.schedules.tick()
        async with asyncio.timeout(120):
            while len(self.smith.schedules.firing.carrying) > self.inside:
                await asyncio.wait(self.smith.schedules.firing.carrying, timeout=0.005)
        return begun

    async def history(self, schedule: Schedule) -> list[tuple[str, str]]:
        """Kind and state of each fire, oldest first."""
        found = await self.smith.schedules.history(schedule.id)
        return [(each.kind.value, each.state.value) for each in found[::-1]]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path / "runs.db")
    yield made
    await made.smith.close()


async def test_each_due_instant_starts_one_run_under_the_one_approval(desk: Desk) -> None:
    schedule = await desk.add(NOTE)
    assert await desk.later(minutes=59) == []
    [fire] = await desk.later(minutes=1)
    assert fire.due == START + timedelta(hours=1)
    assert await desk.smith.schedules.tick() == []
    run = await desk.smith.get(fire.run)
    assert (run.status, run.request, run.approved) == (RunStatus.DONE, "look", NOTE.hash)
    assert run.origin == Origin(kind="schedule", id=schedule.id)
    events = await desk.smith.store.events(run.id)
    [approval] = [each for each in events if isinstance(each.body, e.PlanApproved)]
    assert (approval.by.kind, approval.by.name) == ("person", "ada")
    await desk.later(hours=1)
    assert desk.calls == ["note hello", "note hello"]
    assert await desk.history(schedule) == [("due", "done"), ("due", "done")]


async def test_intervals_are_anchored_to_creation_not_to_the_start_of_a_process(
    desk: Desk,
) -> None:
    schedule = await desk.add(timing=Timing(every_minutes=7))
    await desk.later(minutes=7)
    await desk.smith.close()
    await desk.clock.advance(200)  # a restart in between
    desk.smith = desk.another()
    after = START + timedelta(minutes=14)
    assert (await desk.smith.schedules.next_fires(schedule.id, count=1)) == [after]
    [fire] = await desk.later(minutes=4)
    assert fire.due == after


async def test_missed_fires_become_one_run_and_the_history_tells_of_the_others(
    desk: Desk,
) -> None:
    schedule = await desk.add()
    [fire] = await desk.later(hours=5, minutes=30)
    assert (fire.due, fire.kind) == (START + timedelta(hours=5), "late")
    assert desk.calls == ["look 1"]
    rows = await desk.smith.schedules.history(schedule.id)
    assert [each.state.value for each in rows] == ["done", "missed"]
    words = "4 fires from 2026-01-01 09:00 to 2026-01-01 12:00 UTC"
    assert rows[1].note == f"{words}: missed; the next run makes up for it"
    [fire] = await desk.later(minutes=30)
    assert fire.kind == "due"


async def test_with_none_what_was_missed_is_only_told(desk: Desk) -> None:
    schedule = await desk.add(missed="none")
    assert await desk.later(hours=3, minutes=30) == []
    assert await desk.history(schedule) == [("due", "missed")]
    assert len(await desk.later(minutes=30)) == 1
    assert desk.calls == ["look 1"]


async def test_with_all_what_was_missed_within_the_window_runs_one_after_the_other(
    desk: Desk,
) -> None:
    schedule = await desk.add(missed="all", window_minutes=180)
    await desk.later(hours=6, minutes=30)
    for _ in range(4):
        await desk.later(seconds=0)
    states = [("due", "missed"), ("late", "done"), ("late", "done"), ("late", "done")]
    assert await desk.history(schedule) == states
    assert len(desk.calls) == 3
    rows = await desk.smith.schedules.history(schedule.id)
    assert "older than the window" in rows[-1].note


async def test_while_a_run_goes_on_the_next_fire_is_skipped_and_told(desk: Desk) -> None:
    schedule = await desk.add(HOLD)
    await desk.later(hours=1)
    assert await desk.later(hours=1) == []
    rows = await desk.smith.schedules.history(schedule.id)
    assert rows[0].state is FireState.SKIPPED
    assert rows[0].note == "the run of 2026-01-01 09:00 UTC goes on still"
    desk.leave.set()
    await desk.smith.schedules.carried()
    await desk.later(hours=1)
    assert desk.calls == ["hold", "hold"]


async def test_one_fire_is_queued_and_runs_as_soon_as_it_can(desk: Desk) -> None:
    schedule = await desk.add(HOLD, overlap="queue")
    for _ in range(3):
        await desk.later(hours=1)
    assert await desk.history(schedule) == [
        ("due", "running"),
        ("due", "queued"),
        ("due", "skipped"),
    ]
    desk.leave.set()
    await desk.smith.schedules.carried()
    assert len(await desk.later(seconds=1)) == 1
    assert (await desk.history(schedule))[:2] == [("due", "done"), ("due", "done")]


async def test_with_allow_runs_go_on_side_by_side(desk: Desk) -> None:
    schedule = await desk.add(HOLD, overlap="allow")
    for _ in range(3):
        await desk.later(hours=1)
    assert await desk.history(schedule) == [("due", "running")] * 3
    desk.leave.set()


async def test_failures_in_a_row_pause_a_schedule_with_the_reason(desk: Desk) -> None:
    schedule = await desk.add(FLAKY)
    desk.broken = True
    await desk.later(hours=1)
    desk.broken = False
    await desk.later(hours=1)
    desk.broken = True
    for _ in range(2):
        await desk.later(hours=1)
    assert not (await desk.smith.schedules.get(schedule.id)).paused
    await desk.later(hours=1)
    paused = await desk.smith.schedules.get(schedule.id)
    assert paused.paused
    assert paused.reason == "3 fires in a row failed; the last: failed: f"
    assert await desk.later(hours=2) == []
    desk.broken = False
    resumed = await desk.smith.schedules.resume(schedule.id)
    assert (resumed.paused, resumed.reason) == (False, "")
    rows = await desk.smith.schedules.history(schedule.id)
    assert rows[0].state is FireState.MISSED
    assert "passed while it was paused" in rows[0].note
    [fire] = await desk.later(hours=1)
    assert (await desk.smith.get(fire.run)).status is RunStatus.DONE


async def test_what_cannot_even_begin_counts_as_a_failure_and_the_schedule_goes_on(
    desk: Desk,
) -> None:
    await desk.add(LOOK, name="first")
    desk.options = {}
    await desk.smith.close()
    desk.smith = Plansmith(store=f"sqlite:///{desk.path}", clock=desk.clock)  # the tool is gone
    await desk.later(hours=1)
    [row] = await desk.smith.schedules.history("first")
    assert row.state is FireState.FAILED
    assert "PS101" in row.note
    assert not (await desk.smith.schedules.get("first")).paused


async def test_a_plan_that_is_not_the_approved_one_waits_in_the_inbox(desk: Desk) -> None:
    book = TemplateBook(desk.smith)
    await book.save(LOOK, "watch")
    first = await book.plan("watch")
    schedule = await desk.smith.schedules.create(
        timing=HOURLY, template="watch", approve=first.hash, by="ada"
    )
    await desk.later(hours=1)
    await book.save(plan({"id": "a", "tool": "look", "inputs": {"x": 2}}), "watch")
    [fire] = await desk.later(hours=1)
    run = await desk.smith.get(fire.run)
    assert (run.status, desk.calls) == (RunStatus.REVIEWING, ["look 1"])
    asked = [each.body for each in await desk.smith.store.events(run.id)]
    reasons = [each.reasons for each in asked if isinstance(each, e.ReviewAsked)]
    assert reasons == [("For the schedule watch another plan was approved",)]
    assert (await desk.smith.run(run.id)).status is RunStatus.REVIEWING
    await desk.later(minutes=1)
    assert (await desk.history(schedule))[-1] == ("due", "waiting")
    assert run.plan is not None
    await desk.smith.decide(run.id, approve=run.plan.hash, by="ada")
    await desk.later(minutes=1)
    assert desk.calls == ["look 1", "look 2"]
    assert (await desk.history(schedule))[-1] == ("due", "done")
    await desk.smith.schedules.change(schedule.id, approve=run.plan.hash, by="ada")
    await desk.later(hours=1)
    assert desk.calls == ["look 1", "look 2", "look 2"]


async def test_the_run_of_a_fire_replays_byte_for_byte(desk: Desk) -> None:
    schedule = await desk.add(NOTE)
    [fire] = await desk.later(hours=1)
    assert (await replay(fire.run, desk.smith)).identical
    await desk.smith.schedules.firing.changed(schedule, approved="0" * 64)
    [waiting] = await desk.later(hours=1)
    assert (await replay(waiting.run, desk.smith)).identical


async def test_a_request_is_planned_anew_and_runs_only_as_the_approved_plan(
    tmp_path: Path,
) -> None:
    drafted = LOOK.to_json()
    model = ScriptedModel(drafted, drafted)
    settings = Settings.model_validate({"planner": {"triage": False}})
    limits = RunLimits(first_wait_s=0, tries=1, early_start=False)
    desk = Desk(tmp_path / "runs.db", model=model, settings=settings, limits=limits)
    schedule = await desk.smith.schedules.create(timing=HOURLY, request="look", by="ada")
    [fire] = await desk.later(hours=1)
    run = await desk.smith.get(fire.run)
    assert (run.status, desk.calls) == (RunStatus.REVIEWING, [])
    assert run.plan is not None
    await desk.smith.cancel(run.id, by="ada")
    await desk.smith.schedules.change(schedule.id, approve=run.plan.hash, by="ada")
    [fire] = await desk.later(hours=1)
    assert (await desk.smith.get(fire.run)).status is RunStatus.DONE
    assert desk.calls == ["look 1"]
    assert (await replay(fire.run, desk.smith)).identical
    assert await desk.history(schedule) == [("due", "cancelled"), ("due", "done")]
    await desk.smith.close()


async def test_nothing_is_scheduled_without_the_approval_of_exactly_that_plan(
    desk: Desk,
) -> None:
    with pytest.raises(Refused, match=NOTE.hash):
        await desk.smith.schedules.create(timing=HOURLY, plan=NOTE)
    with pytest.raises(StaleDecision, match=NOTE.hash):
        await desk.smith.schedules.create(timing=HOURLY, plan=NOTE, approve=LOOK.hash)
    with pytest.raises(InvalidPlan):
        await desk.add(plan({"id": "a", "tool": "none"}))
    assert await desk.smith.schedules.all() == []


class Helper:
    """An agent with a card."""

    def __init__(self, spec: AgentSpec) -> None:
        self.spec = spec

    async def work(self, task: str, inputs: Any, call: Call) -> str:
        return task


async def test_what_needs_a_person_is_refused_with_every_reason(tmp_path: Path) -> None:
    watching: Any = {"name": "watcher", "skills": [{"name": "Price monitoring"}]}
    specs = [
        AgentSpec(name="writer"),
        AgentSpec(name="reader", effect=Effect.READ),
        AgentSpec.model_validate(watching),
    ]
    agents: list[Agent] = [Helper(spec) for spec in specs]
    limits = RunLimits(data="ask")
    desk = Desk(tmp_path / "runs.db", agents=agents, limits=limits)
    wanted = plan(
        {"id": "q", "question": "which?"},
        {"id": "w", "agent": "writer", "task": "write"},
        {"id": "r", "agent": "reader", "task": "read"},
        {"id": "m", "agent": "watcher", "task": "watch"},
        {"id": "a", "tool": "look"},
        {"id": "n", "tool": "note", "inputs": {"text": "{{a.seen}}"}},
    )
    with pytest.raises(Refused) as refused:
        await desk.add(wanted)
    reasons = str(refused.value)
    assert "q asks a person" in reasons
    assert "w hands work to writer" in reasons
    assert "n gives note what a brings: asked each time" in reasons
    assert "reader" not in reasons
    assert "watcher" not in reasons
    await desk.smith.close()


async def test_a_once_fires_once_and_is_over(desk: Desk) -> None:
    schedule = await desk.add(timing=Timing(once_at="2026-01-01T10:00", timezone="Europe/Oslo"))
    await desk.later(hours=1)
    assert desk.calls == ["look 1"]
    assert await desk.later(days=400) == []
    assert (await desk.smith.schedules.get(schedule.id)).state == "over"
    with pytest.raises(Refused, match="lies in the past"):
        await desk.add(timing=Timing(once_at="2025-01-01T10:00"))


async def test_run_now_fires_at_once_also_while_paused_and_moves_no_other_fire(
    desk: Desk,
) -> None:
    schedule = await desk.add()
    await desk.smith.schedules.pause(schedule.id, reason="holidays")
    fire = await desk.smith.schedules.fire_now(schedule.name)
    await desk.smith.schedules.carried()
    assert (await desk.smith.get(fire.run)).status is RunStatus.DONE
    assert await desk.later(hours=1) == []
    assert await desk.smith.schedules.next_fires(schedule.id) == []
    again = await desk.smith.schedules.fire_now(schedule.id)
    assert again.due != (await desk.smith.schedules.fire_now(schedule.id)).due
    await desk.smith.schedules.carried()
    assert await desk.history(schedule) == [("now", "done")] * 3


async def test_backfill_fires_what_had_no_run_in_order_and_nothing_twice(desk: Desk) -> None:
    schedule = await desk.add(missed="none")
    await desk.later(hours=1)
    await desk.later(hours=3, minutes=30)
    assert desk.calls == ["look 1"]
    queued = await desk.smith.schedules.backfill(
        schedule.id, since=START, until=START + timedelta(hours=4)
    )
    hours = [each.due.hour for each in queued]
    assert hours == [10, 11, 12]
    for _ in range(4):
        await desk.later(seconds=0)
    assert len(desk.calls) == 4
    rows = await desk.smith.schedules.history(schedule.id)
    assert [each.state.value for each in rows] == ["done"] * 4
    assert (
        await desk.smith.schedules.backfill(
            schedule.id, since=START, until=START + timedelta(hours=4)
        )
        == []
    )
    with pytest.raises(Misconfigured, match="in the past"):
        await desk.smith.schedules.backfill(
            schedule.id, since=START, until=START + timedelta(days=9)
        )
    far = {"since": START - timedelta(days=400), "until": START}
    daily = await desk.add(timing=Timing(cron="*/5 * * * *"), name="often")
    with pytest.raises(Refused, match="too many"):
        await desk.smith.schedules.backfill(daily.id, **far)


async def test_a_budget_is_for_each_fire(desk: Desk) -> None:
    two = plan({"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "after": ["a"]})
    schedule = await desk.add(two, budget={"steps": 1})
    [fire] = await desk.later(hours=1)
    run = await desk.smith.get(fire.run)
    assert (run.status, len(desk.calls)) == (RunStatus.PAUSED, 1)
    [row] = await desk.smith.schedules.history(schedule.id)
    assert row.state is FireState.WAITING
    assert "budget" in row.note


async def test_jitter_spreads_starts_by_the_same_amount_for_everyone(desk: Desk) -> None:
    schedule = await desk.add(jitter_seconds=600)
    at = START + timedelta(hours=1)
    starts = schedule.starts(at)
    assert at < starts <= at + timedelta(minutes=10)
    await desk.later(seconds=(starts - START).total_seconds() - 1)
    assert desk.calls == []
    [fire] = await desk.later(seconds=1)
    assert fire.due == at
    with pytest.raises(Misconfigured, match="too much"):
        await desk.add(timing=Timing(every_minutes=1), jitter_seconds=60)


async def test_a_schedule_is_changed_and_its_new_times_count_from_now(desk: Desk) -> None:
    schedule = await desk.add(name="mine")
    await desk.clock.advance(5000)
    timing = make_timing(daily_at="09:30")
    after = await desk.smith.schedules.change("mine", timing=timing, overlap="queue")
    assert (after.timing, after.overlap) == (timing, "queue")
    assert await desk.smith.schedules.next_fires("mine", count=1) == [START + timedelta(minutes=90)]
    with pytest.raises(Refused, match="needs approval"):
        await desk.smith.schedules.change("mine", plan=NOTE)
    await desk.smith.schedules.change("mine", plan=NOTE, approve=NOTE.hash, by="bob")
    await desk.later(minutes=10)
    assert desk.calls == ["note hello"]
    assert (await desk.smith.schedules.get(schedule.id)).approved_by == "bob"
    with pytest.raises(Misconfigured, match="overlap must be 'skip', 'queue' or 'allow'"):
        await desk.smith.schedules.change("mine", overlap="never")


async def test_schedules_are_found_by_name_or_id_and_removed_ones_are_not(desk: Desk) -> None:
    first = await desk.add(name="Morning  look")
    assert (first.name, (await desk.add()).name) == ("Morning look", "look")
    assert (await desk.add()).name == "look 2"
    with pytest.raises(Refused, match="already"):
        await desk.add(name="morning look")
    assert (await desk.smith.schedules.get("MORNING look")).id == first.id
    with pytest.raises(Misconfigured, match="there is no schedule"):
        await desk.smith.schedules.get("evening")
    await desk.smith.schedules.remove("morning look")
    assert [each.name for each in await desk.smith.schedules.all()] == ["look", "look 2"]
    with pytest.raises(Misconfigured):
        await desk.smith.schedules.get("morning look")
    assert (await desk.add(name="morning look")).id != first.id
    with pytest.raises(Misconfigured, match="name"):
        await desk.add(name="a\x1b[31m")


async def test_a_removed_schedule_starts_nothing_that_was_queued(desk: Desk) -> None:
    schedule = await desk.add(HOLD, overlap="queue")
    await desk.later(hours=1)
    await desk.later(hours=1)
    await desk.smith.schedules.remove(schedule.id)
    desk.leave.set()
    await desk.smith.schedules.carried()
    await desk.later(hours=1)
    assert desk.calls == ["hold"]
    states = [
        each.state.value for each in await desk.smith.schedules.shelf.fires(schedule.id, limit=9)
    ]
    assert states == ["cancelled", "done"]


async def test_a_claim_whose_process_died_before_the_run_heals_on_the_next_tick(
    desk: Desk,
) -> None:
    schedule = await desk.add()
    await desk.clock.advance(3600)
    at = START + timedelta(hours=1)
    claim = Fire(schedule=schedule.id, due=at, run="0-claimed", at=at, seen=at)
    assert await desk.smith.schedules.shelf.put_fire(claim)
    await desk.later(seconds=0)
    await desk.later(seconds=0)
    assert (await desk.smith.get("0-claimed")).status is RunStatus.DONE
    assert desk.calls == ["look 1"]
    assert await desk.history(schedule) == [("due", "done")]


async def test_a_run_left_behind_is_gone_on_with_when_its_process_is_silent(desk: Desk) -> None:
    schedule = await desk.add(HOLD)
    await desk.later(hours=1)
    other = desk.another()
    assert await other.schedules.tick() == []
    await desk.smith.close()  # leaves it to the next process at once
    desk.leave.set()
    await other.schedules.tick()
    await other.schedules.carried()
    [row] = await other.schedules.history(schedule.id)
    assert (row.state.value, desk.calls) == ("done", ["hold", "hold"])
    desk.smith = other


async def test_a_living_process_keeps_its_run_however_long_it_takes(desk: Desk) -> None:
    await desk.add(HOLD)
    await desk.later(hours=1)
    other = desk.another()

    async def is_seen() -> bool:  # the sign of life is written in a thread
        return (await other.schedules.shelf.open_fires())[0].seen == desk.clock.now()

    for _ in range(20):
        await desk.clock.advance(30)  # until the next sign of life
        await until(is_seen)
        assert await other.schedules.tick() == []
    assert desk.calls == ["hold"]
    desk.leave.set()
    await desk.smith.schedules.carried()
    await other.close()


async def test_many_processes_on_one_store_start_each_instant_once(desk: Desk) -> None:
    schedule = await desk.add(timing=Timing(every_minutes=1))
    others = [desk.another() for _ in range(3)]
    for _ in range(10):
        desk.clock._elapsed += 60
        await asyncio.gather(*(each.schedules.tick() for each in [desk.smith, *others]))
        for each in [desk.smith, *others]:
            await each.schedules.carried()
    assert len(desk.calls) == 10
    assert await desk.history(schedule) == [("due", "done")] * 10
    for each in others:
        await each.close()


async def test_the_loop_wakes_for_what_is_due_and_sees_schedules_of_others(desk: Desk) -> None:
    keeping = asyncio.ensure_future(desk.smith.schedules.keep())
    other = desk.another()
    await other.schedules.create(timing=HOURLY, plan=LOOK, approve=LOOK.hash)

    async def is_called() -> bool:
        await desk.clock.advance(60)
        return bool(desk.calls)

    await until(is_called)
    assert START + timedelta(hours=1) <= desk.clock.now()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await desk.smith.schedules.carried()
    await other.close()


async def test_a_store_without_room_for_schedules_says_so(desk: Desk) -> None:
    class Bare:
        async def close(self) -> None: ...

    bare: Any = Bare()
    smith = Plansmith(store=bare)
    with pytest.raises(Misconfigured, match="keeps no schedules"):
        await smith.schedules.all()


async def test_a_fire_whose_step_fails_runs_no_other_plan_and_says_so(tmp_path: Path) -> None:
    """A model that would write something else instead is not even asked."""
    evil = {"goal": "other", "steps": [{"id": "n", "tool": "note", "inputs": {"text": "evil"}}]}
    model = ScriptedModel(evil)
    desk = Desk(tmp_path / "runs.db", model=model)
    desk.broken = True
    wanted = plan({"id": "f", "tool": "flaky"}, {"id": "n", "tool": "note"} | _AFTER_F)
    schedule = await desk.add(wanted)
    [fire] = await desk.later(hours=1)
    run = await desk.smith.get(fire.run)
    assert run.status is RunStatus.FAILED
    assert run.reason == "failed: f; a schedule runs the plan that was approved and no other"
    assert run.plan is not None
    assert run.plan.hash == wanted.hash
    assert desk.calls == []
    assert model.prompts == []
    assert (await desk.history(schedule)) == [("due", "failed")]
    await desk.smith.close()


_AFTER_F = {"inputs": {"text": "hello"}, "after": ["f"]}


async def test_a_fire_of_a_template_that_was_changed_waits_for_a_new_approval(
    tmp_path: Path,
) -> None:
    inner = plan({"id": "n", "tool": "note", "inputs": {"text": "hello"}})
    use = plan({"id": "t", "template": "noting"})
    desk = Desk(tmp_path / "runs.db", templates={"noting": inner})
    wanted = await desk.smith.runs.intake.pinned(use)
    await desk.add(wanted)
    await desk.later(hours=1)
    assert desk.calls == ["note hello"]
    await desk.smith.close()
    other = plan({"id": "n", "tool": "note", "inputs": {"text": "evil"}})
    desk.options = {"templates": {"noting": other}}
    desk.smith = desk.another()
    [fire] = await desk.later(hours=1)
    assert (await desk.smith.get(fire.run)).status is RunStatus.REVIEWING
    assert desk.calls == ["note hello"]
    await desk.smith.close()


async def test_a_plan_that_only_says_what_it_cannot_do_is_no_schedule(desk: Desk) -> None:
    talk = plan({"id": "r", "instruction": "None of the tools here can order pizza."})
    with pytest.raises(Refused, match="calls no tool and no agent"):
        await desk.add(talk)
    assert await desk.smith.schedules.all() == []
