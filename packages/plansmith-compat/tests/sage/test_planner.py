"""SAGE's planner, profile and registry, as programs written for SAGE use them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from plansmith_compat.sage import BaseProfile, LLMPlanner, MCPRegistry
from plansmith_compat.sage.dialect import DIALECT

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, dict[str, Any]] = {
    "weather": {"description": "The weather in a city", "input_schema": CITY},
    "mail": {"description": "Send an e-mail", "input_schema": {"type": "object"}},
}
CALL: Any = {"type": "tool", "name": "weather", "arguments": {"city": "Oslo"}}
REPLY: Any = {"type": "reply", "text": "Say how it is in Oslo"}
GOOD = [CALL, REPLY]
UNKNOWN = {"type": "tool", "name": "telepathy", "arguments": {}}


class Generator:
    """A generator as SAGE has them: says its answers in turn, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [each if isinstance(each, str) else json.dumps(each) for each in answers]
        self.asked: list[Any] = []

    def execute(self, data: Any) -> tuple[Any, str]:
        self.asked.append(data)
        return data[0], self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def messages(self, call: int = 0) -> list[dict[str, str]]:
        messages: list[dict[str, str]] = self.asked[call][1]
        return messages


def plan(*answers: Any, query: str = "weather in Oslo", **options: Any) -> list[dict[str, Any]]:
    return LLMPlanner(Generator(*answers), **options).plan("You help.", query, TOOLS)


class Registry:
    def describe(self) -> dict[str, dict[str, Any]]:
        return TOOLS


async def test_a_plan_is_a_list_of_tool_calls_and_replies_also_inside_a_running_loop() -> None:
    assert plan(GOOD) == GOOD
    assert await LLMPlanner(Generator(GOOD)).aplan("You help.", "Oslo", TOOLS) == GOOD


@pytest.mark.parametrize("tools", [TOOLS, Registry()])
@pytest.mark.parametrize("names", ["profile_prompt user_query", "profile_system_prompt query"])
def test_execute_takes_a_triple_or_a_table_and_any_registry(tools: Any, names: str) -> None:
    class Noted(LLMPlanner):
        def plan(self, profile_system_prompt: Any, user_query: str, tools: Any) -> Any:
            made = super().plan(profile_system_prompt, user_query, tools)
            return [*made, {"type": "reply", "text": f"{self.topk_tools} of {len(tools)}"}]

    made, (profile, query) = Noted(Generator(GOOD)), names.split()
    table = {profile: "You help.", query: "weather in Oslo", "topk": 2}
    for key in ("tools", "registry"):
        steps = made.execute(table | {key: tools})  # it goes through `plan`
        assert steps == [*GOOD, {"type": "reply", "text": "2 of 2"}]
    assert made.execute(("You help.", "Oslo", tools))[-1]["text"] == "6 of 2"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        *((each, TypeError) for each in (None, "query", ["a", "b", TOOLS], ("a", "b"))),
        (("a", 1, TOOLS), TypeError),
        *((each, ValueError) for each in ({}, {"profile_prompt": "p", "query": "q"})),
    ],
)
def test_execute_refuses_anything_else_and_says_what_is_missing(
    data: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="registry"):
        LLMPlanner(Generator(GOOD)).execute(data)


@pytest.mark.parametrize("answer", ["", "[]", "null", '{"steps": []}', [UNKNOWN]])
def test_the_list_is_never_empty(answer: Any) -> None:
    [step] = plan(answer)
    assert step["type"] == "reply"
    assert step["text"]
    assert answer != [UNKNOWN] or step["text"] == "（计划不可用）"


def test_the_defaults_are_six_steps_one_repair_and_six_tools() -> None:
    planner = LLMPlanner(Generator(GOOD))
    assert (planner.max_steps, planner.enable_repair, planner.topk_tools) == (6, True, 6)
    with pytest.raises(ValueError, match="positive"):
        LLMPlanner(Generator(GOOD), max_steps=0)


def test_topk_counts_for_one_call_and_must_be_a_positive_number() -> None:
    many = {f"weather_{n}": TOOLS["weather"] for n in range(9)}
    data = {"profile_prompt": "p", "query": "weather", "tools": many}
    generator = Generator([REPLY])
    planner = LLMPlanner(generator)
    planner.execute(data | {"topk": 2})
    planner.execute(data)
    assert [generator.messages(call)[0]["content"].count('"weather_') for call in (0, 1)] == [2, 6]
    for wrong in (0, -1, "3", True, None):
        with pytest.raises(ValueError, match="topk"):
            planner.execute(data | {"topk": wrong})


def test_what_cannot_be_read_twice_becomes_a_reply_with_the_first_2000_characters() -> None:
    generator = Generator("words " * 1000, "more words")
    steps = LLMPlanner(generator).plan("p", "q", TOOLS)
    assert steps == [{"type": "reply", "text": ("words " * 1000)[:2000]}]
    assert len(generator.asked) == 2
    generator = Generator("only words")
    LLMPlanner(generator, enable_repair=False).plan("p", "q", TOOLS)
    assert len(generator.asked) == 1


