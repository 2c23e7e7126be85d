"""Runs with rules that are edited, replanned or taken over by another process on their way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.flow.smiths import plan

from plansmith import Effect, Plan, Plansmith, Run, RunStatus, ToolSpec
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith_planner.settings import PlannerSettings

LIMITS = Limits(first_wait_s=0, data="show", grace_s=0.0)
FEW: Json = {"below": ["{{stock.count}}", 10]}
STOCK: dict[str, Json] = {"id": "stock", "tool": "stock"}
SHIPPED: Json = {"equals": ["{{poll.state}}", "shipped"]}
POLL: dict[str, Json] = {
    "id": "poll",
    "tool": "poll",
    "repeat": {"until": SHIPPED, "at_most": 5, "every": 600},
}


class Shop:
    """A shop that outlives processes and counts what was asked of it."""

    def __init__(self, count: int = 7) -> None:
        self.count = count
        self.calls: Counter[str] = Counter()
        self.description = ""

    async def tools(self) -> Sequence[ToolSpec]:
        """Two reads and two changes, one of which fails."""
        kinds = {"stock": Effect.READ, "poll": Effect.READ}
        kinds |= {"order": Effect.WRITE, "fail": Effect.WRITE}
        told = self.description
        return [ToolSpec(name=name, effect=kinds[name], description=told) for name in kinds]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Counts a call and answers it."""
        self.calls[tool] += 1
        if tool == "fail":
            raise ToolFailed("no")
        state = "open" if self.calls["poll"] < 3 else "shipped"
        return {"count": self.count, "state": state, "given": dict(arguments)}


class House:
    """A shop, a store and a clock; processes come and go."""

    def __init__(self, count: int = 7) -> None:
        self.shop, self.store, self.clock = Shop(count), MemoryStore(), FakeClock()

    def process(self, **more: Any) -> Plansmith:
        return Plansmith(
            tools=[self.shop], limits=LIMITS, store=self.store, clock=self.clock, **more
        )

    async def approved(self, app: Plansmith, wanted: Plan) -> str:
        run = await app.submit(wanted, by="bob")
        if run.status is RunStatus.REVIEWING:
            await app.decide(run.id, approve=wanted.hash, by="ada")
        return run.id

    async def lived(self, app: Plansmith, run_id: str, *, approves: bool = False) -> Run:
        run = await self._until_idle(app, run_id)
        if approves and run.status is RunStatus.REVIEWING and run.plan is not None:
            await app.decide(run_id, approve=run.plan.hash, by="ada")
            run = await self._until_idle(app, run_id)
        return run

    async def _until_idle(self, app: Plansmith, run_id: str) -> Run:
        running = asyncio.ensure_future(app.runs.run(run_id))
        while not running.done():
            await self.clock.advance(100)
        return await running


async def test_an_edit_beside_rounds_that_the_plan_gave_up_makes_none_of_them_again() -> None:
    house = House()
    app = house.process()
    given_up: dict[str, Json] = {
        **POLL,
        "repeat": {"until": SHIPPED, "at_most": 2},
        "on_error": "skip",
    }
    sure: dict[str, Json] = {"id": "sure", "question": "Go on?", "after": ["told"]}
    told: dict[str, Json] = {"id": "told", "tool": "stock", "when": {"empty": "{{poll}}"}}
    told["otherwise"] = {"value": "nothing"}
    run_id = await house.approved(app, plan(given_up, told, sure))
    run = await app.runs.run(run_id)
    assert run.steps["poll"].rule == "error"
    before = dict(house.shop.calls)
    await app.edit(run_id, plan(given_up, told, sure, STOCK), by="ada")
    await app.answer(run_id, "sure", "yes", by="ada")
    run = await house.lived(app, run_id, approves=True)
    assert run.steps["poll"].rule == "error"
    assert house.shop.calls == {**before, "stock": before.get("stock", 0) + 1}


