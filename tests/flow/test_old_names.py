"""Names of the first release: programs that use them go on working."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from plansmith import Plan, Plansmith, tool
from plansmith.old_names import OLD_NAMES
from plansmith.plan.run import RunStatus
from plansmith.plan.timing import Timing
from plansmith.templates.book import TemplateBook

LOOK = Plan.model_validate({"goal": "look", "steps": [{"id": "a", "tool": "look"}]})


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


def program(**options: Any) -> Any:
    """A Plansmith as a program of the first release sees it."""
    return Plansmith(tools=[look], **options)


@pytest.mark.parametrize("name", OLD_NAMES)
def test_every_old_name_leads_to_something(name: str) -> None:
    assert getattr(program(), name) is not None or name in {"price_per_million", "model"}


async def test_a_program_of_the_first_release_plans_runs_and_lists() -> None:
    smith = program()
    run = await smith.run((await smith.submit(LOOK)).id)
    assert run.status is RunStatus.DONE
    assert [each.id for each in await smith.runs()] == [run.id]
    assert (await smith.journal(run.id)).run.id == run.id
    assert (await smith.fork(run.id, at=2)).origin.id == run.id
    assert "look" in (await smith.callees()).specs
    assert await smith.resume_all() == []


def test_a_program_of_the_first_release_runs_without_await() -> None:
    smith = program()
    run = asyncio.run(smith.submit(LOOK))
    assert smith.run_sync(run.id).status is RunStatus.DONE


async def test_a_program_of_the_first_release_keeps_schedules_and_templates() -> None:
    smith = program(store="memory")
    made = await smith.create_schedule(
        timing=Timing(every_minutes=60), plan=LOOK, approve=LOOK.hash, by="ada", name="tea"
    )
    assert [each.id for each in await smith.list_schedules()] == [made.id]
    fire = await smith.fire_now("tea")
    await smith.carried()
    assert (await smith.get(fire.run)).status is RunStatus.DONE
    saved = await TemplateBook(smith).save(LOOK, "looking")
    assert (await smith.templates.get("looking")) == saved
    await smith.close()


def test_modules_and_options_of_the_first_release_are_found() -> None:
    limits_of_then = import_module("plansmith.runner.limits")
    limits, caps = limits_of_then.RunLimits(width=3), limits_of_then.Caps(replans=7)
    smith = program(limits=limits, caps=caps, early_start=False)
    limits = smith.runs.execution.limits
    assert (limits.width, limits.max_replans, limits.early_start) == (3, 7, False)
    assert import_module("plansmith.runner.templates").TemplateBook is TemplateBook
    assert callable(import_module("plansmith.runner.suggesting").suggest)
    with pytest.raises(TypeError, match="no option 'widht'"):
        program(widht=3)
    with pytest.raises(TypeError, match="budget must be a BudgetLimits"):
        program(budget={"tokens": 5})


def test_old_names_are_no_members_and_a_wrong_name_is_said_to_be_wrong() -> None:
    assert not OLD_NAMES.keys() & set(dir(Plansmith))
    with pytest.raises(AttributeError, match="no attribute 'aproove'"):
        _ = program().aproove
