"""Models of the first release, whose `stream` takes messages and not a prompt."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from plansmith import Plansmith, tool
from plansmith.adapters.models.recorded import RecordedModel, RecordingModel
from plansmith.adapters.models.wrappers import LimitedModel, RetryingModel, TimedModel
from plansmith.compat.openmanus.tokens import CountingModel
from plansmith.compat.valuecell import SuperAgent
from plansmith.compat.valuecell.models import UserInput
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.run import RunStatus
from plansmith.planner.model_calls import read_answer
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ChatModel, Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith.testing import FakeClock, ScriptedModel
from plansmith.testing.contracts import ChatModelContract

ASKED = Prompt([Message("user", "hi")], schema={"type": "string"}, tools=[ToolSpec(name="t")])


class OldModel:
    """A model as the README of the first release showed it."""

    name = "old"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.heard: list[Any] = []

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> AsyncIterator[Delta]:
        self.heard.append((messages, schema, tools))
        yield TextDelta(self.answers.pop(0))
        yield ModelDone(Usage(), self.name)


class LooseModel(OldModel):
    async def stream(self, messages: Sequence[Message], **_: Any) -> AsyncIterator[Delta]:
        self.heard.append(messages)
        yield TextDelta(self.answers.pop(0))
        yield ModelDone(Usage(), self.name)


def old(*answers: str) -> Any:
    return OldModel(*answers)


class TestAnOldModel(ChatModelContract):
    def make_model(self) -> ChatModel:
        return cast("ChatModel", OldModel("hello to you"))


async def test_an_old_model_gets_the_parts_of_a_prompt_that_it_knows() -> None:
    model = old("yes")
    assert (await read_answer(takes_prompt(model).stream(ASKED))).text == "yes"
    assert model.heard == [(ASKED.messages, ASKED.schema, ASKED.tools)]
    loose = LooseModel("yes")
    assert (await read_answer(takes_prompt(cast("Any", loose)).stream(ASKED))).text == "yes"
    assert loose.heard == [ASKED.messages]
    assert takes_prompt(model).name == "old"


async def test_an_old_model_plans_and_words_a_run() -> None:
    @tool(effect="read")
    def look(at: str) -> str:
        """Look at a place."""
        return f"{at} is fine"

    steps = [
        {"id": "look", "tool": "look", "inputs": {"at": "Oslo"}},
        {"id": "say", "kind": "reply", "instruction": "Say {{look}}"},
    ]
    decided = {"decision": "plan", "reason": "", "query": "", "answer": ""}
    answers = (json.dumps(decided), json.dumps({"goal": "g", "steps": steps}), "Oslo is fine.")
    async with Plansmith(model=old(*answers), tools=[look]) as smith:
        run = await smith.run((await smith.plan("Look at Oslo")).id)
    assert run.status is RunStatus.DONE
    assert "Oslo is fine." in run.report


async def test_whoever_wraps_a_model_takes_an_old_one(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "calls.jsonl"
    for wrapped in (
        LimitedModel(old("yes"), context_tokens=9000),
        RetryingModel(old("yes"), clock=clock),
        TimedModel(old("yes"), clock=clock),
        CountingModel(old("yes")),
        RecordingModel(old("yes"), path),
    ):
        assert (await read_answer(wrapped.stream(ASKED))).text == "yes"
    assert (await read_answer(RecordedModel(path).stream(ASKED))).text == "yes"
    agent = SuperAgent(old(json.dumps({"decision": "answer", "reason": "", "answer": "yes"})))
    outcomes = [each async for each in agent.run(UserInput(query="hello"))]
    assert outcomes[0].answer_content == "yes"


async def partial_stream(note: str, prompt: Prompt) -> AsyncIterator[Delta]:
    yield TextDelta(note + prompt.text)
    yield ModelDone(Usage())


class Odd:
    """A model whose `stream` is no method: its parameters are still those of a prompt."""

    name = "odd"
    stream = staticmethod(functools.partial(partial_stream, "said "))


class Unreadable:
    name = "unreadable"
    stream = 3


@pytest.mark.parametrize("model", [ScriptedModel("x"), Odd(), Unreadable(), object()])
def test_any_other_model_is_left_as_it_is(model: Any) -> None:
    assert takes_prompt(model) is model
    assert takes_prompt(takes_prompt(model)) is model


async def test_an_adapted_model_is_not_adapted_again() -> None:
    adapted = takes_prompt(old("x"))
    assert takes_prompt(adapted) is adapted


class OldWrapper:
    """A wrapper of the first release: it asks the model behind it in the old way."""

    name = "wrapper"

    def __init__(self, model: Any) -> None:
        self.model = model

    def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> AsyncIterator[Delta]:
        return cast("AsyncIterator[Delta]", self.model.stream(messages, schema=schema, tools=tools))


async def test_old_code_may_ask_our_models_in_the_old_way(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    scripted = ScriptedModel("one", "two")
    model: Any = takes_prompt(cast("Any", OldWrapper(RecordingModel(scripted, path))))
    assert (await read_answer(model.stream(ASKED))).text == "one"
    heard = await read_answer(
        cast("Any", RecordedModel(path)).stream(
            ASKED.messages, schema=ASKED.schema, tools=ASKED.tools
        )
    )
    assert heard.text == "one"
    assert (await read_answer(cast("Any", scripted).stream(ASKED.messages))).text == "two"
    assert scripted.prompts == [list(ASKED.messages)] * 2


def test_what_neither_way_knows_is_refused() -> None:
    with pytest.raises(TypeError):
        cast("Any", ScriptedModel("x")).stream([], colour="red")
    with pytest.raises(TypeError):
        cast("Any", ScriptedModel("x")).stream(ASKED, schema={})


class Passing:
    """A wrapper of the first release that hands on whatever it is given."""

    name = "passing"

    def __init__(self, model: Any) -> None:
        self.model = model

    def stream(self, *given: Any, **more: Any) -> AsyncIterator[Delta]:
        return cast("AsyncIterator[Delta]", self.model.stream(*given, **more))


async def test_a_wrapper_of_any_arguments_gives_an_old_model_its_messages() -> None:
    old = OldModel("well")
    heard = await read_answer(takes_prompt(cast("ChatModel", Passing(old))).stream(ASKED))
    assert heard.text == "well"
    assert old.heard == [(ASKED.messages, ASKED.schema, ASKED.tools)]
    new = Passing(ScriptedModel("fine"))
    heard = await read_answer(takes_prompt(cast("ChatModel", new)).stream(ASKED))
    assert heard.text == "fine"
