"""Schedules: what is due runs once, under one approval, by the policies, and tells what it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.flow.smiths import plan, plan_of
from tests.waiting import until

from plansmith import AgentSpec, Effect, Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import Misconfigured, NotFound, PlanInvalid, Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.limits import Limits
from plansmith.plan.run_options import Origin
from plansmith.plan.timing import Timing, make_timing
from plansmith.ports import Agent, Call
from plansmith.runs.template_book import TemplateBook
from plansmith.schedules.schedule import Fire, FireState, Schedule
from plansmith.schedules.service import Schedules
from plansmith.testing import FakeClock, ScriptedModel
from plansmith_cli.replay import replay
from plansmith_planner.settings import PlannerSettings

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
HOURLY = Timing(every_minutes=60)


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
            self.calls.append(f"look {x}")
            return {"seen": x}

        @tool(effect="read")
        async def hold() -> str:
            self.calls.append("hold")
            self.inside += 1
            try:
                await self.leave.wait()
            finally:
                self.inside -= 1
            return "held"

        @tool(effect="write")
        async def note(text: str) -> str:
            self.calls.append(f"note {text}")
            if self.broken:
                raise ValueError("boom")
            return text

        @tool(effect="read")
        async def flaky() -> str:
            if self.broken:
                raise ValueError("boom")
            return "fine"

        options: dict[str, Any] = {"limits": Limits(first_wait_s=0, tries=1)}
        return Plansmith(
            tools=[look, hold, note, flaky],
            store=f"sqlite:///{self.path}",
            clock=self.clock,
            **options | self.options,
        )

    @property
    def schedules(self) -> Schedules:
        return self.smith.schedules

    async def add(self, wanted: Plan = LOOK, timing: Timing = HOURLY, **more: Any) -> Schedule:
        return await self.schedules.create(
            timing=timing, plan=wanted, approve=wanted.hash, by="ada", **more
        )

    async def later(self, **passed: float) -> list[Fire]:
        """Let time pass, deal with what is due, and wait for what came of it."""
        self.clock._elapsed += timedelta(**passed).total_seconds()
        begun = await self.schedules.tick()
        async with asyncio.timeout(120):
            while len(self.schedules.carrying) > self.inside:
                await asyncio.wait(self.schedules.carrying, timeout=0.005)
        return begun

    async def history(self, schedule: Schedule) -> list[tuple[str, str]]:
        """Kind and state of each fire, oldest first."""
        found = await self.schedules.history(schedule.id)
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
    assert await desk.schedules.tick() == []
    run = await desk.smith.get(fire.run)
    assert (run.status, run.request, run.approved) == (RunStatus.DONE, "test", NOTE.hash)
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
    assert (await desk.schedules.next_fires(schedule.id, count=1)) == [after]
    [fire] = await desk.later(minutes=4)
    assert fire.due == after


MISSED, DONE = ("due", "missed"), ("late", "done")


@pytest.mark.parametrize(
    ("policy", "passed", "history", "note"),
    [
        (
            {},
            {"hours": 5, "minutes": 30},
            [MISSED, DONE],
            "09:00 to 2026-01-01 12:00 UTC: missed; the next run makes up for it",
        ),
        ({"missed": "none"}, {"hours": 3, "minutes": 30}, [MISSED], "missed"),
        (
            {"missed": "all", "window_minutes": 180},
            {"hours": 6, "minutes": 30},
            [MISSED, DONE, DONE, DONE],
            "older than the window",
        ),
    ],
    ids=["one", "none", "all"],
)
async def test_what_was_missed_is_told_and_made_up_for_by_the_policy(
    desk: Desk, policy: Any, passed: Any, history: list[tuple[str, str]], note: str
) -> None:
    schedule = await desk.add(**policy)
    begun = await desk.later(**passed)
    for _ in range(4):
        begun += await desk.later(seconds=0)
    assert await desk.history(schedule) == history
    assert len(begun) == len(desk.calls) == history.count(DONE)
    assert (await desk.schedules.history(schedule.id))[-1].note.endswith(note)
    [fire] = await desk.later(minutes=30)  # the next one is on time again
    assert fire.kind == "due"


@pytest.mark.parametrize(
    ("policy", "states", "ended"),
    [
        ({}, ["running", "skipped", "skipped"], ["done", "skipped", "skipped"]),
        ({"overlap": "queue"}, ["running", "queued", "skipped"], ["done", "done", "skipped"]),
        ({"overlap": "allow"}, ["running"] * 3, ["done"] * 3),
    ],
    ids=["skip", "queue", "allow"],
)
async def test_what_is_due_while_a_run_goes_on_is_skipped_queued_or_run_beside_it(
    desk: Desk, policy: Any, states: list[str], ended: list[str]
) -> None:
    schedule = await desk.add(HOLD, **policy)
    begun = [len(await desk.later(hours=1)) for _ in range(3)]
    assert begun == [int(each == "running") for each in states]
    assert await desk.history(schedule) == [("due", each) for each in states]
    rows = await desk.schedules.history(schedule.id)
    notes = [each.note for each in rows if each.state is FireState.SKIPPED]
    assert all(each.startswith("the run of 2026-01-01 09:00 UTC still goes on") for each in notes)
    desk.leave.set()
    await desk.schedules.carried()
    await desk.later(seconds=1)
    assert await desk.history(schedule) == [("due", each) for each in ended]


async def test_failures_in_a_row_pause_a_schedule_with_the_reason(desk: Desk) -> None:
    schedule = await desk.add(FLAKY)
    desk.broken = True
    await desk.later(hours=1)
    desk.broken = False
    await desk.later(hours=1)
    desk.broken = True
    for _ in range(2):
        await desk.later(hours=1)
    assert not (await desk.schedules.get(schedule.id)).paused
    await desk.later(hours=1)
    paused = await desk.schedules.get(schedule.id)
    assert paused.paused
    assert paused.reason == "3 fires in a row failed; the last: failed: f (ValueError: boom)"
    assert await desk.later(hours=2) == []
    desk.broken = False
    resumed = await desk.schedules.resume(schedule.id)
    assert (resumed.paused, resumed.reason) == (False, "")
    rows = await desk.schedules.history(schedule.id)
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
    [row] = await desk.schedules.history("first")
    assert row.state is FireState.FAILED
    assert "PS101" in row.note
    assert not (await desk.schedules.get("first")).paused


async def test_a_plan_that_is_not_the_approved_one_waits_in_the_inbox(desk: Desk) -> None:
    book = TemplateBook(desk.smith.runs)
    await book.save(LOOK, "watch")
    first = await book.plan("watch")
    schedule = await desk.schedules.create(
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
    assert (await desk.smith.runs.run(run.id)).status is RunStatus.REVIEWING
    await desk.later(minutes=1)
    assert (await desk.history(schedule))[-1] == ("due", "waiting")
    await desk.smith.decide(run.id, approve=plan_of(run).hash, by="ada")
    await desk.later(minutes=1)
    assert desk.calls == ["look 1", "look 2"]
    assert (await desk.history(schedule))[-1] == ("due", "done")
    await desk.schedules.change(schedule.id, approve=plan_of(run).hash, by="ada")
    await desk.later(hours=1)
    assert desk.calls == ["look 1", "look 2", "look 2"]


async def test_a_request_is_planned_anew_and_runs_only_as_the_approved_plan(tmp_path: Path) -> None:
    drafted = LOOK.to_json()
    model = ScriptedModel(drafted, drafted)
    settings = PlannerSettings(triage=False)
    limits = Limits(first_wait_s=0, tries=1)
    desk = Desk(tmp_path / "runs.db", model=model, settings=settings, limits=limits)
    schedule = await desk.schedules.create(timing=HOURLY, request="look", by="ada")
    [fire] = await desk.later(hours=1)
    run = await desk.smith.get(fire.run)
    assert (run.status, desk.calls) == (RunStatus.REVIEWING, [])
    await desk.smith.cancel(run.id, by="ada")
    await desk.schedules.change(schedule.id, approve=plan_of(run).hash, by="ada")
    [fire] = await desk.later(hours=1)
    assert (await desk.smith.get(fire.run)).status is RunStatus.DONE
    assert desk.calls == ["look 1"]
    assert (await replay(fire.run, desk.smith)).identical
    assert await desk.history(schedule) == [("due", "cancelled"), ("due", "done")]
    await desk.smith.close()


async def test_nothing_is_scheduled_without_the_approval_of_exactly_that_plan(desk: Desk) -> None:
    with pytest.raises(Refused, match=NOTE.hash):
        await desk.schedules.create(timing=HOURLY, plan=NOTE)
    with pytest.raises(StaleDecision, match=NOTE.hash):
        await desk.schedules.create(timing=HOURLY, plan=NOTE, approve=LOOK.hash)
    with pytest.raises(PlanInvalid):
        await desk.add(plan({"id": "a", "tool": "none"}))
    with pytest.raises(Refused, match="calls no tool and no agent"):
        await desk.add(plan({"id": "r", "instruction": "No tool here can order pizza."}))
    assert await desk.schedules.all() == []


class Helper:
    """An agent with a card."""

    def __init__(self, spec: AgentSpec) -> None:
        self.spec = spec

    async def work(self, task: str, inputs: Any, call: Call) -> str:
        return task


async def test_what_needs_a_person_is_refused_with_every_reason(tmp_path: Path) -> None:
    specs = [
        AgentSpec(name="writer"),
        AgentSpec(name="reader", effect=Effect.READ),
        AgentSpec(name="watcher", unattended=True),
    ]
    agents: list[Agent] = [Helper(spec) for spec in specs]
    desk = Desk(tmp_path / "runs.db", agents=agents, limits=Limits(data="ask"))
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
    assert "w calls the agent writer" in reasons
    assert "n calls note with output of a: a person is asked each time" in reasons
    assert "reader" not in reasons
    assert "watcher" not in reasons
    await desk.smith.close()


async def test_a_once_fires_once_and_is_over(desk: Desk) -> None:
    schedule = await desk.add(timing=Timing(once_at="2026-01-01T10:00", timezone="Europe/Oslo"))
    await desk.later(hours=1)
    assert desk.calls == ["look 1"]
    assert await desk.later(days=400) == []
    assert (await desk.schedules.get(schedule.id)).state == "over"
    with pytest.raises(Refused, match="is in the past"):
        await desk.add(timing=Timing(once_at="2025-01-01T10:00"))


async def test_run_now_fires_at_once_also_while_paused_and_moves_no_other_fire(
    desk: Desk,
) -> None:
    schedule = await desk.add()
    await desk.schedules.pause(schedule.id, reason="holidays")
    fire = await desk.schedules.fire_now(schedule.name)
    await desk.schedules.carried()
    assert (await desk.smith.get(fire.run)).status is RunStatus.DONE
    assert await desk.later(hours=1) == []
    assert await desk.schedules.next_fires(schedule.id) == []
    again = await desk.schedules.fire_now(schedule.id)
    assert again.due != (await desk.schedules.fire_now(schedule.id)).due
    await desk.schedules.carried()
    assert await desk.history(schedule) == [("now", "done")] * 3


async def test_backfill_fires_what_had_no_run_in_order_and_nothing_twice(desk: Desk) -> None:
    schedule = await desk.add(missed="none")
    await desk.later(hours=1)
    await desk.later(hours=3, minutes=30)
    assert desk.calls == ["look 1"]
    times = {"since": START, "until": START + timedelta(hours=4)}
    queued = await desk.schedules.backfill(schedule.id, **times)
    assert [each.due.hour for each in queued] == [10, 11, 12]
    for _ in range(4):
        await desk.later(seconds=0)
    assert len(desk.calls) == 4
    rows = await desk.schedules.history(schedule.id)
    assert [each.state.value for each in rows] == ["done"] * 4
    assert await desk.schedules.backfill(schedule.id, **times) == []
    late = times | {"until": START + timedelta(days=9)}
    with pytest.raises(Misconfigured, match="in the past"):
        await desk.schedules.backfill(schedule.id, **late)
    far = {"since": START - timedelta(days=400), "until": START}
    daily = await desk.add(timing=Timing(cron="*/5 * * * *"), name="often")
    with pytest.raises(Refused, match="too many"):
        await desk.schedules.backfill(daily.id, **far)


async def test_a_budget_is_for_each_fire(desk: Desk) -> None:
    two = plan({"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "after": ["a"]})
    schedule = await desk.add(two, budget={"steps": 1})
    [fire] = await desk.later(hours=1)
    run = await desk.smith.get(fire.run)
    assert (run.status, len(desk.calls)) == (RunStatus.PAUSED, 1)
    [row] = await desk.schedules.history(schedule.id)
    assert row.state is FireState.WAITING
    assert "budget" in row.note


async def test_a_fire_that_is_begun_twice_ends_quietly(desk: Desk) -> None:
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    firing, schedule = desk.schedules, await desk.add()
    fire = await desk.schedules.fire_now(schedule.id)
    begun = firing.carrying
    firing.start(schedule, fire)
    await asyncio.wait([*begun, *firing.carrying])
    await asyncio.sleep(0)
    assert broken == []


async def test_jitter_spreads_starts_by_the_same_amount_for_everyone(desk: Desk) -> None:
    schedule = await desk.add(jitter_seconds=600)
    at = START + timedelta(hours=1)
    starts = schedule.starts(at)
    assert at < starts <= at + timedelta(minutes=10)
    await desk.later(seconds=(starts - START).total_seconds() - 1)
    assert desk.calls == []
    [fire] = await desk.later(seconds=1)
    assert fire.due == at
    with pytest.raises(Misconfigured, match="too large"):
        await desk.add(timing=Timing(every_minutes=1), jitter_seconds=60)


async def test_a_schedule_is_changed_and_its_new_times_count_from_now(desk: Desk) -> None:
    schedule = await desk.add(name="mine")
    await desk.clock.advance(5000)
    timing = make_timing(daily_at="09:30")
    after = await desk.schedules.change("mine", timing=timing, overlap="queue")
    assert (after.timing, after.overlap) == (timing, "queue")
    assert await desk.schedules.next_fires("mine", count=1) == [START + timedelta(minutes=90)]
    with pytest.raises(Refused, match="needs approval"):
        await desk.schedules.change("mine", plan=NOTE)
    await desk.schedules.change("mine", plan=NOTE, approve=NOTE.hash, by="bob")
    await desk.later(minutes=10)
    assert desk.calls == ["note hello"]
    assert (await desk.schedules.get(schedule.id)).approved_by == "bob"
    with pytest.raises(Misconfigured, match="overlap must be 'skip', 'queue' or 'allow'"):
        await desk.schedules.change("mine", overlap="never")


async def test_schedules_are_found_by_name_or_id_and_removed_ones_are_not(desk: Desk) -> None:
    first = await desk.add(name="Morning  look")
    assert (first.name, (await desk.add()).name) == ("Morning look", "test")
    assert (await desk.add()).name == "test 2"
    with pytest.raises(Refused, match="already"):
        await desk.add(name="morning look")
    assert (await desk.schedules.get("MORNING look")).id == first.id
    with pytest.raises(NotFound, match="there is no schedule"):
        await desk.schedules.get("evening")
    await desk.schedules.remove("morning look")
    assert [each.name for each in await desk.schedules.all()] == ["test", "test 2"]
    with pytest.raises(NotFound):
        await desk.schedules.get("morning look")
    assert (await desk.add(name="morning look")).id != first.id
    with pytest.raises(Misconfigured, match="name"):
        await desk.add(name="a\x1b[31m")


async def test_a_removed_schedule_starts_nothing_that_was_queued(desk: Desk) -> None:
    schedule = await desk.add(HOLD, overlap="queue")
    await desk.later(hours=1)
    await desk.later(hours=1)
    await desk.schedules.remove(schedule.id)
    desk.leave.set()
    await desk.schedules.carried()
    await desk.later(hours=1)
    assert desk.calls == ["hold"]
    states = [each.state.value for each in await desk.schedules.store.fires(schedule.id, limit=9)]
    assert states == ["cancelled", "done"]


async def test_a_living_process_keeps_its_run_however_long_it_takes(desk: Desk) -> None:
    schedule = await desk.add(HOLD, overlap="queue")
    await desk.later(hours=1)
    other = desk.another()
    for _ in range(3):
        await desk.clock.advance(600)
        assert await other.schedules.tick() == []
        await other.schedules.carried()
    assert desk.calls == ["hold"]
    desk.leave.set()
    await desk.schedules.carried()
    assert await desk.history(schedule) == [("due", "done")]
    await other.close()


async def test_a_run_that_waits_for_a_time_is_left_to_its_process_until_then(desk: Desk) -> None:
    until_2 = {"until": {"equals": ["{{look.seen}}", 2]}, "at_most": 2, "every": 7200.0}
    schedule = await desk.add(
        plan({"id": "look", "tool": "look", "inputs": {"x": 1}, "repeat": until_2})
    )
    await desk.clock.advance(3600)
    [fire] = await desk.schedules.tick()

    async def waits() -> bool:
        return any(run.wakes_at is not None for run in await desk.smith.runs.all())

    await until(waits)
    await desk.smith.close()  # and nobody is at it any more
    other = desk.another()
    await other.schedules.tick()
    assert not other.schedules.carrying
    desk.clock._elapsed += 7200
    await other.schedules.tick()
    await other.schedules.carried()
    assert desk.calls == ["look 1"] * 2
    rows = await other.schedules.history(schedule.id)
    assert [each.state for each in rows if each.run == fire.run] == [FireState.FAILED]
    await other.close()


async def test_what_an_answer_lets_start_waits_for_no_other_step_that_waits_for_a_time(
    desk: Desk,
) -> None:
    until_2 = {"until": {"equals": ["{{look.seen}}", 2]}, "at_most": 2, "every": 7200.0}
    await desk.add(
        plan(
            {"id": "look", "tool": "look", "inputs": {"x": 1}, "repeat": until_2},
            {"id": "n", "tool": "note", "inputs": {"text": "hello"}},
            {"id": "b", "tool": "look", "inputs": {"x": 3}, "after": ["n"]},
        )
    )
    desk.broken = True
    await desk.clock.advance(3600)
    [fire] = await desk.schedules.tick()

    async def asks() -> bool:
        runs = await desk.smith.runs.all()
        return any(each.wakes_at is not None and bool(each.questions) for each in runs)

    await until(asks)
    await desk.smith.close()
    other = desk.another()
    [question] = (await other.get(fire.run)).questions
    await other.answer(fire.run, question, "done", by="ada")
    await other.schedules.tick()

    async def goes_on() -> bool:
        return "look 3" in desk.calls

    await until(goes_on, seconds=20)
    await other.close()


async def test_a_fire_whose_process_is_gone_is_continued_at_the_next_look(desk: Desk) -> None:
    schedule = await desk.add(HOLD)
    await desk.later(hours=1)
    await desk.smith.schedules.close()  # in the middle of the call
    await desk.smith.runs.close()
    desk.leave.set()
    other = desk.another()
    await other.schedules.tick()
    await other.schedules.carried()
    assert desk.calls == ["hold", "hold"]  # a read, which may be made again
    rows = await other.schedules.history(schedule.id)
    assert [each.state.value for each in rows] == ["done"]
    await other.close()


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
    assert plan_of(run).hash == wanted.hash
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
    await desk.add(await desk.smith.runs.registry.with_fixed_templates(use))
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
