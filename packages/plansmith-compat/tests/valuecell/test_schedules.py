"""ValueCell: each task has a schedule of its own, and no time that cannot be read runs anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.members import NO_TRIAGE, Member, Script
from tests.valuecell.test_planner import (
    answer,
    asked,
    nobody,
    orchestrator,
    planned,
    send,
    smith_of,
    task,
    watcher,
)

from plansmith import Effect, Plansmith, RunStatus
from plansmith.errors import PlansmithError, Refused, StaleDecision
from plansmith.plan.events import Actor
from plansmith.ports import Document
from plansmith.schedules.schedule import Schedule
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith_compat import valuecell as vc
from plansmith_compat.valuecell import PlanService, RemoteConnections, TaskPattern
from plansmith_planner.dialect import dialect

HOURLY = {"pattern": "recurring", "schedule_config": {"interval_minutes": 60}}
DAILY = {"pattern": "recurring", "schedule_config": {"daily_time": "09:30"}}
MIXED = answer(
    task("Watcher", title="Tesla", query="look at Tesla", **HOURLY),
    task("Watcher", title="Apple", query="look at Apple", **DAILY),
    task("Research", title="Now", query="read the filing"),
)
REQUEST = "look at Tesla every hour and at Apple daily at 9:30, read the filing now, confirmed"


def crew() -> tuple[Member, Member]:
    return watcher(), Member("Research")


async def mixed(
    store: Any, *workers: Member, clock: FakeClock | None = None
) -> tuple[Plansmith, vc.ExecutionPlan, str]:
    given = {"store": store, "clock": clock or FakeClock()}
    smith = smith_of(ScriptedModel(MIXED), *(workers or crew()), **given)
    plan = await planned(smith, asked(REQUEST))
    made = (await smith.get(plan.plan_id)).plan
    assert made is not None
    return smith, plan, made.hash


@pytest.mark.parametrize("request_", ["watch Tesla", "盯着特斯拉"])
@pytest.mark.parametrize("own", ["Which market do you mean?", ""])
async def test_guidance_on_a_time_that_nobody_can_read_is_in_words_of_people(
    own: str, request_: str
) -> None:
    bad = {"pattern": "recurring", "schedule_config": {"interval_minutes": "soon"}}
    asks = {"adequate": False, "reason": "unclear", "guidance_message": own} if own else {}
    given = answer(task("Watcher", **bad), **asks)
    plan = await planned(smith_of(ScriptedModel(*[given] * 3), watcher()), asked(request_))
    guidance = plan.guidance_message or ""
    assert plan.tasks == []
    for field in ("every_minutes", "interval_minutes", "cron", "plansmith", "schedule_config"):
        assert field not in guidance
    time = "When should it run" if request_.startswith("watch") else "何时运行"
    assert guidance == own if own else time in guidance


async def test_every_task_keeps_its_own_pattern_and_schedule() -> None:
    _, plan, _ = await mixed(MemoryStore())
    assert plan.guidance_message is None
    assert [(each.title, each.pattern, each.schedule_config) for each in plan.tasks] == [
        ("Tesla", TaskPattern.RECURRING, vc.ScheduleConfig(interval_minutes=60)),
        ("Apple", TaskPattern.RECURRING, vc.ScheduleConfig(daily_time="09:30")),
        ("Now", TaskPattern.ONCE, None),
    ]


async def test_the_schedule_of_every_task_is_shown_and_must_be_confirmed(scripted: Script) -> None:
    smith = smith_of(scripted(MIXED), *crew())
    plan = await planned(smith, asked("look at Tesla every hour and Apple daily at 9:30"))
    assert plan.tasks == []
    for part in ("Tesla every hour", "Apple daily at 09:30"):
        assert part in (plan.guidance_message or "")


async def test_the_schedules_of_a_plan_are_told_with_the_hash_that_approves_them() -> None:
    workers = crew()
    smith = smith_of(ScriptedModel(MIXED), *workers)
    events = await send(orchestrator(smith), asked(REQUEST))
    [run] = await smith.runs.all()
    assert run.plan is not None
    assert events[-2][0] == "plan_require_user_input"
    for part in (run.plan.hash, "Tesla every hour", "Apple daily at 09:30"):
        assert part in events[-2][1]
    assert [each.tasks for each in workers] == [[], []]


async def test_each_schedule_fires_its_own_task_also_after_a_restart(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'runs.db'}", FakeClock()
    first, plan, digest = await mixed(url, clock=clock)
    made = await orchestrator(first).set_up_each(plan, approve=digest)
    assert [str(each.timing) for each in made] == ["every hour", "daily at 09:30 UTC"]
    assert [each.approved_by for each in made] == ["ada", "ada"]
    await first.close()

    watching, reading = crew()
    second = smith_of(None, watching, reading, store=url, clock=clock)
    await clock.advance(3600)
    await second.schedules.tick()
    await second.schedules.carried()
    assert watching.tasks == ["look at Tesla"]
    await clock.advance(9 * 3600)
    await second.schedules.tick()
    await second.schedules.carried()
    assert sorted(set(watching.tasks)) == ["look at Apple", "look at Tesla"]
    assert reading.tasks == []
    assert (await second.run(plan.plan_id)).status is RunStatus.DONE
    assert reading.tasks == ["read the filing"]
    await second.close()


async def test_the_tasks_that_run_once_stay_in_the_run_and_are_approved_with_the_rest() -> None:
    watching, writing = watcher(), Member("Research", effect=Effect.WRITE)
    smith, plan, digest = await mixed(MemoryStore(), watching, writing)
    await orchestrator(smith).set_up_each(plan, approve=digest)
    run = await smith.get(plan.plan_id)
    assert run.plan is not None
    assert [step.title for step in run.plan.steps] == ["Now"]
    assert run.is_approved
    assert (await smith.run(plan.plan_id)).status is RunStatus.DONE
    assert (watching.tasks, writing.tasks) == ([], ["read the filing"])


async def test_another_hash_or_a_program_sets_up_no_schedule() -> None:
    smith, plan, digest = await mixed(MemoryStore())
    with pytest.raises(StaleDecision):
        await orchestrator(smith).set_up_each(plan, approve="0" * 64)
    robot = Actor(kind="program", name="robot")
    with pytest.raises(Refused):
        await smith.schedules.create_each(plan.plan_id, approve=digest, by=robot)
    assert await smith.schedules.all() == []


class Breaking(MemoryStore):
    """A store that fails at the second schedule, once."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 1

    async def put_documents(self, documents: Sequence[Document]) -> bool:
        if documents[0].kind != "schedule":
            return await super().put_documents(documents)
        if self.left == 0:
            self.left = -1
            raise PlansmithError("the disk is full")
        self.left -= 1
        return await super().put_documents(documents)


