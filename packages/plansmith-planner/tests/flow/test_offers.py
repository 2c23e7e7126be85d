"""What a planner is offered and told before it plans: the shortlist, and a search."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.flow.smiths import Script, plan_of

from plansmith import Plansmith, tool
from plansmith.testing.fakes import FakeClock
from plansmith.tools.functions import FunctionTools
from plansmith_planner.context.background import Background
from plansmith_planner.settings import PlannerSettings


@tool(effect="read")
def weather(city: str = "") -> str:
    """The weather in a city."""
    return f"sun in {city}"


@tool(effect="read")
def harvest(field: str = "") -> str:
    """Count potatoes."""
    return f"none in {field}"


@tool(effect="read")
def tavily_search(query: str) -> str:
    """Find pages."""
    return f"Found about {query}: it rains."


def plan_with(name: str) -> dict[str, object]:
    steps = [{"id": "a", "tool": name}, {"id": "r", "instruction": "Say {{a}}"}]
    return {"goal": "x", "steps": steps}


def settings(**planner: object) -> PlannerSettings:
    return PlannerSettings.model_validate({"triage": False, **planner})


class Backwards:
    """Ranks potatoes first, whatever is asked."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        del query
        return [100.0 if "potatoes" in text else 0.0 for text in texts]


async def test_a_tool_outside_a_strict_shortlist_is_a_problem_and_repaired(
    scripted: Script,
) -> None:
    model = scripted(plan_with("harvest"), plan_with("weather"))
    strict = settings(top_k=1, strict_shortlist=True)
    smith = Plansmith(model=model, tools=[weather, harvest], settings=strict)
    run = await smith.plan("the weather in Oslo")
    assert plan_of(run).steps[0].to_json()["tool"] == "weather"
    assert "'harvest' was not offered for this request" in model.prompts[1][-1].text


async def test_a_tool_outside_the_shortlist_is_accepted_unless_it_is_strict(
    scripted: Script,
) -> None:
    smith = Plansmith(
        model=scripted(plan_with("harvest")), tools=[weather, harvest], settings=settings(top_k=1)
    )
    run = await smith.plan("the weather in Oslo")
    assert plan_of(run).steps[0].to_json()["tool"] == "harvest"


async def test_a_ranker_that_is_given_ranks_by_meaning(scripted: Script) -> None:
    model = scripted(plan_with("harvest"))
    smith = Plansmith(
        model=model,
        tools=[weather, harvest],
        ranker=Backwards(),
        settings=settings(top_k=1, strict_shortlist=True),
    )
    run = await smith.plan("Erdäpfel zählen")
    assert not plan_of(run).degraded
    assert '"harvest"' in model.prompts[0][1].text
    assert '"weather"' not in model.prompts[0][1].text


@pytest.mark.parametrize("own", [False, True])
async def test_one_background_search_is_made_and_noted_in_the_plan(
    scripted: Script, own: bool
) -> None:
    clock = FakeClock()
    search = Background([FunctionTools([tavily_search])], clock)
    model = scripted(plan_with("weather"))
    smith = Plansmith(
        model=model,
        tools=[weather, tavily_search],
        context=[search] if own else [],  # as that of a team, beside a tool found by its name
        settings=settings(background_search=True),
        clock=clock,
    )
    run = await smith.plan("the weather in Oslo")
    assert "Found about the weather in Oslo: it rains." in model.prompts[0][1].text
    notes = [each for each in run.problems if each.code == "PS018"]
    assert len(notes) == 1
    assert "tavily_search" in notes[0].message
