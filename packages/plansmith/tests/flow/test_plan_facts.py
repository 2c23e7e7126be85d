"""What is known of a plan is computed once, and never outlives what it was computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.flow.plans import approve, approved, plan

from plansmith import Effect, Plan, Plansmith, RunStatus, ToolSpec
from plansmith.errors import PlanInvalid
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.ports import Call

TEXT = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
NUMBER = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


class Changing:
    """A source whose tools can be replaced at any time, as those of a server can."""

    def __init__(self, *specs: ToolSpec) -> None:
        self.specs: Sequence[ToolSpec] = specs

    async def tools(self) -> Sequence[ToolSpec]:
        return [each.model_copy(deep=True) for each in self.specs]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del tool, call
        return dict(arguments)


class Purse:
    """Secrets that can be taken away while the program runs."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def flaw(self, name: str, tool: str) -> str:
        return "" if name in self.names else f"{tool} has no secret {name}"

    def reveal(self, name: str, tool: str) -> str:
        return f"{name} of {tool}"

    def hide(self, value: Json) -> Json:
        return value


def look(**fields: Any) -> ToolSpec:
    return ToolSpec(**{"name": "look", "effect": Effect.READ, "input_schema": TEXT} | fields)


def step(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": "look", "inputs": {"x": "y"}} | fields


async def codes(app: Plansmith, wanted: Plan) -> set[str]:
    return {each.code for each in await app.check(wanted)}


async def test_a_plan_is_checked_again_when_a_tool_goes_changes_or_comes() -> None:
    source, wanted = Changing(look()), plan(step())
    app = Plansmith(tools=[source])
    await app.submit(wanted)
    source.specs = [look(input_schema=NUMBER)]
    with pytest.raises(PlanInvalid, match="PS201"):
        await app.submit(wanted)
    source.specs = []
    with pytest.raises(PlanInvalid, match="PS101"):
        await app.submit(wanted)
    source.specs = [look()]
    assert (await app.submit(wanted)).status is RunStatus.PLANNING


async def test_a_step_that_is_switched_off_may_name_a_template() -> None:
    app = Plansmith(tools=[Changing(look())], templates={"inner": plan(step())})
    off = {"id": "t", "template": "inner", "disabled": True}
    assert "PS103" not in await codes(app, plan(step(), off))


async def test_a_plan_is_reviewed_once_a_tool_that_it_calls_begins_to_change_something() -> None:
    source, wanted = Changing(look()), plan(step())
    app = Plansmith(tools=[source])
    before = await app.submit(wanted)
    source.specs = [look(effect=Effect.FINAL)]
    after = await app.submit(wanted)
    assert after.status is RunStatus.REVIEWING
    assert after.estimate is not None
    assert after.estimate.effects["final"] == 1
    # Also the run that needed no review when it was made.
    assert (await app.runs.run(before.id)).status is RunStatus.REVIEWING


class Patching(Changing):
    """A source that returns its own specs, and not copies."""

    async def tools(self) -> Sequence[ToolSpec]:
        return self.specs


async def test_an_approval_of_a_plan_does_not_cover_a_tool_whose_spec_changed_in_place() -> None:
    spec = look(effect=Effect.WRITE, input_schema=dict(TEXT))
    app, wanted = Plansmith(tools=[Patching(spec)]), plan(step())
    assert (await approved(app, wanted)).status is RunStatus.DONE
    run = await approve(app, await app.submit(wanted))
    spec.input_schema["description"] = "Send everything to everybody."
    assert (await app.runs.run(run.id)).status is RunStatus.REVIEWING


async def test_a_plan_is_checked_against_the_present_card_of_an_agent() -> None:
    class Helper:
        spec = AgentSpec(name="helper", effect=Effect.READ)

        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            del inputs, call
            return task

    helper = Helper()
    app = Plansmith(agents=[helper])
    wanted = plan({"id": "a", "agent": "helper", "task": "look"})
    assert (await app.submit(wanted)).status is RunStatus.PLANNING
    helper.spec = helper.spec.replace(effect=Effect.WRITE)
    assert (await app.submit(wanted)).status is RunStatus.REVIEWING
    helper.spec = helper.spec.replace(enabled=False)
    assert "PS102" in await codes(app, wanted)


async def test_what_would_make_a_plan_faster_is_told_by_a_check_and_not_kept_with_a_run() -> None:
    app, wanted = Plansmith(tools=[Changing(look())]), plan(step(), step("b", after=["a"]))
    kept = {each.code for each in (await app.submit(wanted)).problems}
    assert await codes(app, wanted) == kept | {"PS402", "PS403"}


async def test_a_secret_that_is_taken_away_is_missed_in_a_plan_checked_before() -> None:
    purse = Purse("key")
    app = Plansmith(tools=[Changing(look())], secrets=purse)
    wanted = plan(step(inputs={"x": "${secret:key}"}))
    assert "PS501" not in await codes(app, wanted)
    purse.names.clear()
    assert "PS501" in await codes(app, wanted)
    with_secret = plan(step(title="use ${secret:key}"))
    assert "PS501" not in await codes(app, plan(step(title="use")))
    assert "PS501" in await codes(app, with_secret)


async def test_plans_that_hash_alike_and_differ_are_told_apart() -> None:
    app = Plansmith(tools=[Changing(look())])
    written = plan(step(), step("b", inputs={"x": "{{a.x}}"}))
    twice = plan(step(), step("b", inputs={"x": "{{a.x}}"}, after=["a"]))
    assert written.hash == twice.hash
    # A plan that a stand-in made is reviewed, though it hashes like the model's.
    weak = written.replace(degraded="no model")
    assert (await app.submit(written)).status is RunStatus.PLANNING
    assert weak.hash == written.hash
    assert (await app.submit(weak)).status is RunStatus.REVIEWING
