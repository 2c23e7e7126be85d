"""Cancelled runs and steps that are left out: what is told of them is so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.flow.plans import approve, plan
from tests.flow.test_journals import MeddlingStore

from plansmith import AgentSpec, Effect, Plan, RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.errors import EventMisfit, Refused, StaleDecision, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith.runs.journals import delete_run
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeClock, MemoryStore
from plansmith.testing.fakes import settle
from plansmith_cli.replay import replay
from plansmith_server.housekeeping import prune

LIMITS = Limits(first_wait_s=0, grace_s=0.05)


class World:
    """Tools that read, write and fail at once, and some that a test holds in mid-call."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.calls: list[str] = []
        self.purpose = ""

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(name="look", effect=Effect.READ),
            ToolSpec(name="fail", effect=Effect.READ),
            ToolSpec(name="write", effect=Effect.WRITE, description=self.purpose),
            ToolSpec(name="keyed", effect=Effect.WRITE, idempotent=True),
            ToolSpec(name="slow_look", effect=Effect.READ),
            ToolSpec(name="slow_write", effect=Effect.WRITE),
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del arguments, call
        self.calls.append(tool)
        if tool == "fail":
            raise ToolFailed("no")
        if tool.startswith("slow"):
            self.began.set()
            await self.go.wait()
        return {"tool": tool}


class Place:
    """One store and one world, entered by one process after the other."""

    def __init__(self, **templates: Plan) -> None:
        self.store = MemoryStore()
        self.world = World()
        self.templates = templates

    def enter(self) -> Plansmith:
        return Plansmith(
            tools=[self.world], store=self.store, limits=LIMITS, templates=self.templates
        )

    async def approved(self, wanted: Plan) -> Run:
        app = self.enter()
        run = await app.submit(wanted)
        return await approve(app, run) if run.status is RunStatus.REVIEWING else run

    async def dead(self, wanted: Plan) -> Run:
        """A run whose process died in the middle of its calls."""
        run = await self.approved(wanted)
        app = self.enter()
        running = asyncio.create_task(app.run(run.id))
        await self.world.began.wait()
        # Nothing of the process is left but what it wrote.
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.gather(running, return_exceptions=True)
        app.runs.journals.ownership.close()
        return await self.enter().get(run.id)


def started(*names: str) -> list[e.AnyBody]:
    return [e.StepStarted(step=name, inputs="0" * 64) for name in names]


@pytest.mark.parametrize("tool", ["slow_write", "slow_look"])
async def test_a_cancel_after_a_crash_does_not_say_that_a_write_did_not_happen(tool: str) -> None:
    place = Place()
    run = await place.dead(plan({"id": "w", "tool": tool}, {"id": "x", "tool": "look"}))
    run = await place.enter().cancel(run.id, by="ada", reason="wrong account")
    assert run.status is RunStatus.CANCELLED
    unknown = tool == "slow_write"
    assert run.steps["w"].status is (StepStatus.UNKNOWN if unknown else StepStatus.CANCELLED)
    assert ("not known whether" in run.reason) is unknown
    assert run.reason.startswith("cancelled by ada: wrong account")
    assert ("nobody knows whether it happened" in run.report) is unknown


@pytest.mark.parametrize("tool", ["write", "keyed"])
async def test_a_run_whose_cancelling_process_died_starts_nothing_more(tool: str) -> None:
    place = Place()
    run = await place.approved(
        plan({"id": "w", "tool": tool}, {"id": "x", "tool": "write", "after": ["w"]})
    )
    journal = await place.enter().runs.journals.load_verified(run.id)
    cancel = e.CancelAsked(reason="enough"), e.Actor(kind="person", name="ada")
    await journal.append(e.RunStarted(hash=journal.plan_hash), *started("w"), cancel)
    runs = await place.enter().runs.resume_all()
    assert [run.status for run in runs] == [RunStatus.CANCELLED]
    assert place.world.calls == []
    assert runs[0].steps["w"].status is StepStatus.UNKNOWN
    assert runs[0].reason.startswith("cancelled by ada: enough")


async def test_a_cancelled_run_whose_tool_has_changed_ends_without_another_review() -> None:
    place = Place()
    run = await place.approved(plan({"id": "w", "tool": "write"}))
    journal = await place.enter().runs.journals.load_verified(run.id)
    await journal.append(e.CancelAsked(), by=e.Actor(kind="person", name="ada"))
    place.world.purpose = "Writes elsewhere."
    run = await place.enter().run(run.id)
    assert (run.status, place.world.calls) == (RunStatus.CANCELLED, [])
    kinds = [event.body.type for event in await place.store.events(run.id)]
    assert kinds.count("review_asked") == 1


