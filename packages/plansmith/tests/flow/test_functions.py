"""Python functions as tools: threads, time limits, event loops, and results with a type."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field
from tests.flow.plans import approve, plan
from tests.waiting import until

from plansmith import (
    Effect,
    NotFound,
    Plan,
    PlanInvalid,
    Plansmith,
    RunStatus,
    StepStatus,
    ToolSpec,
    read_plan,
    tool,
)
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.ports import Call


class SelfCancelling:
    """A source whose call cancels the task that it runs in."""

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="give_up", effect=Effect.READ)]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del tool, arguments, call
        return await cancel_itself()


async def cancel_itself() -> str:
    """Cancel the task that runs now."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


def same(count: int, name: str, **inputs: Json) -> Plan:
    return plan(*({"id": f"s{n}", "tool": name, "inputs": inputs} for n in range(count)))


def chain(count: int, name: str) -> Plan:
    before = [0, *({"$from": f"s{n}"} for n in range(count - 1))]
    steps = [{"id": f"s{n}", "tool": name, "inputs": {"x": x}} for n, x in enumerate(before)]
    return plan(*steps)


async def run_of(app: Plansmith, wanted: Plan) -> Run:
    return await app.run((await app.submit(wanted)).id)


@tool(effect="read")
def echo(x: int = 0) -> int:
    return x


async def test_two_hundred_functions_that_wait_for_each_other_run_side_by_side() -> None:
    all_here = threading.Barrier(200, timeout=100)

    @tool(effect="read")
    def meet() -> bool:
        all_here.wait()
        return True

    async with Plansmith(tools=[meet], limits=Limits(width=200)) as app:
        run = await run_of(app, same(200, "meet"))
    assert run.status is RunStatus.DONE


async def test_functions_that_hang_hold_up_no_other_function() -> None:
    never = threading.Event()

    @tool(effect="read", timeout_s=0.05)
    def hang() -> None:
        never.wait()

    async with Plansmith(tools=[hang, echo], limits=Limits(width=40, tries=1)) as app:
        failed = await run_of(app, same(40, "hang"))
        assert {step.error for step in failed.steps.values()} == {"no result after 0.05 s"}
        assert (await run_of(app, same(40, "echo"))).status is RunStatus.DONE
    never.set()


LIVES = """
import asyncio, os, threading
from plansmith import Plan, Plansmith, tool
from plansmith.plan.limits import Limits

@tool(effect="read", timeout_s=0.05)
def hang() -> None:
    threading.Event().wait()

@tool(effect="read")
def look() -> str:
    return "seen"

app = Plansmith(tools=[hang, look], limits=Limits(width=30, tries=1))

async def work(name):
    steps = [{"id": f"s{n}", "tool": name} for n in range(30)]
    run = await app.run((await app.submit(Plan.model_validate({"goal": "g", "steps": steps}))).id)
    print(run.status, flush=True)

asyncio.run(work("look"))
if os.fork() == 0:
    asyncio.run(work("look"))
else:
    os.wait()
    asyncio.run(work("hang"))
"""