async def test_an_edit_of_a_step_that_the_plan_gave_up_tries_it_again() -> None:
    house = House()
    app = house.process()
    given_up: dict[str, Json] = {
        **POLL,
        "repeat": {"until": SHIPPED, "at_most": 2},
        "on_error": "skip",
    }
    sure: dict[str, Json] = {"id": "sure", "question": "Go on?"}
    run_id = await house.approved(app, plan(given_up, sure))
    await app.runs.run(run_id)
    patient = {**given_up, "repeat": {"until": SHIPPED, "at_most": 5}}
    await app.edit(run_id, plan(patient, sure), by="ada")
    await app.answer(run_id, "sure", "yes", by="ada")
    run = await house.lived(app, run_id, approves=True)
    assert run.steps["poll"].status == "done"


async def test_an_edit_of_the_rounds_themselves_begins_them_anew() -> None:
    house = House()
    app = house.process()
    run_id = await house.approved(app, plan(POLL))
    await app.runs.run(run_id, parks=True)
    await app.pause(run_id, by="ada")
    hasty: dict[str, Json] = {**POLL, "repeat": {"until": SHIPPED, "at_most": 9, "every": 60}}
    await app.edit(run_id, plan(hasty), by="ada")
    await app.resume(run_id, by="ada")
    run = await house.lived(app, run_id)
    assert run.status is RunStatus.DONE
    assert "poll/3" not in run.steps


async def test_a_step_that_was_skipped_stays_skipped_when_the_run_is_continued() -> None:
    house = House(count=50)
    app = house.process()
    order: dict[str, Json] = {"id": "order", "tool": "order", "when": FEW}
    bad: dict[str, Json] = {"id": "bad", "tool": "fail", "after": ["stock"]}
    run_id = await house.approved(app, plan(STOCK, order, bad))
    run = await house.lived(app, run_id)
    assert run.steps["order"].rule == "when"
    again = await app.retry(run_id, by="ada")
    assert again.plan is not None
    if again.status is not RunStatus.RUNNING:
        await app.decide(again.id, approve=again.plan.hash, by="ada")
    ended = await house.lived(app, again.id)
    assert ended.steps["order"].status == "skipped"
    assert house.shop.calls["order"] == 0
    assert house.shop.calls["stock"] == 1


async def test_rounds_whose_approval_was_lost_go_on_where_they_were_and_outlast_a_replan() -> None:
    """A tool is defined anew between two rounds, in another process; later a step fails."""
    house = House()
    press: dict[str, Json] = {
        "id": "press",
        "tool": "order",
        "repeat": {"until": {"empty": "{{press.given}}"}, "at_most": 3, "every": 600},
        "inputs": {"n": 1},
        "on_error": {"value": {}},
    }
    bad: dict[str, Json] = {"id": "bad", "tool": "fail", "after": ["press"]}
    stock: dict[str, Json] = {"id": "stock", "tool": "stock", "after": ["press"]}
    first = house.process()
    run_id = await house.approved(first, plan(press, stock, {**bad, "after": ["stock"]}))
    assert (await first.runs.run(run_id, parks=True)).wakes_at is not None
    await first.close()
    assert house.shop.calls == {"order": 1}

    house.shop.description = "It does something else now."
    steps: list[Json] = [{**press, "kind": "tool"}, {**stock, "kind": "tool", "inputs": {}}]
    model = ScriptedModel({"goal": "g", "steps": steps})
    settings = PlannerSettings(triage=False)
    second = house.process(model=model, settings=settings)
    run = await house.lived(second, run_id)
    assert run.status is RunStatus.REVIEWING
    assert house.shop.calls == {"order": 1}
    for _ in range(3):
        run = await house.lived(second, run_id, approves=True)
    assert run.status.over
    assert run.replans == 1
    assert house.shop.calls == {"order": 3, "stock": 1, "fail": 1}
    assert run.steps["press"].rule == "error"
