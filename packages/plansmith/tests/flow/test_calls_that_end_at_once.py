"""Async functions begin at once: what they see, what the store has by then, and who gets a turn."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from plansmith import Plan, Plansmith, RunStatus, StepStatus, tool
from plansmith.plan.run import Run


def chain(count: int, name: str) -> Plan:
    before = [0, *({"$from": f"s{n}"} for n in range(count - 1))]
    steps = [{"id": f"s{n}", "tool": name, "inputs": {"x": x}} for n, x in enumerate(before)]
    return Plan.model_validate({"goal": "g", "steps": steps})


async def run_of(app: Plansmith, wanted: Plan) -> Run:
    return await app.run((await app.submit(wanted)).id)


@tool(effect="read")
async def count_up(x: int) -> int:
    """Ends without waiting."""
    return x + 1


def name_of_task() -> str:
    task = asyncio.current_task()
    assert task is not None
    return task.get_name()


async def test_a_function_is_in_a_task_of_its_own_before_and_after_it_waits() -> None:
    @tool(effect="read")
    async def tasks() -> list[str]:
        before = name_of_task()
        await asyncio.sleep(0)
        return [before, name_of_task()]

    steps = [{"id": "a", "tool": "tasks"}, {"id": "b", "tool": "tasks"}]
    async with Plansmith(tools=[tasks], store="memory") as app:
        run = await run_of(app, Plan.model_validate({"goal": "g", "steps": steps}))
    assert (run.result("a"), run.result("b")) == (["a", "a"], ["b", "b"])


async def test_a_time_limit_that_a_function_sets_before_it_waits_ends_that_function_alone() -> None:
    @tool(effect="read")
    async def limited(x: int) -> int:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            with anyio.move_on_after(0):
                await anyio.sleep_forever()
        return x + 1

    async with Plansmith(tools=[limited], store="memory") as app:
        run = await run_of(app, chain(3, "limited"))
    assert (run.status, run.result("s2")) == (RunStatus.DONE, 3)


async def test_what_a_function_sets_in_its_context_is_seen_by_no_other() -> None:
    mark = contextvars.ContextVar("mark", default=0)

    @tool(effect="read")
    async def marked(x: int) -> int:
        found = mark.get()
        mark.set(x + 7)
        return found

    async with Plansmith(tools=[marked], store="memory") as app:
        run = await run_of(app, chain(3, "marked"))
    assert ([run.result(f"s{n}") for n in range(3)], mark.get()) == ([0, 0, 0], 0)


async def test_a_function_that_cancels_its_own_task_at_once_fails_its_step_alone() -> None:
    @tool(effect="read")
    async def leaves(x: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return x

    steps = [{"id": "a", "tool": "leaves", "inputs": {"x": 1}}]
    steps += [{"id": "b", "tool": "count_up", "inputs": {"x": 1}}]
    async with Plansmith(tools=[leaves, count_up], store="memory") as app:
        run = await run_of(app, Plan.model_validate({"goal": "g", "steps": steps}))
    assert (run.steps["a"].status, run.result("b")) == (StepStatus.FAILED, 2)


async def test_the_start_of_a_step_is_in_the_file_before_its_function_begins(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"

    @tool(effect="read")
    async def look(x: int) -> int:
        reader = sqlite3.connect(path)
        [[begun]] = reader.execute("SELECT count(*) FROM events WHERE type = 'step_started'")
        reader.close()
        assert begun == x + 1
        return x + 1

    async with Plansmith(tools=[look], store=f"sqlite:///{path}") as app:
        run = await run_of(app, chain(5, "look"))
    assert (run.status, run.result("s4")) == (RunStatus.DONE, 5)


async def test_others_get_their_turn_while_functions_end_at_once() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Plansmith(tools=[count_up], store="memory") as app:
        created = await app.submit(chain(320, "count_up"))
        other = asyncio.create_task(take_turns())
        run = await app.run(created.id)
        other.cancel()
    assert run.status is RunStatus.DONE
    assert turns >= 20


async def test_a_run_of_functions_that_end_at_once_can_be_cancelled_in_between() -> None:
    made: list[int] = []

    @tool(effect="read")
    async def note(x: int) -> int:
        made.append(x)
        if x == 40:
            stopping.append(asyncio.create_task(app.cancel(created.id, by="me")))
        return x + 1

    stopping: list[asyncio.Task[Run]] = []
    async with Plansmith(tools=[note], store="memory") as app:
        created = await app.submit(chain(400, "note"))
        run = await app.run(created.id)
        await asyncio.gather(*stopping)
    assert run.status is RunStatus.CANCELLED
    assert 40 in made
    assert 100 not in made


def test_a_loop_that_makes_its_own_tasks_makes_those_of_functions_too() -> None:
    names: list[str] = []

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        names.append(getattr(work, "__qualname__", ""))
        return task

    async def whole() -> Run:
        asyncio.get_running_loop().set_task_factory(make)
        async with Plansmith(tools=[count_up], store="memory") as app:
            return await run_of(app, chain(3, "count_up"))

    assert asyncio.run(whole()).result("s2") == 3
    assert len([name for name in names if name == "RunningCalls._work"]) == 3


@pytest.mark.parametrize("error", [KeyError, SystemExit])
async def test_a_function_that_raises_at_once_fails_its_step_alone(
    error: type[BaseException],
) -> None:
    @tool(effect="read")
    async def fails(x: int) -> int:
        raise error(x)

    async with Plansmith(tools=[fails], store="memory") as app:
        run = await run_of(app, chain(2, "fails"))
    assert run.steps["s0"].status is StepStatus.FAILED
    assert asyncio.current_task() is not None