def test_functions_run_after_a_fork_and_python_ends_although_thirty_of_them_hang() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIVES], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["done", "done", "failed"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_functions_see_the_context_of_their_run_and_change_it_for_nobody_else(
    is_async: bool,
) -> None:
    colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour")

    def paint() -> str:
        """Tell the colour, and change it for nobody else."""
        found = colour.get()
        colour.set("spoilt")
        return found

    async def paint_later() -> str:
        return paint()

    async def in_colour(name: str) -> set[str]:
        colour.set(name)
        run = await run_of(app, same(8, "paint"))
        return {str(step.result) for step in run.steps.values()}

    chosen: Callable[[], Any] = paint_later if is_async else paint
    async with Plansmith(tools=[tool(chosen, effect="read", name="paint")]) as app:
        names = ["red", "green", "blue"]
        assert await asyncio.gather(*map(in_colour, names)) == [{name} for name in names]


async def test_the_start_of_a_step_is_in_the_file_before_its_function_begins(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"

    @tool(effect="read")
    async def look(x: int) -> int:
        """Count the steps that have begun."""
        with closing(sqlite3.connect(path)) as reader:
            [[begun]] = reader.execute("SELECT count(*) FROM events WHERE type = 'step_started'")
        assert begun == x + 1
        return x + 1

    async with Plansmith(tools=[look], store=f"sqlite:///{path}") as app:
        run = await run_of(app, chain(5, "look"))
    assert (run.status, run.result("s4")) == (RunStatus.DONE, 5)


async def test_others_get_their_turn_while_functions_end_at_once_and_may_cancel_them() -> None:
    made: list[int] = []
    turns = 0

    @tool(effect="read")
    async def note(x: int) -> int:
        made.append(x)
        return x + 1

    async def take_turns() -> None:
        nonlocal turns
        while 40 not in made:
            turns += 1
            await asyncio.sleep(0)
        await app.cancel(created.id, by="me")

    async with Plansmith(tools=[note], store="memory") as app:
        created = await app.submit(chain(400, "note"))
        run, _ = await asyncio.gather(app.run(created.id), take_turns())
    assert run.status is RunStatus.CANCELLED
    assert turns >= 3
    assert 100 not in made


async def test_a_function_in_a_thread_is_given_up_when_its_run_is_cancelled() -> None:
    begun, go_on = threading.Event(), threading.Event()

    @tool(effect="read")
    def wait() -> str:
        begun.set()
        go_on.wait(100)
        return "too late"

    async with Plansmith(tools=[wait, echo]) as app:
        wanted = plan({"id": "a", "tool": "wait"}, {"id": "b", "tool": "echo", "after": ["a"]})
        run = await app.submit(wanted)
        running = asyncio.ensure_future(app.run(run.id))
        await until(begun.is_set)
        await app.cancel(run.id, by="ada")
        ended = await running
        go_on.set()
        assert ended.status is RunStatus.CANCELLED
        assert ended.steps["a"].status is not StepStatus.DONE
        assert ended.steps["b"].attempts == 0
        assert (await run_of(app, same(20, "echo"))).status is RunStatus.DONE
        assert (await app.get(run.id)).steps["a"].result is None


ODD: dict[str, BaseException] = {
    "RuntimeError: the function raised StopIteration(1)": StopIteration(1),
    "SystemExit: 3": SystemExit(3),
    "GeneratorExit: ": GeneratorExit(),
    "the call was cancelled from within": asyncio.CancelledError(),
    "TimeoutError: mine": TimeoutError("mine"),
    "plain words": ToolFailed("plain words"),
    "ValueError: no": ValueError("no"),
}


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("is_async", [False, True])
async def test_whatever_a_function_raises_is_the_end_of_its_step_alone(
    text: str, is_async: bool
) -> None:
    @tool(effect="read", name="odd")
    def plain() -> None:
        raise ODD[text]

    @tool(effect="read", name="odd")
    async def awaited() -> None:
        raise ODD[text]

    odd = awaited if is_async else plain
    async with Plansmith(tools=[odd, echo], limits=Limits(tries=1)) as app:
        run = await run_of(app, plan({"id": "o", "tool": "odd"}, {"id": "p", "tool": "echo"}))
    assert run.steps["p"].status is StepStatus.DONE
    is_stop = isinstance(ODD[text], StopIteration) and is_async
    assert run.steps["o"].error == (
        "RuntimeError: coroutine raised StopIteration" if is_stop else text
    )


async def test_a_function_may_change_a_list_without_harm_to_later_steps() -> None:
    kept: list[list[int]] = []

    @tool(effect="read")
    def add(numbers: list[int]) -> list[int]:
        """Add one, also to every list that it returned before."""
        for each in kept:
            each.append(99)
        kept.append(numbers)
        numbers.append(1)
        return numbers

    async with Plansmith(tools=[add]) as app:
        first = {"id": "a", "tool": "add", "inputs": {"numbers": [0]}}
        more = [
            {"id": name, "tool": "add", "inputs": {"numbers": {"$from": "a"}}, "after": [before]}
            for before, name in [("a", "b"), ("b", "c")]
        ]
        for _ in range(3):
            kept.clear()
            run = await run_of(app, plan(first, *more))
            assert [run.steps[name].result for name in "abc"] == [[0, 1], [0, 1, 1], [0, 1, 1]]


def test_a_loop_that_ends_in_mid_call_writes_no_end_of_the_async_function() -> None:
    calls: list[str] = []

    @tool(effect="write")
    async def send() -> None:
        calls.append("send")
        await asyncio.Event().wait()

    app, wanted = Plansmith(tools=[send]), plan({"id": "s", "tool": "send"})

    async def leave() -> str:
        run = await approve(app, await app.submit(wanted))
        task = asyncio.ensure_future(app.run(run.id))
        await until(lambda: bool(calls))
        assert not task.done()
        return run.id

    run_id = asyncio.run(leave())
    assert asyncio.run(app.get(run_id)).steps["s"].status is StepStatus.RUNNING
    run = asyncio.run(app.run(run_id))
    assert run.steps["s"].status is StepStatus.UNKNOWN
    assert calls == ["send"]


@pytest.mark.parametrize("kind", ["function", "source"])
async def test_a_function_or_a_source_that_cancels_its_own_task_fails_and_the_run_ends(
    kind: str,
) -> None:
    function = tool(effect="read", name="give_up")(cancel_itself)
    given = function if kind == "function" else SelfCancelling()
    async with Plansmith(tools=[given, echo], limits=Limits(tries=1)) as app:
        wanted = plan({"id": "g", "tool": "give_up"}, {"id": "e", "tool": "echo"})
        run = await asyncio.wait_for(run_of(app, wanted), 100)
    assert run.status is RunStatus.PARTLY_DONE
    assert run.steps["g"].error == "the call was cancelled from within"


class Colour(StrEnum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: float
    colour: Colour = Colour.RED


@dataclass
class Order:
    number: int
    due: date
    items: list[Item] = field(default_factory=list)


class Place(TypedDict):
    town: str
    near: NotRequired[list[str]]


class Person(BaseModel):
    full_name: str = Field(alias="fullName")
    home: str | None = None


@dataclass
class BigOrder(Order):
    weight: int = 7


@tool(effect="read")
def order(kind: str = "") -> Order:
    if kind == "big":
        return BigOrder(2, date(2026, 1, 2))
    number: Any = "two" if kind == "wrong" else 1
    return Order(number, date(2026, 1, 2), [Item("tea", 2.5)])


@tool(effect="read")
def places() -> list[Place]:
    more: Any = {"town": "Oslo", "near": ["Moss"], "height": 23}
    return [more, {"town": "Rome"}]


@tool(effect="read")
def person(known: bool = True) -> Person | None:
    return Person(fullName="Ada L") if known else None


@tool(effect="read")
def untyped() -> Any:
    return {"a": 1}


@tool(effect="write")
def label(text: str, number: int) -> str:
    return f"{text} {number}"


@tool(effect="write", idempotent=True)
def save(path: str) -> dict[str, Any]:
    return {"path": path, "bytes": 3}


TOOLS: list[Any] = [order, places, person, untyped, label, save]


async def ran(*steps: dict[str, Any]) -> Run:
    async with Plansmith(tools=TOOLS) as smith:
        plan = read_plan({"goal": "g", "steps": list(steps)})
        return await smith.do(plan, approve=lambda _: True)


async def problems(*steps: dict[str, Any]) -> list[str]:
    async with Plansmith(tools=TOOLS) as smith:
        found = await smith.check(read_plan({"goal": "g", "steps": list(steps)}))
    return [str(each) for each in found if each.code == "PS208"]


def step(name: str, call: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "tool": call, "inputs": inputs}


async def test_the_result_of_a_step_is_read_as_the_type_that_its_tool_returns() -> None:
    run = await ran(step("o", "order"), step("p", "places"), step("a", "person"))
    assert run.result("o", Order) == Order(1, date(2026, 1, 2), [Item("tea", 2.5)])
    assert run.result("p", list[Place])[0].get("near") == ["Moss"]
    assert run.result("a", Person).full_name == "Ada L"
    assert run.result("a") == {"fullName": "Ada L", "home": None}
    assert run.result("p") == [{"town": "Oslo", "near": ["Moss"], "height": 23}, {"town": "Rome"}]


async def test_a_result_of_another_type_and_a_missing_result_say_what_there_is() -> None:
    run = await ran(step("o", "order"), step("w", "order", kind="wrong"))
    with pytest.raises(TypeError, match=r"the result of 'o' is no Place: town: Field required"):
        run.result("o", Place)
    with pytest.raises(NotFound, match=r"has no step 'x' \(its steps: o, w\)"):
        run.result("x")
    with pytest.raises(NotFound, match="'w' has no result: it is failed"):
        run.result("w", Order)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{{s.itms}}", "has no 'itms' (did you mean 'items'?)"),
        ("{{s.items[0].prize}}", "(did you mean 'price'?)"),
        ("{{s.items[0].price.tax}}", "it is number"),
    ],
)
async def test_a_reference_to_a_field_that_the_return_type_lacks_is_an_error(
    reference: str, message: str
) -> None:
    (found,) = await problems(step("s", "order"), {"id": "r", "say": reference})
    assert found.startswith("error PS208")
    assert message in found
    with pytest.raises(PlanInvalid, match="PS208"):
        await ran(step("s", "order"), {"id": "r", "say": reference})


async def test_the_files_of_a_run_are_the_paths_that_its_writing_steps_returned() -> None:
    each = {"tool": "save", "inputs": {"path": "{{item}}"}}
    run = await ran(
        step("a", "save", path="a.txt"), {"id": "m", "over": ["b.txt", "a.txt"], "each": each}
    )
    assert run.files == ("a.txt", "b.txt")
    assert (await ran(step("o", "order"))).files == ()