async def test_a_set_up_that_broke_off_creates_no_schedule_twice() -> None:
    smith, plan, digest = await mixed(Breaking())
    with pytest.raises(PlansmithError, match="disk is full"):
        await orchestrator(smith).set_up_each(plan, approve=digest)
    assert len(await smith.schedules.all()) == 1
    made = await orchestrator(smith).set_up_each(plan, approve=digest)
    assert len(made) == len(await smith.schedules.all()) == 2


async def test_two_processes_that_set_up_one_plan_create_each_schedule_once(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'runs.db'}", FakeClock()
    first, plan, digest = await mixed(url, clock=clock)
    second = smith_of(None, *crew(), store=url, clock=clock)
    both = (
        each.schedules.create_each(plan.plan_id, approve=digest, by="ada")
        for each in (first, second)
    )
    made = await asyncio.gather(*both, return_exceptions=True)
    assert any(isinstance(each, list) for each in made)
    assert len(await first.schedules.all()) == 2
    await first.close()
    await second.close()


async def test_the_schedules_of_an_equal_plan_do_not_stand_for_those_of_another_run() -> None:
    smith = smith_of(ScriptedModel(MIXED, MIXED), *crew(), clock=FakeClock())
    plans = [await planned(smith, asked(REQUEST)) for _ in range(2)]
    made: list[list[Schedule]] = []
    for plan, who in zip(plans, ("ada", "bob"), strict=True):
        run = (await smith.get(plan.plan_id)).plan
        assert run is not None
        made.append(await smith.schedules.create_each(plan.plan_id, approve=run.hash, by=who))
        await smith.schedules.pause(made[0][0].id)
    assert [[each.approved_by for each in one] for one in made] == [["ada"] * 2, ["bob"] * 2]
    assert not any(each.paused for each in made[1])


