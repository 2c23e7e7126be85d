"""Reads that start while their plan is written: where they may, how they are told, what is true."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.flow.smiths import NO_TRIAGE, Stepwise, approve, approved, plan_of

from plansmith import Effect, Plan, Plansmith, Run, RunStatus, ToolSpec
from plansmith.errors import ToolFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.events import PrefetchEnded, PrefetchStarted, verify_chain
from plansmith.plan.limits import Limits
from plansmith.ports import Call, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith.review.settings import ReviewPolicy
from plansmith.store.memory import MemoryStore
from plansmith.testing import FakeTool, FakeTools
from plansmith_cli.replay import replay

READ = {"id": "a", "tool": "look", "inputs": {"q": "x"}}
MAIL = {"id": "m", "tool": "mail", "inputs": {"to": "bob"}, "after": ["a"]}


class Slow:
    """A model that has written its first step, and goes on only when the test lets it."""

    name = "slow"

    def __init__(self, *steps: dict[str, Any], rest: str = "") -> None:
        self._head = '{"steps": [' + json.dumps(steps[0]) + (", " if steps[1:] else "")
        tail = ", ".join(json.dumps(step) for step in steps[1:])
        self._tail = rest or f"{tail}]}}"
        self.wrote = asyncio.Event()
        self.go_on = asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        yield TextDelta(self._head)
        self.wrote.set()
        await self.go_on.wait()
        yield TextDelta(self._tail)
        yield ModelDone(Usage(), self.name)


class Gate:
    """A read that answers when the test lets it."""

    def __init__(self, value: Json = "seen") -> None:
        self.called = asyncio.Event()
        self.answer = asyncio.Event()
        self.calls: list[str] = []
        self.value = value

    async def tools(self) -> list[ToolSpec]:
        spec = ToolSpec(name="look", description="look", input_schema={}, effect=Effect.READ)
        mail = ToolSpec(name="mail", description="mail", input_schema={}, effect=Effect.FINAL)
        return [spec, mail]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del arguments, call
        self.calls.append(tool)
        if tool == "look":
            self.called.set()
            await self.answer.wait()
        return self.value


def app_of(model: Any, source: Any, **options: Any) -> Plansmith:
    given: dict[str, Any] = {"limits": Limits(first_wait_s=0), "settings": NO_TRIAGE}
    return Plansmith(model=model, tools=[source], **(given | options))


def opened(*steps: dict[str, Any], **options: Any) -> tuple[Plansmith, Slow, Gate]:
    model, gate = Slow(*steps), Gate()
    return app_of(model, gate, **options), model, gate


async def bodies(app: Plansmith, run: str) -> list[Any]:
    return [event.body for event in await app.store.events(run)]


async def until(app: Plansmith, kind: type[Any]) -> None:
    """Wait for the first event of a kind in the only run there is."""
    async for event in app.events(await only_run(app), follow=True):
        if isinstance(event.body, kind):
            return


async def only_run(app: Plansmith) -> str:
    [run] = await app.store.runs()
    return run


async def planned(app: Plansmith, model: Slow, gate: Gate, **options: Any) -> Run:
    """A plan during whose writing the read was made and has ended."""
    planning = asyncio.create_task(app.plan("look, then mail", **options))
    await gate.called.wait()
    gate.answer.set()
    await until(app, PrefetchEnded)
    model.go_on.set()
    return await planning


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "review"),
        ({"policy": ReviewPolicy(ask="always")}, ""),
        ({"limits": Limits(early_start=False)}, ""),
    ],
    ids=["see the plan first", "every plan is reviewed", "switched off"],
)
async def test_no_read_is_made_before_the_approval_where_the_plan_is_seen_first(
    options: dict[str, Any], mode: str
) -> None:
    app, model, gate = opened(READ, MAIL, **options)
    planning = asyncio.create_task(app.plan("look, then mail", mode=mode))
    await model.wrote.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    model.go_on.set()
    run = await planning
    assert run.status is RunStatus.REVIEWING
    assert gate.calls == []
    assert not [b for b in await bodies(app, run.id) if isinstance(b, PrefetchStarted)]


async def test_an_early_read_is_journaled_before_it_is_made_and_used_once() -> None:
    literal = READ | {"inputs": {"q": {"$literal": "x"}}}
    model, gate, lines = Slow(literal, MAIL), Gate(), list[str]()
    app = app_of(model, gate, tell=lines.append)
    run = await planned(app, model, gate)
    assert run.status is RunStatus.REVIEWING
    [started] = [b for b in await bodies(app, run.id) if isinstance(b, PrefetchStarted)]
    assert (started.tool, await app.store.get(started.inputs)) == ("look", {"q": "x"})
    assert 'early read: look {"q": "x"}' in lines
    run = await approved(app, run)
    assert run.status is RunStatus.DONE
    assert gate.calls == ["look", "mail"]
    starts = [b for b in await bodies(app, run.id) if isinstance(b, e.StepStarted)]
    assert [each.prefetched for each in starts] == [started.key, ""]
    assert run.steps["a"].prefetched == started.key
    assert run.calls == 2
    assert verify_chain(await app.store.events(run.id))
    assert (await replay(run.id, app)).identical


async def test_the_intent_of_an_early_read_is_durable_before_the_tool_hears_of_it() -> None:
    class Watching(Gate):
        seen: list[str] = []

        async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
            found = await bodies(app, await only_run(app))
            self.seen += [each.key for each in found if isinstance(each, PrefetchStarted)]
            assert call.key in self.seen
            return await super().call(tool, arguments, call)

    model, gate = Slow(READ), Watching()
    app = app_of(model, gate)
    assert gate.seen == [f"{(await planned(app, model, gate)).id}/early/1"]


async def test_the_times_of_a_step_that_took_an_early_read_are_those_of_the_read() -> None:
    clock = Stepwise()
    app, model, gate = opened(READ, MAIL, clock=clock)
    planning = asyncio.create_task(app.plan("look, then mail"))
    await gate.called.wait()
    began = clock.now()
    clock.forward(3)
    gate.answer.set()
    await until(app, PrefetchEnded)
    clock.forward(60)
    model.go_on.set()
    run = await planning
    run = await approved(app, run)
    step = run.steps["a"]
    assert (step.started_at, step.finished_at) == (began, began + timedelta(seconds=3))
    assert run.started_at == began + timedelta(seconds=63)
    assert "read early" in run.report


async def test_an_early_read_that_is_old_at_the_approval_is_made_again() -> None:
    clock = Stepwise()
    app, model, gate = opened(READ, MAIL, clock=clock)
    run = await planned(app, model, gate)
    clock.forward(3600)
    run = await approved(app, run)
    assert gate.calls == ["look", "look", "mail"]
    assert run.steps["a"].prefetched == ""


async def test_nothing_runs_on_while_a_person_looks_at_the_plan() -> None:
    app, model, gate = opened(READ, MAIL)
    planning = asyncio.create_task(app.plan("look, then mail"))
    await gate.called.wait()
    model.go_on.set()
    run = await planning
    assert run.status is RunStatus.REVIEWING
    [prefetch] = run.prefetches.values()
    assert prefetch.over
    assert "stopped" in prefetch.error
    gate.answer.set()
    await approve(app, run)
    assert (await app.run(run.id)).status is RunStatus.DONE
    assert gate.calls == ["look", "look", "mail"]


async def test_a_plan_that_begins_at_once_waits_a_moment_for_a_read_that_still_runs() -> None:
    app, model, gate = opened(READ)
    planning = asyncio.create_task(app.plan("look"))
    await gate.called.wait()
    model.go_on.set()
    for _ in range(50):
        await asyncio.sleep(0)
    gate.answer.set()
    run = await app.run((await planning).id)
    assert run.status is RunStatus.DONE
    assert gate.calls == ["look"]
    assert run.steps["a"].prefetched
    assert (await replay(run.id, app)).identical


async def test_the_journal_of_a_rejected_plan_still_tells_what_was_read() -> None:
    model, gate = Slow(READ, MAIL), Gate({"secretary": "ada"})
    app = app_of(model, gate)
    run = await planned(app, model, gate)
    run = await app.decide(run.id, reject=True)
    assert run.status is RunStatus.CANCELLED
    [prefetch] = run.prefetches.values()
    assert await app.store.get(prefetch.result) == {"secretary": "ada"}


async def test_a_failed_early_read_is_told_and_the_step_calls_for_itself() -> None:
    tools = FakeTools(FakeTool("look", [ToolFailed("down"), "seen"]))
    model = Slow(READ)
    app = app_of(model, tools)
    planning = asyncio.create_task(app.plan("look"))
    await model.wrote.wait()
    await until(app, PrefetchEnded)
    model.go_on.set()
    run = await app.run((await planning).id)
    assert run.status is RunStatus.DONE
    assert [each.error for each in run.prefetches.values()] == ["down"]
    assert run.steps["a"].prefetched == ""
    assert len(tools.calls) == 2


async def test_two_equal_steps_share_no_early_read() -> None:
    again = {**READ, "id": "b"}
    app, model, gate = opened(READ, again)
    run = await planned(app, model, gate)
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert gate.calls == ["look", "look"]
    assert [bool(each.prefetched) for each in run.steps.values()] == [True, False]


async def test_reads_early_take_part_in_the_tokens_and_the_money_of_the_run() -> None:
    class Spending(Gate):
        async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
            call.spend(Usage(input_tokens=7))
            call.spend(Usage(cost=Decimal("0.05")))  # a fee; what the tokens cost is not known
            return await super().call(tool, arguments, call)

    model, gate = Slow(READ), Spending()
    app = app_of(model, gate, store=MemoryStore())
    run = await planned(app, model, gate)
    assert (run.tokens, run.money) == (7, Decimal("0.05"))
    run = await app.run(run.id)
    assert (run.tokens, run.money) == (7, Decimal("0.05"))


class World:
    """What is looked at changes when something is put there."""

    def __init__(self) -> None:
        self.value = 0

    async def tools(self) -> list[ToolSpec]:
        effects = {"look": Effect.READ, "put": Effect.WRITE}
        return [ToolSpec(name=name, effect=effect) for name, effect in effects.items()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        self.value += tool == "put"
        return self.value


async def test_a_read_that_an_edit_puts_after_a_change_is_made_anew() -> None:
    put, look = {"id": "w", "tool": "put"}, {"id": "check", "tool": "look"}
    model = Slow(look, put)
    app = app_of(model, World())
    planning = asyncio.create_task(app.plan("put, then look"))
    await model.wrote.wait()
    name = await only_run(app)
    await until(app, PrefetchEnded)
    model.go_on.set()
    await planning
    after = {**look, "after": ["w"]}
    run = await app.edit(name, Plan.model_validate({"goal": "g", "steps": [put, after]}), by="ada")
    await app.decide(name, approve=plan_of(run).hash, by="ada")
    assert (await app.run(name)).result("check") == 1
