"""What many tests of runs begin with: plans, steps, and a Plansmith with tools that only look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from plansmith import Plan, Run, RunStatus
from plansmith.app import Plansmith
from plansmith.plan.events import Who
from plansmith.plan.limits import Limits
from plansmith.plan.planning import Planned
from plansmith.testing import FakeTool, FakeTools, ScriptedModel
from plansmith_planner.dialect import Reading
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.threads.thread import Thread, Turn
from plansmith_planner.triage import Triage

Script = Callable[..., ScriptedModel]
NO_TRIAGE = PlannerSettings(triage=False)
LIMITS = Limits(first_wait_s=0)


class Stepwise:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def forward(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        self.forward(seconds)


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)} | fields)


def step(name: str, tool: str = "look", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": tool} | fields


def smith(*tools: Any, **options: Any) -> tuple[Plansmith, FakeTools]:
    fakes = [each for each in tools if isinstance(each, FakeTool)]
    others = [each for each in tools if not isinstance(each, FakeTool)]
    source = FakeTools(FakeTool("look", [lambda a: {"seen": dict(a)}]), *fakes)
    given: dict[str, Any] = {"limits": LIMITS, "settings": NO_TRIAGE} | options
    return Plansmith(tools=[source, *others], **given), source


def statuses(run: Any) -> dict[str, str]:
    return {name: each.status.value for name, each in run.steps.items()}


async def bodies(app: Plansmith, run: Any, kind: type[Any]) -> list[Any]:
    return [event.body async for event in app.events(run.id) if isinstance(event.body, kind)]


def plan_of(made: Run | Planned | Reading | Triage) -> Plan:
    assert made.plan is not None
    return made.plan


async def approve(app: Plansmith, run: Run, by: str = "ada") -> None:
    await app.decide(run.id, approve=plan_of(run).hash, by=by)


async def approved(app: Plansmith, run: Run, by: str = "ada") -> Run:
    """Approves the plan of a run if it waits for that, and runs it."""
    if run.status is RunStatus.REVIEWING:
        await approve(app, run, by)
    return await app.run(run.id)


def run_of(turn: Turn) -> Run:
    assert turn.run is not None
    return turn.run


async def begun(thread: Thread, text: str, by: Who = "ann", key: str = "") -> Run:
    """Says something in a thread; returns the run that came of it."""
    return run_of(await thread.say(text, by=by, key=key))


async def done(app: Plansmith, thread: Thread, text: str) -> Run:
    return await app.run((await begun(thread, text)).id)
