"""SAGE's profile and registry, as programs written for SAGE use them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
from tests.sage.test_planner import CALL, CITY, REPLY, TOOLS, Generator

from plansmith_compat.sage import BaseProfile, LLMPlanner, MCPRegistry


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_profile_is_rendered_in_the_form_that_programs_look_for(language: str) -> None:
    profile = BaseProfile(name="Nora", role="pilot", goals=["平安", "on time"], language=language)
    assert profile.render_system_prompt() == (
        f"You are **Nora**, acting as **pilot**.\nLanguage: {language}\nTone: concise\n\n"
        "Backstory:\n(none)\n\nGoals:\n- 平安\n- on time\n\nTypical Tasks:\n- （未指定）\n\n"
        "Guidance:\n- Stay aligned with the role and goals.\n"
        "- Prefer structured, verifiable outputs.\n"
    )


def test_a_profile_has_its_fields_defaults_and_lists_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, other = BaseProfile(), BaseProfile(goals="one goal")  # type: ignore[arg-type]
    lists: dict[str, Any] = {"goals": [], "tasks": [], "backstory": ""}
    named = {"name": "BaseAgent", "role": "general assistant", **lists}
    assert one.to_dict() == {**named, "language": "zh", "tone": "concise"}
    one.goals.append("be brief")
    assert (one.goals, other.goals, BaseProfile().goals) == (["be brief"], ["one goal"], [])
    made = BaseProfile.from_dict({"name": "Nora", "persona": {"style": "dry"}, "goals": ("calm",)})
    assert (made.name, made.goals) == ("Nora", ["calm"])
    assert "persona" in caplog.text
    assert BaseProfile.from_dict(made.to_dict()) == made


def test_a_profile_is_a_dataclass_and_a_subclass_stays_one() -> None:
    @dataclass
    class Pilot(BaseProfile):
        ship: str = "Fram"

    pilot = Pilot(name="Nora").merged(tone="detailed", ship="Gjøa", role=None)
    assert pilot.role == "general assistant"
    assert (type(pilot), pilot.ship, pilot.tone) == (Pilot, "Gjøa", "detailed")
    assert asdict(replace(pilot, ship="Maud"))["ship"] == "Maud"
    assert "Tone: detailed" in pilot.execute()
    assert "Tone: socratic" in pilot.execute({"tone": "socratic"})
    assert pilot.tone == "detailed"


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("at most 1 step", 1),
        ("at most 2 steps", 2),
        ("最多2步", 2),
        ("always use mail", 0),
        ("never use weather", 0),
    ],
)
def test_a_hard_constraint_holds_also_when_only_the_text_of_the_profile_is_given(
    rule: str, kept: int
) -> None:
    profile = BaseProfile(language="en", hard_constraints=[rule])
    assert f"- {rule}" in profile.render_system_prompt()
    other = CALL | {"arguments": {"city": "Rome"}}
    for given in (profile, profile.render_system_prompt()):
        planner = LLMPlanner(Generator([CALL, other, REPLY]))
        steps = planner.plan(given, "weather in Oslo and Rome", TOOLS)
        assert len(steps) == max(kept, 1)
        assert (steps == [{"type": "reply", "text": "（计划不可用）"}]) is not kept
        assert any(each.severity == "error" for each in planner.problems)


class Echo:
    name = "echo"
    input_schema = CITY

    def call(self, arguments: Any) -> Any:
        return {"echo": arguments}


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ([], TypeError, "expects None/'describe' or a dict"),
        ({"op": "call", "arguments": {}}, ValueError, "Missing or invalid 'name'"),
        ({"name": ""}, ValueError, "Missing or invalid 'name'"),
        ({"name": "echo", "arguments": 3}, TypeError, "'arguments' must be a dict"),
        ({"op": "delete", "name": "echo"}, ValueError, "Unsupported op"),
        ({"name": "tides"}, KeyError, "Tool not found"),
    ],
)
def test_a_registry_says_what_is_wrong_with_a_call(
    data: Any, error: type[Exception], says: str
) -> None:
    registry = MCPRegistry()
    registry.register(Echo())
    with pytest.raises(error, match=says):
        registry.execute(data)


def test_a_registry_registers_describes_and_calls() -> None:
    registry = MCPRegistry()
    registry.register(Echo())
    assert registry.describe() == {"echo": {"description": "", "input_schema": CITY}}
    assert registry.execute() == registry.execute({"op": "describe", "more": 1})
    assert registry.call("echo", 123) == {"echo": 123}  # the tool judges its arguments
    assert registry.execute({"op": "call", "name": "echo"}) == {"echo": {}}
    assert registry.execute({"name": "echo", "arguments": {"a": 1}}) == {"echo": {"a": 1}}
    with pytest.raises(TypeError, match="name"):
        registry.register(object())