@pytest.mark.parametrize(
    "bad",
    [
        "call the weather",
        {"name": "nothing of a type", "text": ""},
        {"type": "reply", "text": "  "},
        UNKNOWN,
        {"type": "tool", "name": "weather", "arguments": ["Oslo"]},
        {"type": "telepathy"},
        *(None, 3, []),
    ],
)
def test_a_step_that_cannot_be_used_is_dropped_and_told(bad: Any) -> None:
    planner = LLMPlanner(Generator([CALL, bad]))
    assert planner.plan("p", "weather in Oslo", TOOLS) == [CALL]
    assert any(each.severity == "error" for each in planner.problems)


def test_a_missing_argument_is_asked_of_the_user() -> None:
    [asked] = plan([{"type": "tool", "name": "weather", "arguments": {}}, REPLY])
    assert asked["type"] == "reply"
    assert "weather" in asked["text"]
    assert "city" in asked["text"]
    assert "s1" not in asked["text"]


def test_the_prompt_holds_rules_profile_query_and_tools_and_the_query_follows() -> None:
    generator = Generator(GOOD)
    LLMPlanner(generator).plan("You help sailors.", "weather in Oslo", TOOLS)
    query, (system, user) = generator.asked[0]
    assert query == "weather in Oslo"
    assert [system["role"], user["role"]] == ["system", "user"]
    assert user["content"] == "weather in Oslo"
    rule = "Always call at least one tool before replying when tools are provided"
    assert rule in system["content"]
    parts = ('"type": "tool"', "Send an e-mail", "You help sailors.", "weather in Oslo")
    places = [system["content"].index(part) for part in parts]
    assert places == sorted(places)


def test_thoughts_are_streamed_before_the_plan() -> None:
    events = list(LLMPlanner(Generator(GOOD)).plan_stream("p", "weather in Oslo", TOOLS))
    assert {event["type"] for event in events[:-1]} == {"thought"}
    assert events[-1] == {"type": "plan", "steps": GOOD}
    assert any("shortlist" in event["content"] for event in events[:-1])


@pytest.mark.parametrize(
    ("query", "tools"),
    [
        ("北京今天的天气怎么样", {f"t{n}": {"description": "画图"} for n in range(9)}),
        ("mail plan b to c", {"x_ray": {"description": "a b c"}}),
    ],
)
def test_defect_tools_are_found_in_chinese_and_not_by_single_letters(
    query: str, tools: dict[str, Any]
) -> None:
    wanted = "查询城市天气" if len(tools) > 1 else "Send mail"
    generator = Generator([REPLY])
    offered = {**tools, "wanted": {"description": wanted}}
    LLMPlanner(generator, topk_tools=1).plan("p", query, offered)
    assert '"name": "wanted"' in generator.messages()[0]["content"]


def test_defect_no_reply_is_shipped_for_a_tool_that_was_dropped() -> None:
    assert plan([CALL, UNKNOWN, {"type": "reply", "text": "I have read their thoughts."}]) == [CALL]


def test_defect_the_reply_is_worded_after_the_tools_have_run() -> None:
    reading = DIALECT.read([CALL, REPLY])
    assert reading.plan is not None
    [call, reply] = reading.plan.steps
    assert reply.needed == {call.id}
    assert [ref.step for ref in reply.input_refs()] == [call.id]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_list_is_never_longer_than_max_steps(most: int) -> None:
    other = CALL | {"arguments": {"city": "Rome"}}
    planner = LLMPlanner(Generator([CALL, other, REPLY]), max_steps=most)
    steps = planner.plan("p", "weather in Oslo and Rome", TOOLS)
    assert steps == ([CALL], [CALL, REPLY], [CALL, other, REPLY])[most - 1]
    assert bool(planner.problems) is (most < 3)


def test_defect_the_repair_knows_the_tools_and_what_was_wrong() -> None:
    generator = Generator([UNKNOWN], GOOD)
    assert LLMPlanner(generator).plan("p", "weather in Oslo", TOOLS) == GOOD
    prompt = "\n".join(message["content"] for message in generator.messages(1))
    assert "The weather in a city" in prompt
    assert "PS101" in prompt


def test_the_shape_is_read_with_its_order_also_where_it_is_sloppy() -> None:
    sloppy = {
        "plan": [
            {"name": "weather", "arguments": '{"city": "Oslo"}'},
            {"type": "tool", "name": "mail"},
            {"text": "Say it"},
        ],
        "answer": "old",
    }
    reading = DIALECT.read(json.loads(json.dumps(sloppy)))
    assert reading.plan is not None
    assert [step.kind for step in reading.plan.steps] == ["tool", "tool", "reply"]
    assert reading.plan.by_id["s2"].needed == {"s1"}
    assert {each.code for each in reading.problems} == {"PS013"}
    assert DIALECT.read("no plan").plan is None


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
