"""Read by type checkers only: Plansmith as a program uses it, right and wrong.

Every `type: ignore` is a call that has to be an error: mypy warns of an unused one, and pyright
too, as it is told here.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_type

from plansmith import (
    Plan,
    Plansmith,
    Problem,
    Run,
    RunStatus,
    check_plan,
    diff_plans,
    plan_hash,
    read_plan,
    tool,
    try_read_plan,
)
from plansmith.plan.data import Json
from plansmith.plan.diff import PlanDiff
from plansmith.plan.events import Event, QuestionAsked, StepDone
from plansmith.plan.next_move import Move, next_move
from plansmith.store.memory import MemoryStore
from plansmith.testing import ScriptedModel
from plansmith_desk.files.tools import FileTools
from plansmith_planner.threads.thread import Thread


@tool(effect="read")
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sun in {city}"


@dataclass
class Weather:
    """What a tool returns."""

    city: str
    temp: int


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def search(query: str) -> list[str]:
    """Search for something."""
    return [query]


def constructing(folder: Path) -> None:
    assert_type(weather("Oslo"), str)
    weather(3)  # type: ignore[arg-type]
    assert_type(Plansmith(), Plansmith)
    Plansmith(tools=[weather, add, search, FileTools(folder)])
    Plansmith("rules", tools=[weather])
    assert_type(tool(add, effect="read", name="sum")(1, other=2), int)
    Plansmith(model=ScriptedModel("hello"), store="sqlite:///runs.db")
    Plansmith(store=MemoryStore(), agents=[])

    Plansmith(tools=["weather"])  # type: ignore[list-item]
    Plansmith(model=3)  # type: ignore[arg-type]
    Plansmith(store=3)  # type: ignore[arg-type]
    Plansmith(tool=[weather])  # type: ignore[call-arg]
    tool(effect=3)  # type: ignore[call-overload]


def reading(text: str) -> None:
    assert_type(read_plan(text), Plan)
    found = try_read_plan(text)
    assert_type(found, Plan | list[Problem])
    if isinstance(found, Plan):
        assert_type(check_plan(found, {"t": {"description": "d"}}), list[Problem])
        assert_type(plan_hash(found), str)
        assert_type(diff_plans(found, found), PlanDiff)


async def planning_and_running(smith: Plansmith, ready: Plan) -> None:
    run = assert_type(await smith.submit(ready, request="look", by="ada"), Run)
    assert_type(await smith.runs.all(), list[Run])
    assert_type(next_move(run), Move)

    await smith.plan()  # type: ignore[call-arg]
    await smith.plan(3)  # type: ignore[arg-type]
    await smith.submit({"goal": "look"})  # type: ignore[arg-type]
    await smith.run(run)  # type: ignore[arg-type]
    _ = smith.run(run.id).status  # type: ignore[attr-defined]


async def doing(smith: Plansmith, ready: Plan) -> None:
    async def later(plan: Plan) -> bool:
        return bool(plan.steps)

    def reply(question: QuestionAsked) -> str | None:
        return question.options[0] if question.options else None

    assert_type(await smith.do("look", approve=lambda plan: True), Run)
    assert_type(await smith.do(ready, approve=later, answer=reply, by="ada"), Run)
    assert_type(smith.do_sync("look", approve=lambda plan: plan.replace(goal="x")), Run)

    await smith.do("look", approve=True)  # type: ignore[arg-type]
    await smith.do("look", approve=lambda plan: "yes")  # type: ignore[arg-type, return-value]
    await smith.do()  # type: ignore[call-arg]


async def deciding(smith: Plansmith, run: Run, plan: Plan) -> None:
    assert_type(await smith.decide(run.id, approve=plan.hash, by="ada"), Run)
    await smith.answer(run.id, "q", {"any": ["json", 1, None]})

    await smith.decide(run.id, approve=plan)  # type: ignore[arg-type]
    await smith.decide(run.id, True)  # type: ignore[call-arg, arg-type]
    await smith.answer(run.id, "q")  # type: ignore[call-arg]
    await smith.answer(run.id, "q", object())  # type: ignore[arg-type]
    await smith.pause()  # type: ignore[call-arg]
    await smith.retry(run.id, "a")  # type: ignore[call-arg]


async def watching(smith: Plansmith, run: Run) -> None:
    events = assert_type(smith.events(run.id, after=3, follow=True), AsyncIterator[Event])
    async for event in events:
        if isinstance(event.body, StepDone):
            assert_type(event.body.step, str)

    for _ in smith.events(run.id):  # type: ignore[attr-defined]
        pass


async def talking(smith: Plansmith) -> None:
    thread: Thread = await smith.thread("trip")
    assert_type((await thread.say("look", by="ann")).run, Run | None)

    smith.thread("trip").say("look")  # type: ignore[attr-defined]


def results(run: Run) -> None:
    assert_type(run.plan, Plan | None)
    assert_type(run.result("o", Weather), Weather)
    assert_type(run.result("o", list[Weather]), list[Weather])
    assert_type(run.result("o"), Json)

    run.status = RunStatus.DONE  # type: ignore[misc]
    _ = run.no_such_field  # type: ignore[attr-defined]
