"""SAGE's planner in programs that bring their own generator, hooks, ranking or pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.sage.test_planner import CALL, GOOD, REPLY, TOOLS, UNKNOWN, Generator
from tests.servers.model_server import ModelServer, Reply

import plansmith_planner
from plansmith.testing import ScriptedModel
from plansmith_compat.sage import (
    AgentRuntime,
    BaseProfile,
    LLMPlanner,
    MCPRegistry,
    _coerce_json_array,
    _validate_steps,
    planner,
)

NO_PLAN = [{"type": "reply", "text": "（计划不可用）"}]
MANY = {f"weather_{n}": TOOLS["weather"] for n in range(9)}


class Streaming:
    """A generator that also has an attribute called stream, and is async."""

    stream = True

    async def execute(self, data: Any) -> Any:
        return data[0], json.dumps(GOOD)


@pytest.mark.parametrize(
    "generator",
    [
        Mock(execute=Mock(return_value=("query", json.dumps(GOOD)))),
        Mock(execute=Mock(return_value=json.dumps(GOOD))),
        Mock(execute=Mock(return_value=("query", GOOD))),
        Mock(execute=Mock(return_value={"text": json.dumps(GOOD)})),
        Streaming(),
        lambda data: (data[0], json.dumps(GOOD)),
        ScriptedModel(GOOD),
        Mock(),
    ],
    ids=["mock", "text", "data", "table", "async", "function", "model", "no text"],
)
def test_any_generator_plans_and_one_that_gives_no_text_makes_no_plan(
    generator: Any, request: pytest.FixtureRequest
) -> None:
    made, fails = LLMPlanner(generator), request.node.callspec.id == "no text"
    assert made.plan("p", "weather in Oslo", TOOLS) == (NO_PLAN if fails else GOOD)
    assert any("Mock, not a text" in each.message for each in made.problems) is fails


def test_a_planner_takes_a_model_by_name_or_chooses_one() -> None:
    with ModelServer(then=Reply({"steps": GOOD})).in_thread() as url:
        model = plansmith_planner.model("openai:any", base_url=url, api_key="k")
        for made in (LLMPlanner(model), LLMPlanner(model=model)):
            assert made.plan("p", "weather in Oslo", TOOLS) == GOOD
    ruled = LLMPlanner("rules")
    [step] = ruled.plan("p", "sing a song", TOOLS)
    assert "without a language model" in step["text"]
    assert "without a language model" in ruled.failure
    assert LLMPlanner().generator is not None
    with pytest.raises(TypeError, match="not both"):
        LLMPlanner(Generator(GOOD), model="rules")
    with pytest.raises(TypeError, match="generator"):
        LLMPlanner(object())  # type: ignore[arg-type]


def test_a_model_that_is_not_set_up_is_told_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = LLMPlanner("openai:gpt-5-mini")
    assert made.plan("p", "weather in Oslo", TOOLS) == NO_PLAN
    assert "set OPENAI_API_KEY" in made.failure
    result = AgentRuntime(BaseProfile(), made, MCPRegistry()).step("weather in Oslo")
    assert "请设置 OPENAI_API_KEY" in result["reply"]


def test_topk_of_one_call_is_not_seen_by_another_thread() -> None:
    seen: list[int] = []
    entered, leave = threading.Event(), threading.Event()

    class Slow(LLMPlanner):
        def plan(self, profile_system_prompt: Any, user_query: str, tools: Any) -> Any:
            if user_query == "slow":
                entered.set()
                leave.wait(10)
            seen.append(self.topk_tools)
            return []

    made = Slow(Generator(GOOD))
    data = {"profile_prompt": "p", "query": "slow", "tools": TOOLS, "topk": 2}
    other = threading.Thread(target=made.execute, args=(data,))
    other.start()
    entered.wait(10)
    made.execute(("p", "quick", TOOLS))
    leave.set()
    other.join(10)
    assert (seen, made.topk_tools) == ([6, 2], 6)


class Hooked(LLMPlanner):
    """Overrides every hook of SAGE, and notes that it was called."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.called: list[str] = []
        self.prompts: list[str] = []

    def _tools_to_manifest(self, tools_like: Any) -> Any:
        self.called.append("manifest")
        return super()._tools_to_manifest(tools_like or TOOLS)

    def _top_k_tools(self, user_query: str, tools: Any, k: int = 6) -> Any:
        self.called.append("top")
        return {name: each for name, each in tools.items() if name == "weather"}

    def _build_prompt(self, profile_system_prompt: str, user_query: str, tools_subset: Any) -> str:
        self.called.append("prompt")
        text = super()._build_prompt(profile_system_prompt, user_query, tools_subset)
        return f"{text}\nSpeak like a sailor."

    def _ask_llm(self, prompt: str, user_query: str) -> str:
        self.called.append("ask")
        self.prompts.append(prompt)
        return f"AYE {super()._ask_llm(prompt, user_query)}"

    def _coerce_json_array(self, text: str) -> list[Any] | None:
        self.called.append("coerce")
        return super()._coerce_json_array(text.removeprefix("AYE "))

    def _validate_steps(self, steps: Sequence[Any], tools: Any) -> list[dict[str, Any]]:
        self.called.append("validate")
        filled = [
            each | {"arguments": {"city": "Oslo"}} if each.get("name") == "weather" else each
            for each in steps
        ]
        return super()._validate_steps(filled, tools)


def test_every_hook_of_the_planner_is_gone_through() -> None:
    bare = {"type": "tool", "name": "weather", "arguments": {}}
    made = Hooked(Generator([bare, {"type": "tool", "name": "mail", "arguments": {}}, REPLY]))
    assert made.execute(("You help.", "weather", ())) == GOOD
    assert made.called == ["manifest", "top", "prompt", "ask", "coerce", "validate"]
    assert made.prompts[0].endswith("Speak like a sailor.")
    assert "You help." in made.prompts[0]
    assert "Send an e-mail" not in made.prompts[0]


