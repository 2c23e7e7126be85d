"""Nothing is fetched or asked over the network: for schemas that point there, for instant plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.commands import typed
from tests.servers.listener import Listener

from plansmith import Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, PlansmithError
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.ports import Call
from plansmith.testing import Answer, ScriptedModel
from plansmith_cli.questions import read_answer
from plansmith_desk.agents.local import LocalAgent
from plansmith_desk.model.grammar import grammar_of


@pytest.fixture
def listener() -> Iterator[Listener]:
    # It would serve a schema that allows anything.
    made = Listener(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    made.url += "/schema.json"
    yield made
    made.close()
    assert made.heard == []


def linked(url: str) -> list[dict[str, Any]]:
    """Schemas that need a document from elsewhere, in every way to say so."""
    return [
        {"type": "object", "properties": {"a": {"$ref": url}}},
        {"type": "object", "properties": {"a": {"$dynamicRef": url}}},
        {"$schema": url, "type": "object"},
        {"$id": url, "type": "object", "properties": {"a": {"$ref": "other.json"}}},
        {"type": "object", "allOf": [{"$ref": url}]},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"x": {"$ref": f"{url}#/definitions/y"}},
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/x"}},
        },
    ]


class Tools:
    """Two tools: one whose schemas are as given, and a plain one."""

    def __init__(self, schema: dict[str, Any], question: dict[str, Any] | None = None) -> None:
        self.question = question
        self.specs = [
            ToolSpec(
                name="shop.far",
                description="Look something up.",
                input_schema=schema,
                output_schema=schema,
                effect=Effect.READ,
            ),
            ToolSpec(name="shop.near", description="Look nearby.", effect=Effect.READ),
        ]

    async def tools(self) -> Sequence[ToolSpec]:
        return self.specs

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        if self.question is not None and call.reply is None:
            raise InputNeeded("which one?", schema=self.question)
        return {"a": 1} if tool == "shop.far" else {"b": 2}


def steps(*tools: str) -> Plan:
    made = [{"id": f"s{n}", "tool": tool, "inputs": {}} for n, tool in enumerate(tools)]
    return Plan.model_validate({"goal": "test", "steps": made})


@pytest.mark.parametrize("place", ["network", "file"])
async def test_a_schema_that_points_elsewhere_is_a_problem_of_its_tool_and_of_no_other(
    listener: Listener, tmp_path: Path, place: str
) -> None:
    (tmp_path / "schema.json").write_text('{"type": "integer"}')
    url = listener.url if place == "network" else (tmp_path / "schema.json").as_uri()
    for schema in linked(url):
        app = Plansmith(tools=[Tools(schema)])
        found = await app.check(steps("shop.far", "shop.near"))
        problems = [each for each in found if each.code == "PS209"]
        if "$schema" not in schema or schema["$schema"] != url:
            assert len(problems) == 2, schema  # what it takes, and what it gives
            assert all("nothing is fetched" in each.message for each in problems)
            assert {each.step for each in problems} == {"s0"}
        run = await app.run((await app.submit(steps("shop.far", "shop.near"))).id)
        assert run.status is RunStatus.DONE
        assert run.steps["s0"].status == run.steps["s1"].status == "done"


async def test_what_a_schema_says_beside_its_link_is_still_checked(listener: Listener) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": listener.url}, "b": {"type": "integer"}},
        "required": ["b"],
    }
    found = await Plansmith(tools=[Tools(schema)]).check(steps("shop.far"))
    assert {"PS202", "PS209"} <= {each.code for each in found}


async def test_an_agent_uses_a_tool_whose_schema_points_elsewhere_without_fetching_it(
    listener: Listener,
) -> None:
    for schema in linked(listener.url):
        model = ScriptedModel(
            Answer({"a": 1}, tool="shop.far"), Answer({"text": "done"}, tool="finish")
        )
        agent = LocalAgent(
            spec=AgentSpec(name="reader", effect=Effect.READ),
            model=model,
            prompt="researcher",
            sources=[Tools(schema)],
        )
        await agent.work("Find it out.", {}, Call(key="k"))


async def test_a_question_whose_schema_points_elsewhere_fails_and_waits_for_nobody(
    listener: Listener,
) -> None:
    for schema in linked(listener.url):
        app = Plansmith(tools=[Tools({"type": "object"}, question=schema)])
        run = await app.run((await app.submit(steps("shop.near"))).id)
        assert run.status is RunStatus.FAILED
        assert not run.questions
        assert "schema cannot be used" in run.steps["s0"].error


def test_a_terminal_reads_an_answer_without_fetching_the_schema(listener: Listener) -> None:
    for schema in linked(listener.url):
        asked = QuestionAsked(question="q", step="s", text="?", answer_schema=schema, kind="step")
        assert read_answer(asked, '{"a": 1}') == {"a": 1}


def test_a_grammar_for_a_small_model_is_made_without_fetching(listener: Listener) -> None:
    for schema in linked(listener.url):
        with suppress(PlansmithError, ValueError):  # one that cannot be had is an error
            grammar_of(schema)


def test_ask_looks_for_no_model_before_an_instant_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("ask", "what is 2+2", "--yes")
    with closing(Listener()) as listener:
        environment = {"HOME": str(tmp_path), "OLLAMA_HOST": listener.url, "PATH": ""}
        text = typed(*words, folder=tmp_path, environment=environment, capsys=capsys)
    assert text.code == 0
    assert "2+2 = 4" in text.out
    assert "by rules: arithmetic" in text.err
    assert listener.heard == []