async def test_a_pause_cuts_off_nobody_who_is_just_told_that_the_run_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()
    app = Plansmith(tools=[World()], store="memory", budget=BudgetLimits(steps=1))
    run = await app.submit(plan({"id": "a", "tool": "look"}, {"id": "b", "tool": "look"}))
    whole = app.runs.journals.whole

    async def held(*given: Any) -> Run:
        asked.set()
        await go.wait()
        return await whole(*given)

    monkeypatch.setattr(app.runs.journals, "whole", held)
    running = asyncio.ensure_future(app.run(run.id))
    await asked.wait()  # it has been let go, and rests at its budget
    pausing = asyncio.ensure_future(app.pause(run.id, by="ada"))
    await settle()
    go.set()
    both = await asyncio.gather(running, pausing)
    assert {each.status for each in both} == {RunStatus.PAUSED}


async def test_a_map_that_is_open_without_a_call_counts_as_no_interrupted_call() -> None:
    app = Plansmith(tools=[World()], store="memory", budget=BudgetLimits(steps=1))
    each = {"over": [1], "each": {"id": "i", "tool": "look"}, "after": ["a"]}
    run = await app.submit(plan({"id": "a", "tool": "look"}, {"id": "m"} | each))
    assert not (await app.run(run.id)).interrupted


async def test_a_program_that_cancels_is_told_as_a_program() -> None:
    place = Place()
    run = await place.approved(plan({"id": "q", "question": "?"}))
    app = place.enter()
    await app.run(run.id)
    run = await app.cancel(run.id, by=e.Actor(kind="program"))
    assert run.reason == "cancelled by a program"
    assert (run.status, run.questions) == (RunStatus.CANCELLED, {})


async def test_a_skip_stops_nothing_else_and_the_conductor_heeds_it() -> None:
    place = Place()
    run = await place.approved(
        plan(
            {"id": "s", "tool": "slow_look"},
            {"id": "w", "tool": "write", "after": ["s"]},
            {"id": "v", "tool": "write", "after": ["w"]},
            {"id": "x", "tool": "look", "after": ["s"]},
        )
    )
    app = place.enter()
    running = asyncio.create_task(app.run(run.id))
    await place.world.began.wait()
    left = await place.enter().runs.skip(run.id, "w", by="ada")
    assert (left.step, left.with_it) == ("w", ("v",))
    now = await app.get(run.id)
    assert not now.paused
    assert now.steps["s"].status is StepStatus.RUNNING
    assert now.steps["w"].status is now.steps["v"].status is StepStatus.SKIPPED
    place.world.go.set()
    run = await running
    assert run.status is RunStatus.PARTLY_DONE
    assert place.world.calls == ["slow_look", "look"]
    assert "run_paused" not in [event.body.type for event in await place.store.events(run.id)]
    assert (await replay(run.id, app)).identical


async def test_a_skip_races_the_start_of_its_step_and_one_of_them_wins() -> None:
    for turns in range(30):
        place = Place()
        run = await place.approved(
            plan({"id": "a", "tool": "look"}, {"id": "w", "tool": "write", "after": ["a"]})
        )
        running = asyncio.create_task(place.enter().run(run.id))
        for _ in range(turns):
            await asyncio.sleep(0)
        try:
            await place.enter().runs.skip(run.id, "w", by="ada")
            skipped = True
        except Refused:
            skipped = False
        run = await running
        assert ("write" in place.world.calls) is not skipped
        assert run.status is (RunStatus.PARTLY_DONE if skipped else RunStatus.DONE)


async def test_a_skip_of_a_step_that_asks_answers_nothing() -> None:
    place = Place()
    run = await place.approved(
        plan(
            {"id": "q", "question": "Really?"},
            {"id": "w", "tool": "write", "after": ["q"]},
            {"id": "a", "tool": "look"},
        )
    )
    app = place.enter()
    run = await app.run(run.id)
    assert (await app.runs.skip(run.id, "q", by="ada")).with_it == ("w",)
    run = await place.enter().run(run.id)
    assert (run.status, place.world.calls) == (RunStatus.PARTLY_DONE, ["look"])
    assert not any(
        isinstance(event.body, e.QuestionAnswered) for event in await place.store.events(run.id)
    )


