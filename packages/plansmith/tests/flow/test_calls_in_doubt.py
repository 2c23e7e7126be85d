"""Calls that break oddly, or whose end nobody saw: what a person says, and what the plan says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import pytest
from tests.flow.plans import approved, plan

from plansmith import Effect, Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, NotApproved, OutcomeUnknown, ToolFailed
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run, StepStatus
from plansmith.ports import Call, Usage
from plansmith.testing import FakeTool, FakeTools, MemoryStore
from plansmith_cli.replay import replay
from plansmith_desk.toolset import BuiltIn, ToolSet

Deed = Callable[[Call], Any]
HALF = "\ud800"  # half of a character, as undecodable file names bring it


class Mute(Exception):
    """An error that breaks when it is asked for its words."""

    def __str__(self) -> str:
        raise RuntimeError


class Odd:
    """A tool that does what the test says, and one beside it that takes part in the same run."""

    def __init__(self, deed: Deed, effect: Effect) -> None:
        self._deed = deed
        self._effect = effect

    async def tools(self) -> Sequence[ToolSpec]:
        return [
            ToolSpec(name="odd", effect=self._effect),
            ToolSpec(name="plain", effect=Effect.READ),
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del arguments
        return cast("Json", self._deed(call)) if tool == "odd" else "fine"


def raising(error: BaseException) -> Deed:
    def deed(_: Call) -> Any:
        raise error

    return deed


def saying(word: Callable[[Call], None]) -> Deed:
    def deed(call: Call) -> Any:
        word(call)
        return "ok"

    return deed


async def outcome(deed: Deed, effect: Effect) -> Run:
    wanted = plan({"id": "o", "tool": "odd"}, {"id": "p", "tool": "plain"})
    return await approved(Plansmith(tools=[Odd(deed, effect)]), wanted)


BREAKS: dict[str, Deed] = {
    "an error without words": raising(Mute()),
    "an error with half a character": raising(OSError(f"no such file: {HALF}")),
    "a lost call with half a character": raising(OutcomeUnknown(HALF)),
    "a question with half a character": raising(InputNeeded(f"Which {HALF}?")),
    "a question without words": raising(InputNeeded(cast("Any", None))),
    "a question whose state is no JSON": raising(InputNeeded("Which?", state={1, 2})),
    "a question whose options are no words": raising(InputNeeded("?", options=cast("Any", [1]))),
    "a question whose link is no text": raising(InputNeeded("Which?", link=cast("Any", 5))),
    "an error that is no exception": raising(GeneratorExit()),
    "a cancellation of its own": raising(asyncio.CancelledError()),
    "a group of ends": raising(BaseExceptionGroup("both", [SystemExit(1)])),
    "an advice that is none": saying(lambda call: call.advise(cast("Any", "give up"), "")),
    "a negative use": saying(lambda call: call.spend(Usage(-5))),
    "a cost that is no number": saying(lambda call: call.spend(Usage(cost=Decimal("NaN")))),
    "a negative cost": saying(lambda call: call.spend(Usage(cost=Decimal(-1)))),
    "an endless cost": saying(lambda call: call.spend(Usage(cost=Decimal("9E+999999")))),
}


@pytest.mark.parametrize("deed", BREAKS.values(), ids=BREAKS.keys())
async def test_a_call_that_breaks_oddly_is_unknown_for_a_write_and_failed_for_a_read(
    deed: Deed,
) -> None:
    write = await outcome(deed, Effect.WRITE)
    assert write.status is RunStatus.ASKING
    assert write.steps["o"].status is StepStatus.UNKNOWN
    assert list(write.questions) == ["unknown:o"]
    read = await outcome(deed, Effect.READ)
    assert read.steps["o"].status is StepStatus.FAILED
    assert read.steps["p"].status is StepStatus.DONE
    assert read.status is RunStatus.PARTLY_DONE


FAILS: dict[str, Deed] = {
    "half a character": raising(ToolFailed(HALF)),
    "words that are none": raising(ToolFailed(cast("Any", b"no"))),
}


@pytest.mark.parametrize("deed", FAILS.values(), ids=FAILS.keys())
async def test_a_failure_that_cannot_be_kept_fails_its_step_alone(deed: Deed) -> None:
    for effect in (Effect.WRITE, Effect.READ):
        run = await outcome(deed, effect)
        assert run.steps["o"].status is StepStatus.FAILED
        assert run.steps["p"].status is StepStatus.DONE
        assert run.status is RunStatus.PARTLY_DONE


async def test_a_call_has_its_whole_time_although_another_one_held_it_up() -> None:
    @tool(effect="read")
    async def heavy() -> None:
        time.sleep(0.1)  # noqa: ASYNC251 - as a tool does that holds the event loop

    @tool(timeout_s=0.05)
    async def pay() -> str:
        await asyncio.sleep(0)
        return "paid"

    both = plan({"id": "a", "tool": "heavy"}, {"id": "b", "tool": "pay"})
    assert (await approved(Plansmith(tools=[heavy, pay]), both)).result("b") == "paid"


async def test_an_endless_error_is_kept_only_in_part() -> None:
    run = await outcome(raising(ToolFailed("x" * 30_000_000)), Effect.WRITE)
    assert run.steps["o"].status is StepStatus.FAILED
    assert len(run.steps["o"].error) < 20_000


async def test_a_built_in_tool_that_finds_no_next_item_fails_and_the_run_ends() -> None:
    tools = ToolSet([BuiltIn(ToolSpec(name="first"), lambda *_: next(iter([])))])
    first = plan({"id": "a", "tool": "first"})
    run = await asyncio.wait_for(approved(Plansmith(tools=[tools]), first), 60)
    assert "StopIteration" in (run.steps["a"].error or str(run.questions))


NO_WAIT = Limits(first_wait_s=0, data="show")
ERROR = {"error": {"kind": "tool", "message": "a person says that it did not happen"}}


def world() -> FakeTools:
    return FakeTools(FakeTool("pay", [_pay], effect=Effect.WRITE), FakeTool("look", [dict]))


def _pay(given: Mapping[str, Any]) -> Any:
    if given["x"] == 2:
        raise OutcomeUnknown("the line broke")
    return {"paid": given["x"]}


def pay(name: str, x: Any, **rules: Any) -> dict[str, Any]:
    return {"id": name, "tool": "pay", "inputs": {"x": x}, **rules}


async def ended(tools: FakeTools, *steps: dict[str, Any], **templates: Plan) -> Run:
    """Runs to the question, answers it in another process, and goes on in a third."""
    store = MemoryStore()
    first, second, third = (Plansmith(tools=[tools], limits=NO_WAIT, store=store) for _ in range(3))
    for name, inner in templates.items():
        await first.templates.save(inner, name)
    run = await approved(first, plan(*steps))
    await first.close()
    [asked] = run.questions
    await second.answer(run.id, asked, "not_done", by="ada")
    await second.close()
    run = await third.run(run.id)
    replayed = await replay(run.id, third)
    assert replayed.identical, replayed.to_json()
    return run


@pytest.mark.parametrize(
    ("on_error", "result"), [({"value": 0}, 0), ("collect", ERROR), ("skip", None)]
)
async def test_a_call_that_did_not_happen_is_a_failure_that_the_plan_passes_over(
    on_error: Any, result: Any
) -> None:
    tools = world()
    after = {"id": "after", "tool": "look", "inputs": {"of": "{{a}}"}}
    run = await ended(tools, pay("a", 2, on_error=on_error), after, pay("b", 1))
    state = run.steps["a"]
    assert (state.status.value, state.rule, state.result) == ("skipped", "error", result)
    goes_on = "skipped" if on_error == "skip" else "done"
    assert run.steps["after"].status.value == goes_on
    assert run.steps["b"].status.value == "done"
    assert run.status is RunStatus.PARTLY_DONE
    assert "a" in run.reason
    assert [each.arguments["x"] for each in tools.calls if each.tool == "pay"].count(2) == 1


@pytest.mark.parametrize(
    ("whole", "each", "result"),
    [
        ({"on_error": "collect"}, {}, [{"paid": 1}, ERROR, {"paid": 3}]),
        ({}, {"on_error": "skip"}, [{"paid": 1}, {"paid": 3}]),
        ({"on_error": "collect"}, {"on_error": {"value": 0}}, [{"paid": 1}, 0, {"paid": 3}]),
    ],
)
async def test_an_item_that_did_not_happen_follows_the_rule_of_its_map(
    whole: Any, each: Any, result: Any
) -> None:
    inner = {"tool": "pay", "inputs": {"x": "{{item}}"}, **each}
    run = await ended(world(), {"id": "all", "over": [1, 2, 3], "each": inner, **whole})
    assert run.steps["all"].result == result


class Changing:
    """A tool that fails, and whose effect may change between the plan and the run."""

    effect = Effect.READ

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(name="sync", effect=self.effect),
            ToolSpec(name="look", effect=Effect.READ),
        ]

    async def call(self, tool: str, arguments: Any, call: Any) -> Any:
        if tool == "sync":
            raise ToolFailed("no")
        return 1


async def test_a_change_that_was_a_read_when_it_was_proposed_is_missed_all_the_same() -> None:
    tools, store = Changing(), MemoryStore()
    steps = [{"id": "l", "tool": "look"}, {"id": "p", "tool": "sync", "on_error": "skip"}]
    given = Plan.model_validate({"goal": "g", "steps": steps})
    run = await Plansmith(tools=[tools], store=store).submit(given)
    tools.effect = Effect.WRITE
    later = Plansmith(tools=[tools], store=store, limits=Limits(first_wait_s=0))
    with pytest.raises(NotApproved):
        await later.run(run.id)
    await later.decide(run.id, approve=given.hash, by="ada")
    assert (await later.run(run.id)).status is RunStatus.PARTLY_DONE
