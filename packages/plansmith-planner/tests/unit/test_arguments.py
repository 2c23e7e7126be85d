"""What a Plansmith is given is checked at once, and what is wrong says what to write."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith import Plan, Plansmith, ToolSpec, check_plan, read_plan, tool
from plansmith.errors import Misconfigured
from plansmith.testing import MemoryStore, ScriptedModel
from plansmith_planner import model
from plansmith_planner.models.provider_output import require_usable

NO_TOOLS: list[ToolSpec] = []
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY")


@tool(effect="read")
def weather(city: str) -> str:
    """The weather in a city."""
    return city


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", "write provider:name, such as openai:gpt-5"),
        ("openai:", "is not the name of a model"),
        ("opnai:gpt-5", "did you mean 'openai'?"),
        ("nobody:x", "no provider of models is called 'nobody'"),
        ("openai:gpt-5", "OPENAI_API_KEY is not set"),
        ("google:gemini-pro", "export GOOGLE_API_KEY"),
        ("recorded:nowhere.jsonl", "there is no recording"),
        ("", "the model's model"),
    ],
)
def test_the_wrong_name_of_a_model_says_what_to_write(name: str, message: str) -> None:
    for make in (Plansmith, model):
        with pytest.raises(Misconfigured) as raised:
            make(name)
        assert message in str(raised.value)


def test_the_name_of_a_model_is_taken_where_its_key_or_server_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model("openai:gpt-5", api_key="k")
    model("openai:qwen3", base_url="http://127.0.0.1:1/v1")
    model("ollama:qwen3")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    for name in ("google:gemini-pro", "openai:gpt-5", "rules", "auto", "local"):
        Plansmith(name)


def test_a_provider_of_the_library_that_we_do_not_list_is_known_too() -> None:
    require_usable("sambanova:any", environment={})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": 3}, "3 is not a model"),
        ({"model": ScriptedModel}, "is not a model (give its name, such as 'openai:gpt-5'"),
        ({"tools": weather}, "tools takes a list, not <tool weather> (give a list of functions"),
        ({"tools": "weather"}, "tools takes a list"),
        ({"tools": ["weather"]}, "'weather' is not a tool"),
        ({"tools": [lambda: 1]}, "functions that have a name"),
        ({"store": 3}, "3 is not a store (give a URL, such as 'sqlite:///runs.db'"),
        ({"store": MemoryStore}, "is not a store"),
        ({"agents": [weather.function]}, "is not an agent"),
        ({"agents": 3}, "agents takes a list"),
        ({"triage_model": "gpt-5"}, "write provider:name"),
        ({"report_model": 3}, "3 is not a model"),
        ({"model": "rules", "settings": {}}, "are no settings"),
    ],
)
def test_a_wrong_argument_says_what_to_give(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        Plansmith(**given)
    assert message in str(raised.value)


def test_an_unknown_argument_names_the_nearest_one() -> None:
    given: Any = {"tool": [weather]}
    with pytest.raises(TypeError, match="no option 'tool': did you mean 'tools'"):
        Plansmith(**given)
    given = {"policy": "always"}
    with pytest.raises(TypeError, match="policy must be a ReviewPolicy"):
        Plansmith(**given)
    given = {"qqq": 1}
    with pytest.raises(TypeError, match="there are: model, tools, agents, store"):
        Plansmith(**given)


def test_a_plan_is_checked_against_functions_as_a_plansmith_takes_them() -> None:
    def stock(item: str) -> int:
        """How many there are."""
        return len(item)

    steps = [
        {"id": "a", "tool": "stock", "inputs": {"item": "bolt"}},
        {"id": "b", "tool": "weather", "inputs": {"town": "Oslo"}},
    ]
    plan = read_plan({"goal": "x", "steps": steps})
    assert {each.step for each in check_plan(plan, [stock, weather, *NO_TOOLS])} == {"b"}
    with pytest.raises(Misconfigured, match="is not a tool"):
        check_plan(plan, [lambda item: item])


@pytest.mark.filterwarnings("error")
def test_a_plan_is_dumped_without_a_warning_and_read_again() -> None:
    each = {"tool": "pay", "inputs": {"to": "{{item}}"}}
    plan = read_plan({"goal": "x", "steps": [{"id": "m", "over": ["a"], "each": each}]})
    assert (plan.hash, plan.needs, list(plan.by_id)) == (plan.hash, {"m": frozenset()}, ["m"])
    assert Plan.model_validate(plan.model_dump()) == plan
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