async def test_a_skip_of_a_question_inside_a_template_leaves_the_template_step_out() -> None:
    inner = plan({"id": "q", "question": "Really?"}, {"id": "w", "tool": "write", "after": ["q"]})
    place = Place(inner=inner)
    run = await place.approved(
        plan({"id": "p", "template": "inner"}, {"id": "x", "tool": "look", "after": ["p"]})
    )
    run = await place.enter().run(run.id)
    await place.enter().runs.skip(run.id, "p/q", by="ada")
    run = await place.enter().run(run.id)
    assert place.world.calls == []
    assert run.steps["p"].status is StepStatus.SKIPPED
    assert run.status.over


async def test_what_may_have_happened_cannot_be_skipped() -> None:
    place = Place()
    run = await place.dead(plan({"id": "w", "tool": "slow_write"}))
    run = await place.enter().run(run.id)
    assert run.steps["w"].status is StepStatus.UNKNOWN
    with pytest.raises(Refused, match="done, not_done or retry"):
        await place.enter().runs.skip(run.id, "w", by="ada")


async def test_a_run_of_which_everything_was_left_out_is_cancelled_and_not_failed() -> None:
    place = Place()
    run = await place.approved(plan({"id": "w", "tool": "write"}))
    await place.enter().runs.skip(run.id, "w", by="ada")
    run = await place.enter().run(run.id)
    assert (run.status, run.reason) == (RunStatus.CANCELLED, "left out by a person: w")


async def test_a_goal_that_is_met_early_is_done_only_if_nothing_that_acts_is_missing() -> None:
    for tool, status in (("look", RunStatus.DONE), ("write", RunStatus.PARTLY_DONE)):

        class Met(World):
            async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
                if tool == "look":
                    call.advise("finish", "it is all there")
                return await super().call(tool, arguments, call)

        place = Place()
        place.world = Met()
        run = await place.approved(
            plan({"id": "a", "tool": "look"}, {"id": "b", "tool": tool, "after": ["a"]})
        )
        run = await place.enter().run(run.id)
        assert run.steps["b"].status is StepStatus.SKIPPED
        assert run.status is status


async def test_a_call_that_was_cut_off_reserves_nothing_of_the_shared_budget() -> None:
    began, go = asyncio.Event(), asyncio.Event()

    class Slow:
        spec = AgentSpec(name="slow", description="Takes its time.", effect=Effect.READ)

        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            del task, inputs, call
            began.set()
            await go.wait()
            return "done"

    # As much as one call of an agent reserves.
    app = Plansmith(agents=[Slow()], limits=LIMITS, shared_budget=BudgetLimits(tokens=6000))
    wanted = plan({"id": "s", "agent": "slow", "task": "Do it."})
    first = await app.submit(wanted)
    running = asyncio.create_task(app.run(first.id))
    await began.wait()
    await app.cancel(first.id, by="ada")
    assert (await running).status is RunStatus.CANCELLED
    go.set()
    second = await app.run((await app.submit(wanted)).id)
    assert second.status is RunStatus.DONE


async def test_at_the_cap_a_run_asks_and_goes_on_as_far_again_beside_a_call_that_runs() -> None:
    world = World()
    app = Plansmith(tools=[world], limits=LIMITS, budget=BudgetLimits(steps=2))
    looks = [{"id": n, "tool": "look", "after": [m]} for m, n in ("ab", "bc", "cd")]
    wanted = plan({"id": "s", "tool": "slow_look"}, {"id": "a", "tool": "look"}, *looks)
    run = await app.submit(wanted)
    running = asyncio.ensure_future(app.run(run.id))
    await settle(100)
    [asked] = (await app.get(run.id)).questions.values()
    assert "2 calls" in asked.text
    with pytest.raises(Refused):
        await app.answer(run.id, asked.question, "maybe")
    await app.answer(run.id, asked.question, "go_on", by="ada")
    await settle(100)
    assert sorted(world.calls) == ["look", "look", "look", "slow_look"]
    world.go.set()
    [asked] = (await running).questions.values()
    run = await app.answer(run.id, asked.question, "stop", by="ada")
    assert (run.status, len(world.calls)) == (RunStatus.CANCELLED, 4)


async def test_the_seconds_of_a_run_count_while_it_is_executed() -> None:
    world, clock = World(), FakeClock()
    app = Plansmith(tools=[world], clock=clock, budget=BudgetLimits(seconds=60))
    steps = {"id": "a", "tool": "slow_look"}, {"id": "b", "tool": "look", "after": ["a"]}
    run = await app.submit(plan(*steps))
    running = asyncio.ensure_future(app.run(run.id))
    await world.began.wait()
    await clock.advance(100)
    world.go.set()
    assert ((await running).status, world.calls) == (RunStatus.PAUSED, ["slow_look"])


