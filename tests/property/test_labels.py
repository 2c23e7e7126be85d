"""I2: on random graphs, no value that came out of a tool reaches an effect without a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plansmith import Effect, Plan, RunStatus, ToolSpec
from plansmith.app import Plansmith
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call

MARK = "CAME-OUT-OF-A-TOOL"


class World:
    """Tools whose every output is marked, and the arguments that writing ones were given."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(name="read", effect=Effect.READ),
            ToolSpec(name="write", effect=Effect.WRITE),
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        if tool == "write":
            self.written.append(str(arguments))
        return {"text": MARK, "list": [MARK, MARK]}


@st.composite
def plans(draw: Any) -> Plan:
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(2, 6))):
        earlier = [each["id"] for each in steps if each["id"] != "q"]
        source = draw(st.sampled_from(earlier)) if earlier else None
        inputs: dict[str, Any] = {"n": number}
        kind = draw(st.sampled_from(["plain", "ref", "text", "asked", "map"]))
        name = f"s{number}"
        tool = draw(st.sampled_from(["read", "write"]))
        if kind == "ref" and source:
            inputs["x"] = {"deep": [{"$from": source}]}
        elif kind == "text" and source:
            inputs["x"] = "say {{" + source + "}}"
        elif kind == "asked":
            if not any(each["id"] == "q" for each in steps):
                steps.append({"id": "q", "question": "what?"})
            inputs["x"] = "{{q}}"
        if kind == "map" and source and not source.startswith("m"):
            each = {"tool": tool, "inputs": {"item": {"$from": "item"}}}
            over = {"$from": source, "$path": ["list"]}
            steps.append({"id": f"m{number}", "over": over, "each": each})
        else:
            steps.append({"id": name, "tool": tool, "inputs": inputs})
    return Plan.model_validate({"goal": "g", "steps": steps})


async def finish(app: Plansmith, plan: Plan, word: str) -> Any:
    run = await app.submit(plan)
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=plan.hash, by="ada")
    asked = 0
    for _ in range(60):
        run = await app.run(run.id)
        if run.status.over:
            return run, asked
        for question in list(run.questions):
            about_data = question.startswith("data:")
            asked += about_data
            await app.answer(run.id, question, word if about_data else "mine", by="ada")
    raise AssertionError(run.status)


@given(plans(), st.sampled_from(["refuse", "deny"]))
async def test_no_data_reaches_an_effect_unless_a_person_allows_these_values(
    plan: Plan, mode: str
) -> None:
    world = World()
    limits = Limits(first_wait_s=0, data="deny" if mode == "deny" else "ask")
    app = Plansmith(tools=[world], limits=limits)
    run, asked = await finish(app, plan, "refuse")
    assert not any(MARK in written for written in world.written)
    if mode == "deny":
        assert asked == 0
    reaches = run.status is not RunStatus.DONE
    allowing = World()
    app = Plansmith(tools=[allowing], limits=Limits(first_wait_s=0, data="ask"))
    run, asked = await finish(app, plan, "allow")
    assert run.status is RunStatus.DONE
    assert (asked > 0) == reaches
    assert any(MARK in written for written in allowing.written) == reaches
