"""Read by type checkers only: what the public names promise."""

from __future__ import annotations

from typing import assert_type

from plansmith import (
    Plan,
    Plansmith,
    Problem,
    check_plan,
    diff_plans,
    plan_hash,
    read_plan,
    try_read_plan,
)
from plansmith.plan.diff import PlanDiff
from plansmith.plan.events import Event
from plansmith.plan.next_move import AwaitReview, Move, next_move
from plansmith.plan.run import Run
from plansmith.plan.schedules import Fire, Schedule
from plansmith.runs.stopping import LeftOut
from plansmith.templates.book import Template


def reading(text: str) -> None:
    assert_type(read_plan(text), Plan)
    found = try_read_plan(text)
    assert_type(found, Plan | list[Problem])
    if isinstance(found, Plan):
        assert_type(check_plan(found, {}), list[Problem])
        assert_type(
            check_plan(found, {"t": {"description": "d", "input_schema": {}}}), list[Problem]
        )
        assert_type(plan_hash(found), str)
        assert_type(found.hash, str)
        assert_type(diff_plans(found, found), PlanDiff)


async def using(smith: Plansmith, plan: Plan) -> None:
    run = await smith.plan("tea for two", by="ada", locale="en")
    assert_type(run, Run)
    assert_type(await smith.submit(plan, request="tea"), Run)
    move = next_move(run)
    assert_type(move, Move)
    if isinstance(move, AwaitReview):
        assert_type(await smith.decide(run.id, approve=move.hash, by="ada"), Run)
    assert_type(await smith.run(run.id), Run)
    assert_type(await smith.answer(run.id, "request:1", "green", by="ada"), Run)
    assert_type(await smith.runs.stopping.skip(run.id, "a"), LeftOut)
    assert_type(await smith.check(plan), list[Problem])
    assert_type(await smith.runs(), list[Run])
    async for event in smith.events(run.id, follow=True):
        assert_type(event, Event)


async def using_parts(smith: Plansmith, plan: Plan) -> None:
    assert_type(await smith.schedules.create(plan=plan, approve=plan.hash, by="ada"), Schedule)
    assert_type(await smith.schedules.fire_now("tea"), Fire)
    assert_type(await smith.templates.save(plan, "tea"), Template)
    assert_type(await smith.runs.resume_all(), list[Run])
