"""A person says that a call whose end nobody saw did not happen: the plan says what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.flow.plans import approved, plan

from plansmith import Effect, Plan, Plansmith, RunStatus, ToolSpec
from plansmith.errors import NotApproved, OutcomeUnknown, ToolFailed
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.replay.player import replay
from plansmith.testing import FakeTool, FakeTools, MemoryStore

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