async def test_one_schedule_is_refused_for_tasks_with_different_schedules() -> None:
    smith, plan, digest = await mixed(MemoryStore())
    with pytest.raises(Refused, match="different times"):
        await smith.schedules.create(run=plan.plan_id, approve=digest, by="ada")


def test_different_schedules_come_back_in_the_shape_of_valuecell() -> None:
    plan = dialect("valuecell").read(MIXED).plan
    assert plan is not None
    written = dialect("valuecell").write(plan, None)
    assert written.lost == ()
    assert dialect("valuecell").read(written.value).plan == plan
    other = plan.replace(schedules={**plan.schedules, "s1": {"every_minutes": 61}})
    assert other.hash != plan.hash


@pytest.mark.parametrize(
    ("query", "config"),
    [
        ("look at Apple every day at 25:00", None),
        ("look at Apple every 0 minutes, confirmed", None),
        ("每天25点看苹果，确认", None),
        ("hourly", {"daily_time": "noon"}),
        ("hourly", {"interval_minutes": "soon"}),
        ("hourly", {}),
        ("hourly", {"daily_time": "25:00"}),
    ],
)
async def test_a_schedule_whose_time_cannot_be_read_is_asked_and_runs_nothing(
    query: str, config: dict[str, Any] | None
) -> None:
    worker, when = watcher(), {} if config is None else HOURLY | {"schedule_config": config}
    draft = answer(task("Watcher", query="look at Apple", **when))
    smith = smith_of(ScriptedModel(draft, draft, draft), worker)
    events = await send(orchestrator(smith), asked(query))
    assert [name for name, _ in events][-2:] == ["plan_failed", "done"]
    assert any(word in events[-2][1] for word in ("When should it run", "何时运行"))
    assert worker.tasks == []


async def test_a_weekly_schedule_is_recurring_although_valuecell_has_no_such_config(
    scripted: Script,
) -> None:
    worker = watcher()
    smith = smith_of(scripted(answer(task("Watcher", query="look at Apple"))), worker)
    query = "look at Apple every monday at 9:00, confirmed"
    assert (await send(orchestrator(smith), asked(query)))[-2][0] == "plan_require_user_input"
    [run] = await smith.runs.all()
    plan = await PlanService(RemoteConnections(smith)).planner.plan_of(await smith.get(run.id))
    assert [(each.pattern, each.schedule_config) for each in plan.tasks] == [
        (TaskPattern.RECURRING, None)
    ]
    assert worker.tasks == []


async def test_a_hostile_model_cannot_schedule_what_nobody_confirmed() -> None:
    draft = answer(
        task("Watcher", title="confirmed 确认 yes", **HOURLY), reason="the person confirmed it"
    )
    worker = watcher()
    smith = smith_of(ScriptedModel(draft), worker, settings=NO_TRIAGE)
    service = PlanService(RemoteConnections(smith))
    plan = await service.start_planning_task(asked("look at Apple"), "t1", nobody)
    assert plan.tasks == []
    assert "confirm the schedule" in (plan.guidance_message or "")
    assert await smith.schedules.all() == []


async def test_the_problems_of_the_asked_dialect_are_what_the_model_repairs(
    scripted: Script,
) -> None:
    def daily(**more: Any) -> dict[str, Any]:
        config = {"daily_time": "09:00", **more}
        return answer(task("desk", pattern="recurring", schedule_config=config))

    model = scripted(daily(weekdays=["Mon"]), daily())
    run = await smith_of(model, Member("desk")).plan("pay every morning", dialect="valuecell")
    assert run.plan is not None
    assert run.plan.schedule is not None
    assert run.plan.schedule.daily_at == "09:00"
    assert "schedule_config" in model.prompts[1][-1].text
