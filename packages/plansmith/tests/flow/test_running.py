"""From a submitted plan to its report: review, execution, questions, failures, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.flow.plans import approved, plan, step

from plansmith import AgentSpec, Effect, RunStatus, read_plan, try_read_plan
from plansmith.app import Plansmith
from plansmith.errors import Misconfigured, PlanInvalid, Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.limits import Limits
from plansmith.plan.timing import Timing
from plansmith.ports import Delta, Prompt
from plansmith.review.settings import ReviewPolicy
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore, ScriptedModel
from plansmith.tools.functions import tool

NO_WAIT = Limits(first_wait_s=0)


def smith(*tools: FakeTool, **options: Any) -> tuple[Plansmith, FakeTools]:
    source = FakeTools(FakeTool("look", [lambda a: {"seen": dict(a), "list": [1, 2, 3]}]), *tools)
    return Plansmith(tools=[source], limits=options.pop("limits", NO_WAIT), **options), source


def statuses(run: Any) -> dict[str, str]:
    return {name: each.status.value for name, each in run.steps.items()}


async def test_nothing_with_an_effect_happens_before_the_approval_of_that_hash() -> None:
    app, tools = smith(FakeTool("mail", effect=Effect.FINAL))
    wanted = plan(step("a"), step("m", "mail", inputs={"to": "bob"}))
    run = await app.submit(wanted)
    assert run.status is RunStatus.REVIEWING
    assert (await app.runs.run(run.id)).status is RunStatus.REVIEWING
    assert tools.calls == []
    with pytest.raises(StaleDecision, match="not the hash"):
        await app.decide(run.id, approve="0" * 64)
    with pytest.raises(StaleDecision, match="only the beginning"):
        await app.decide(run.id, approve=wanted.hash[:12])
    await app.decide(run.id, approve=wanted.hash, by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert [call.tool for call in tools.calls] == ["look", "mail"]


async def test_a_decision_is_made_once() -> None:
    app, _ = smith(FakeTool("mail", effect=Effect.WRITE))
    wanted = plan(step("m", "mail"))
    run = await app.submit(wanted)
    decisions = [app.decide(run.id, approve=wanted.hash, by=str(n)) for n in range(4)]
    outcomes = await asyncio.gather(*decisions, return_exceptions=True)
    assert sum(isinstance(each, StaleDecision) for each in outcomes) == 3
    with pytest.raises(Misconfigured):
        await app.decide(run.id)
    with pytest.raises(Misconfigured):
        await app.decide(run.id, approve=wanted.hash, reject=True)


async def test_tools_may_be_freed_from_review_and_every_plan_may_be_reviewed() -> None:
    app, _ = smith(
        FakeTool("note.add", effect=Effect.WRITE), policy=ReviewPolicy(never_for=("note.*",))
    )
    assert (await approved(app, plan(step("n", "note.add")))).status is RunStatus.DONE
    strict, _ = smith(policy=ReviewPolicy(ask="always"))
    assert (await strict.submit(plan(step("a")))).status is RunStatus.REVIEWING


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_that_several_callers_run_at_once_is_over_for_all_of_them(
    kind: str, tmp_path: Path
) -> None:
    source = FakeTools(FakeTool("look", [lambda _: "seen"]))
    store = "memory" if kind == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"
    async with Plansmith(tools=[source], store=store) as app:
        for _ in range(3):
            run = await app.submit(plan(step("a"), step("b", after=["a"])))
            runs = await asyncio.gather(*(app.run(run.id) for _ in range(3)))
            assert [each.status for each in runs] == [RunStatus.DONE] * 3
    assert len(source.calls) == 6


class HeldModel(ScriptedModel):
    """Holds its first answer back until it is told."""

    def __init__(self, *answers: object) -> None:
        super().__init__(*answers)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        if not self.asked.is_set():
            self.asked.set()
            await self.go.wait()
        async for each in super().stream(prompt):
            yield each


async def test_while_a_change_is_planned_nothing_begins_and_only_a_later_change_counts() -> None:
    model = HeldModel({"steps": [step("c")]}, {"steps": [step("b")]})
    app, tools = smith(model=model)
    run = await app.submit(plan(step("a")), request="look")
    first = asyncio.ensure_future(app.request_changes(run.id, "call it b", by="ada"))
    await model.asked.wait()
    assert (await app.run(run.id)).status is RunStatus.PLANNING
    assert (model.prompts, tools.calls) == ([], [])
    run = await app.request_changes(run.id, "rather c", by="bob")
    model.go.set()
    with pytest.raises(StaleWriter):
        await first
    assert statuses(await app.run(run.id)) == {"c": "done"}


async def test_a_plan_that_could_not_be_read_is_refused_with_its_problems() -> None:
    app, _ = smith()
    with pytest.raises(PlanInvalid, match="PS0"):
        await app.submit(try_read_plan({"goal": "x"}))
    unread: Any = {"goal": "x", "steps": []}
    with pytest.raises(TypeError, match="read_plan makes one"):
        await app.submit(unread)
    assert await app.runs.all() == []


async def test_a_question_parks_the_run_and_its_answer_is_the_steps_result() -> None:
    app, _ = smith()
    run = await approved(
        app,
        plan(
            step("a"),
            {"id": "q", "question": "Which of {{a.list}}?", "options": ["x", "y"]},
            {"id": "n", "question": "How many?", "answer_schema": {"type": "integer"}},
            step("b", inputs={"which": "{{q}}"}),
        ),
    )
    assert run.status is RunStatus.ASKING
    assert run.questions["q"].text == "Which of [1, 2, 3]?"
    assert statuses(run) == {"a": "done", "q": "asking", "n": "asking", "b": "waiting"}
    with pytest.raises(Refused, match="does not fit"):
        await app.answer(run.id, "n", "many")
    await app.answer(run.id, "n", 3)
    with pytest.raises(Refused, match="not one of"):
        await app.answer(run.id, "q", "z")
    await app.answer(run.id, "q", "y")
    with pytest.raises(Refused, match="no open question"):
        await app.answer(run.id, "q", "x")
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert run.steps["b"].result == {"seen": {"which": "y"}, "list": [1, 2, 3]}


async def test_a_failed_step_is_never_done_and_what_needs_it_is_skipped() -> None:
    def explode(_: Any) -> Any:
        raise ValueError("boom")

    app, _ = smith(FakeTool("bad", [explode]))
    run = await approved(
        app,
        plan(step("a"), step("b", "bad"), step("c", inputs={"x": "{{b}}"}), step("d", after=["c"])),
    )
    assert run.status is RunStatus.PARTLY_DONE
    assert statuses(run) == {"a": "done", "b": "failed", "c": "skipped", "d": "skipped"}
    assert "boom" in run.steps["b"].error
    assert "boom" in run.report
    assert "Only part of it was done." in run.report


async def test_a_reference_to_what_is_not_there_fails_its_step_only() -> None:
    app, _ = smith()
    run = await approved(app, plan(step("a"), step("b", inputs={"x": "{{a.nothing}}"}), step("c")))
    assert statuses(run) == {"a": "done", "b": "failed", "c": "done"}
    assert "the keys seen, list" in run.steps["b"].error


async def test_a_write_that_runs_out_of_time_is_unknown_and_asks() -> None:
    @tool(effect="write", timeout_s=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    app, wanted = Plansmith(tools=[slow]), plan(step("s", "slow"))
    run = await approved(app, wanted)
    assert (run.status, statuses(run)) == (RunStatus.ASKING, {"s": "unknown"})
    with pytest.raises(Refused):
        await app.answer(run.id, "unknown:s", "maybe")


async def test_a_cancel_reaches_agents_map_parts_and_steps_of_templates() -> None:
    inside, stopped = asyncio.Semaphore(0), list[str]()

    async def forever(name: str) -> None:
        inside.release()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(name)

    @tool(effect="read")
    async def wait(name: str) -> None:
        await forever(name)

    class Worker:
        spec = AgentSpec(name="worker", effect=Effect.READ)

        async def work(self, task: str, inputs: Any, call: Any) -> None:
            await forever("agent")

    template = plan(step("t", "wait", inputs={"name": "template"}))
    each = step("e", "wait", inputs={"name": "{{item}}"})
    app = Plansmith(tools=[wait], agents=[Worker()], templates={"sub": template})
    run = await app.submit(
        plan(
            {"id": "a", "agent": "worker", "task": "wait"},
            {"id": "m", "over": ["x", "y", "z"], "width": 2, "each": each},
            {"id": "p", "template": "sub"},
        )
    )
    running = asyncio.ensure_future(app.run(run.id))
    for _ in range(4):
        await inside.acquire()
    run = await app.cancel(run.id, by="ada")
    await running
    assert sorted(stopped) == ["agent", "template", "x", "y"]
    assert run.status is RunStatus.CANCELLED
    assert set(statuses(run).values()) == {"cancelled"}


async def test_a_tool_that_will_not_stop_is_abandoned_after_its_grace_time() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def stubborn() -> None:
        entered.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    app = Plansmith(tools=[stubborn], limits=Limits(grace_s=0.01))
    run = await app.submit(plan(step("s", "stubborn")))
    running = asyncio.ensure_future(app.run(run.id))
    await entered.wait()
    run = await app.cancel(run.id, by="ada")
    assert run.status is RunStatus.CANCELLED
    assert statuses(run) == {"s": "cancelled"}
    release.set()
    await running


async def test_steps_run_side_by_side_within_the_width_and_a_tools_own_limit() -> None:
    most: dict[str, int] = {}
    now: dict[str, int] = {}

    def counted(name: str) -> Callable[[], Any]:
        async def work() -> None:
            now[name] = now.get(name, 0) + 1
            now["all"] = now.get("all", 0) + 1
            for key in (name, "all"):
                most[key] = max(most.get(key, 0), now[key])
            for _ in range(5):
                await asyncio.sleep(0)
            now[name] -= 1
            now["all"] -= 1

        work.__name__ = name
        return work

    tools = [tool(effect="read")(counted(name)) for name in ("one", "two")]
    app = Plansmith(tools=tools, limits=Limits(width=5, per_tool={"one": 2}))
    steps = [step(f"a{n}", "one") for n in range(8)] + [step(f"b{n}", "two") for n in range(8)]
    assert (await approved(app, plan(*steps))).status is RunStatus.DONE
    assert most["one"] == 2
    assert most["all"] == 5


async def test_a_run_that_waits_for_a_person_holds_no_task() -> None:
    app, _ = smith()
    runs = [await app.submit(plan({"id": "q", "question": "?"})) for _ in range(100)]
    before = asyncio.all_tasks()
    parked = await asyncio.gather(*(app.run(run.id) for run in runs))
    assert {run.status for run in parked} == {RunStatus.ASKING}
    assert asyncio.all_tasks() == before


DECIDED = {"decision": "plan", "reason": "so", "query": "Refund my last order", "answer": ""}
SORT = {"id": "sort", "tool": "sort_rows", "inputs": {"path": "people.csv"}}


@tool(effect="read")
def sort_rows(path: str) -> str:
    """Sort the rows of a table."""
    return f"{path}: sorted"


@pytest.mark.parametrize(
    "request_",
    [
        "Help me order some thoughts about Q3",
        "Sort people.csv by age and save as sorted.csv",
        "Delete the file old.log if it is empty, then email it to Ann",
        "把结果保存为 a.csv，如果为空就发送邮件给小王",
    ],
)
async def test_a_plan_that_a_program_submits_ends_as_its_steps_did(request_: str) -> None:
    """Also repeated, edited by a person, and kept as a schedule."""
    app = Plansmith(tools=[sort_rows], store=MemoryStore())
    plan = read_plan({"goal": request_, "steps": [SORT]})
    run = await app.submit(plan, request=request_, by=e.Actor(kind="program"))
    run = await app.run(run.id)
    assert (run.status, run.reason) == (RunStatus.DONE, "")
    assert "Not done" not in run.report
    again = await app.run((await app.rerun(run.id)).id)
    assert again.status is RunStatus.DONE
    other = await app.submit(plan, request=request_, by=e.Actor(kind="program"))
    edited = await app.edit(other.id, read_plan({"goal": "other", "steps": [SORT]}))
    assert edited.plan is not None
    timing = Timing(every_minutes=60)
    await app.schedules.create(run=other.id, timing=timing, approve=edited.plan.hash, by="ada")
    assert len(await app.schedules.all()) == 1


@tool(effect="write")
def refund(order_id: str) -> str:
    """Pay an order back."""
    return order_id


@pytest.mark.parametrize("made_up", ["2026-01-01", "00:00:00", "W-4711"])
async def test_the_clock_and_invented_values_are_shown_as_made_up_in_review(made_up: str) -> None:
    steps = [{"id": "back", "tool": "refund", "inputs": {"order_id": made_up}}]
    model = ScriptedModel(DECIDED, {"goal": "g", "enough_context": True, "steps": steps})
    run = await Plansmith(tools=[refund], model=model, clock=FakeClock()).plan(
        "Refund my last order"
    )
    assert run.status is RunStatus.REVIEWING
    (found,) = [each for each in run.problems if each.code == "PS505"]
    assert (found.step, found.path) == ("back", ("inputs", "order_id"))
