"""What many tests of runs begin with: plans, steps, and a Plansmith with tools that only look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plansmith import Plan
from plansmith.app import Plansmith
from plansmith.plan.limits import Limits
from plansmith.testing import FakeTool, FakeTools, ScriptedModel
from plansmith_planner.settings import PlannerSettings

Script = Callable[..., ScriptedModel]
NO_TRIAGE = PlannerSettings(triage=False)
LIMITS = Limits(first_wait_s=0)


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