def test_a_hook_set_on_one_planner_is_gone_through_and_needs_no_generator() -> None:
    made = LLMPlanner(lambda _: "never asked")
    asked = Mock(side_effect=["no plan at all", json.dumps(GOOD)])
    made._ask_llm = asked  # type: ignore[method-assign]
    assert made.plan("p", "weather in Oslo", TOOLS) == GOOD
    repair = asked.call_args_list[1].args[0]
    assert "no plan at all" in repair
    assert "The weather in a city" in repair


@pytest.mark.parametrize("hook", ["_ask_llm", "_build_prompt", "_validate_steps"])
def test_a_hook_that_raises_makes_no_plan_and_is_told(hook: str) -> None:
    made = LLMPlanner(Generator(GOOD))
    setattr(made, hook, Mock(side_effect=RuntimeError("hook broke")))
    assert made.plan("p", "weather in Oslo", TOOLS) == NO_PLAN
    assert any("hook broke" in each.message for each in made.problems)


DRAW = {"type": "tool", "name": "draw", "arguments": {"n": 9}}
MAXIMUM = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}


def test_only_what_was_offered_and_fits_its_schema_is_accepted() -> None:
    extra = {"type": "tool", "name": "weather", "arguments": {"city": "Oslo", "unit": "K"}}
    assert LLMPlanner(Generator([extra, REPLY])).plan("p", "Oslo", TOOLS) == [extra, REPLY]
    forbidden = LLMPlanner(Generator([DRAW]))
    assert forbidden.plan("p", "draw", {"draw": {"input_schema": MAXIMUM}}) == NO_PLAN
    assert any("9" in each.message for each in forbidden.problems)
    generator = Generator([{"type": "tool", "name": "mail", "arguments": {}}, REPLY])
    made = LLMPlanner(generator, topk_tools=1)
    assert made.plan("p", "weather in Oslo", TOOLS) == NO_PLAN
    assert "Send an e-mail" not in generator.messages()[0]["content"]
    assert "PS101" in {each.code for each in made.problems}
    made = LLMPlanner(Generator(GOOD))  # nor can a hook wave an invented tool through
    made._validate_steps = Mock(return_value=[UNKNOWN, REPLY])  # type: ignore[method-assign]
    steps = made.plan("p", "weather in Oslo", TOOLS)
    assert all(step.get("name") != "telepathy" for step in steps)
    assert "PS101" in {each.code for each in made.problems}


def test_tools_are_recalled_by_a_ranker_of_the_program() -> None:
    def nearest(query: str, texts: Sequence[str]) -> list[float]:
        return [float("post" in text) for text in texts]

    tools = {f"t{n}": {"description": "paints"} for n in range(8)} | {"x": {"description": "post"}}
    for ranker in (nearest, Mock(scores=nearest)):
        made = LLMPlanner(Generator([REPLY]), ranker=ranker)
        assert list(made._top_k_tools("write to Nora", tools, 1)) == ["x"]
    with pytest.raises(TypeError, match="ranker"):
        LLMPlanner(Generator([REPLY]), ranker=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        *((json.dumps(GOOD), GOOD), (f"```json\n{json.dumps(GOOD)}\n```", GOOD)),
        *((f"Sure: {json.dumps(GOOD)} Done.", GOOD), (f"See [1]: {json.dumps(GOOD)}", GOOD)),
        *((json.dumps({"steps": GOOD}), GOOD), ("[]", []), ("I will call the weather tool.", None)),
        ("", None),
    ],
)
def test_the_helper_reads_the_array_in_a_text(text: str, steps: Any) -> None:
    assert _coerce_json_array(text) == steps
    assert planner._coerce_json_array(text) == steps


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([CALL, REPLY], [CALL, REPLY]),
        ([{"type": "reply", "text": " hi "}], [{"type": "reply", "text": "hi"}]),
        ([UNKNOWN, "junk", {"type": "reply", "text": " "}, REPLY], [REPLY]),
        ([{"type": "tool", "name": "weather", "arguments": {}}], NO_PLAN),
        ([{"type": "tool", "name": "weather", "arguments": ["Oslo"]}], NO_PLAN),
        ([], NO_PLAN),
    ],
)
def test_the_helper_keeps_the_steps_that_sage_could_run(given: Any, expected: Any) -> None:
    assert _validate_steps(given, TOOLS) == expected


SAGE = """
from abc import ABC, abstractmethod

class MapFunction(ABC):
    @abstractmethod
    def execute(self, data): ...
"""
PIPELINE = """
from plansmith_compat.sage import AgentRuntime, BaseProfile, LLMPlanner, MCPRegistry
from sage.common.core.functions import MapFunction

class Operator:
    def __init__(self, function, ctx):
        assert isinstance(function, MapFunction)
        self.function = function
        self.function.ctx = ctx

for each in (AgentRuntime, BaseProfile, LLMPlanner, MCPRegistry):
    assert issubclass(each, MapFunction)
class Context:
    logger = "the pipeline's"

operator = Operator(LLMPlanner(lambda data: '[{"type": "reply", "text": "aye"}]'), Context())
assert operator.function.logger == "the pipeline's"
print(operator.function.execute(("p", "q", {})))
"""


def test_the_planner_is_a_map_function_of_a_sage_that_is_installed(tmp_path: Path) -> None:
    home = tmp_path / "sage" / "common" / "core"
    home.mkdir(parents=True)
    (home / "functions.py").write_text(SAGE, encoding="utf-8")
    command = [sys.executable, "-c", PIPELINE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[{'type': 'reply', 'text': 'aye'}]\n", done.stderr