@pytest.mark.parametrize("odd", [5, None, True, 1.5, ["x"], {"a": 1}], ids=repr)
async def test_a_reason_or_a_person_that_is_no_text_is_refused_and_damages_no_run(
    odd: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Plansmith(store=url) as app:
        asking = plan({"id": "q", "question": "Which?"})
        run = await app.run((await app.submit(asking, by="ada")).id)
        doors: list[Callable[[], Awaitable[object]]] = [
            lambda: app.pause(run.id, reason=odd),
            lambda: app.pause(run.id, by=odd),
            lambda: app.pause(run.id, by=e.Actor(kind="person", name=odd)),
            lambda: app.pause(run.id, by=e.Actor(kind=odd)),
            lambda: app.cancel(run.id, reason=odd),
            lambda: app.runs.skip(run.id, "q", by=odd),
            lambda: app.answer(run.id, "q", "x", by=odd),
            lambda: app.submit(asking, by=odd),
        ]
        for door in doors:
            with pytest.raises((TypeError, EventMisfit)):
                await door()
    async with Plansmith(store=url) as other:
        [known] = await other.store.runs()
        read = await other.get(known)
        assert not read.damage
        assert read.status is RunStatus.ASKING
        await other.answer(known, "q", "x", by="ada")
        assert (await other.run(known)).status is RunStatus.DONE


@pytest.mark.parametrize(
    ("word", "kind", "status"),
    [
        ("pause", "run_paused", RunStatus.PAUSED),
        ("cancel", "cancel_asked", RunStatus.CANCELLED),
        ("answer", "step_done", RunStatus.RUNNING),
    ],
)
async def test_what_a_person_does_elsewhere_is_kept_although_a_step_ends_meanwhile(
    word: str, kind: str, status: RunStatus
) -> None:
    world, store = World(), MeddlingStore()

    async def let_the_step_end(_: str) -> None:
        world.go.set()
        await execution

    store.before[kind] = let_the_step_end
    here, elsewhere = Plansmith(tools=[world], store=store), Plansmith(store=store)
    run = await here.submit(
        plan({"id": "q", "question": "Which?"}, {"id": "a", "tool": "slow_look"})
    )
    execution = asyncio.ensure_future(here.run(run.id))
    await world.began.wait()
    given = ["q", "this"] if word == "answer" else []
    decided = await getattr(elsewhere, word)(run.id, *given, by="bob")
    assert (await execution).status is RunStatus.ASKING
    assert (decided.status, decided.steps["a"].status) == (status, StepStatus.DONE)
    if given:
        assert decided.steps["q"].result == "this"
        assert (await here.run(run.id)).status is RunStatus.DONE


async def test_an_answer_is_refused_if_someone_else_answers_meanwhile() -> None:
    async def answer_first(run: str) -> None:
        await here.answer(run, "q", "mine", by="ada")

    store = MeddlingStore()
    store.before["step_done"] = answer_first
    here, elsewhere = Plansmith(store=store), Plansmith(store=store)
    run = await here.run((await here.submit(plan({"id": "q", "question": "Which?"}))).id)
    with pytest.raises(StaleDecision, match="someone else"):
        await elsewhere.answer(run.id, "q", "yours", by="bob")
    run = await here.run(run.id)
    assert run.steps["q"].result == "mine"


async def test_retention_spares_a_run_in_use_and_keeps_what_is_unknown_of_the_others(
    tmp_path: Path,
) -> None:
    world, store = World(), SqliteStore(tmp_path / "runs.db")
    app = Plansmith(tools=[world], store=store, limits=LIMITS)
    first, second = {"id": "a", "tool": "write"}, {"id": "b", "tool": "slow_write"}
    run = await approve(app, await app.submit(plan(first, second | {"after": ["a"]})))
    running = asyncio.create_task(app.run(run.id))
    await world.began.wait()
    with pytest.raises(Refused, match="is not over"):
        await delete_run(app.runs.journals, run.id)
    await app.cancel(run.id, by="ada")
    await running
    later = datetime.now(UTC) + timedelta(days=1)
    async with app.runs.journals.ownership.owning(run.id):
        assert (await prune(app, later, by="ada")).runs == {}
        assert await store.runs() == [run.id]
    assert [*(await prune(app, later, by="ada")).runs] == [run.id]
    assert await store.runs() == []
    [stone] = await store.tombstones()
    assert isinstance(stone, dict)
    assert (stone["run"], stone["step"], stone["callee"]) == (run.id, "b", "slow_write")
    assert stone["deleted_by"] == "ada"
    await app.close()
