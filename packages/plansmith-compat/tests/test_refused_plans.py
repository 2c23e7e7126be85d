"""A plan that refuses, or that says when it runs in an unreadable way, is never run instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.members import Member

from plansmith import Plansmith, RunStatus
from plansmith.testing import ScriptedModel
from plansmith_planner.settings import PlannerSettings

Script = Callable[..., ScriptedModel]
UNREADABLE: list[Any] = [
    {"interval_minutes": "soon"},
    {"daily_time": "25:99"},
    {"cron": "0 9 * * *"},
    {"daily_time": "09:00", "weekdays": ["Mon"]},
    "every morning",
]


def refused(config: Any, *, adequate: Any = False) -> dict[str, Any]:
    task = {"title": "Pay", "query": "pay", "agent_name": "desk", "pattern": "recurring"}
    tasks = [task | {"schedule_config": config}]
    return {"tasks": tasks, "adequate": adequate, "reason": "no account is named"}


@pytest.mark.parametrize(
    ("adequate", "fallback"),
    [(False, "reply"), ("not yet", "three_steps"), (True, "none"), (True, "three_steps")],
)
@pytest.mark.parametrize("config", UNREADABLE, ids=map(str, UNREADABLE))
async def test_a_plan_with_an_unreadable_schedule_never_runs_however_often_the_model_repeats_it(
    scripted: Script, config: Any, adequate: Any, fallback: str
) -> None:
    desk, repairs = Member("desk"), 2
    given = {"triage": False, "repairs": repairs, "fallback": fallback}
    model = scripted(*[refused(config, adequate=adequate)] * (repairs + 1))
    smith = Plansmith(model=model, agents=[desk], settings=PlannerSettings.model_validate(given))
    planned = await smith.plan("pay every morning", dialect="valuecell")
    if not planned.status.over:
        await smith.runs.run(planned.id)
    run = await smith.get(planned.id)
    assert "pay" not in desk.tasks
    assert run.status is not RunStatus.DONE or fallback == "three_steps"


async def test_the_problems_of_the_asked_dialect_are_what_the_model_repairs(
    scripted: Script,
) -> None:
    good = refused({"daily_time": "09:00"}, adequate=True)
    model = scripted(refused("every morning", adequate=True), good)
    smith = Plansmith(model=model, agents=[Member("desk")], settings=PlannerSettings(triage=False))
    run = await smith.plan("pay every morning", dialect="valuecell")
    assert run.plan is not None
    assert run.plan.schedule is not None
    assert run.plan.schedule.daily_at == "09:00"
    asked = model.prompts[1][-1].text
    assert "schedule_config" in asked
