"""What every chat model does: scripted, recorded, of a provider, and wrapped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pydantic_ai.models import override_allow_model_requests
from tests.servers.model_server import ModelServer, Reply

from plansmith import ports
from plansmith.plan.capability import ToolSpec
from plansmith.ports import ChatModel, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith.testing import Answer, FakeClock, RecordedModel, RecordingModel, ScriptedModel
from plansmith.testing.contracts import ChatModelContract
from plansmith_compat.openmanus import LLM
from plansmith_planner.model_calls import TranscribedModel, read_answer
from plansmith_planner.models.choose import AutoModel, Choice
from plansmith_planner.models.fact_checked import FactCheckedModel
from plansmith_planner.models.provider import ProviderModel
from plansmith_planner.models.wrappers import ResilientModel

HELLO = [ports.Message("user", "hello")]


class BareModel:
    """A stream that cannot be closed: the port asks for an iterator, not for a generator."""

    name = "bare"

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        return BareStream([TextDelta("good"), TextDelta(" day"), ModelDone(Usage())])


class BareStream:
    def __init__(self, deltas: list[Delta]) -> None:
        self.deltas = deltas

    def __aiter__(self) -> BareStream:
        return self

    async def __anext__(self) -> Delta:
        if not self.deltas:
            raise StopAsyncIteration
        return self.deltas.pop(0)


WORDS = "good day to you all"
MODELS: dict[str, Callable[[], ChatModel]] = {
    "scripted": lambda: ScriptedModel(WORDS, "and again"),
    "resilient": lambda: ResilientModel(ScriptedModel(WORDS), clock=FakeClock(), silence_s=1),
    "resilient, bare": lambda: ResilientModel(BareModel(), clock=FakeClock()),
}


class TestChatModels(ChatModelContract):
    @pytest.fixture(autouse=True, params=[*MODELS, "recorded", "provider"])
    def _kind(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
        self.kind, self.path = request.param, tmp_path / "calls.jsonl"
        if self.kind == "recorded":
            asyncio.run(deltas_of(RecordingModel(ScriptedModel(WORDS), self.path)))
        with ExitStack() as self.open, override_allow_model_requests(True):
            yield

    def make_model(self) -> ChatModel:
        if self.kind == "recorded":
            return RecordedModel(self.path)
        if self.kind == "provider":
            server = ModelServer(then=Reply(WORDS, chunk=3))
            return ProviderModel(
                "openai:test", base_url=self.open.enter_context(server.in_thread())
            )
        return MODELS[self.kind]()


async def deltas_of(model: ChatModel) -> list[Delta]:
    return [delta async for delta in model.stream(Prompt(HELLO))]


async def test_wrappers_pass_an_answer_on_unchanged() -> None:
    usage = Usage(input_tokens=3, output_tokens=2)
    plain = await deltas_of(ScriptedModel(Answer("good day to you all", chunk=4, usage=usage)))
    inner = ScriptedModel(Answer("good day to you all", chunk=4, usage=usage))
    wrapped = ResilientModel(inner, clock=FakeClock(), silence_s=5, context_tokens=8000)
    assert wrapped.name == "scripted"
    assert await deltas_of(wrapped) == plain


class Keeps:
    """A model that keeps the prompts it was asked."""

    name = "keeps"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.prompts.append(prompt)
        yield TextDelta("good day")
        yield ModelDone(Usage())


async def test_every_wrapper_passes_the_prompt_on_as_it_is(tmp_path: Path) -> None:
    inner = Keeps()

    async def chosen() -> Choice:
        return Choice("server", "keeps", "it was there")

    wrappers: list[ChatModel] = [
        ResilientModel(inner, clock=FakeClock()),
        FactCheckedModel(inner),
        AutoModel(chosen, lambda _: inner),
        RecordingModel(inner, tmp_path / "calls.jsonl"),
        TranscribedModel(inner, []),
        LLM(model=inner),
    ]
    prompt = Prompt(
        HELLO, tools=[ToolSpec(name="t")], max_tokens=7, brief=ports.TriageBrief("hello")
    )
    for wrapper in wrappers:
        await read_answer(wrapper.stream(prompt))
    assert len(inner.prompts) == len(wrappers)
    assert all(each is prompt for each in inner.prompts)


async def test_a_recorded_call_is_found_by_its_messages_whatever_the_brief(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    await deltas_of(RecordingModel(ScriptedModel("good day"), path))
    assert json.loads(path.read_text())["request"].keys() == {"messages", "schema", "tools"}
    prompt = Prompt(HELLO, max_tokens=5, brief=ports.TriageBrief("hello"))
    assert (await read_answer(RecordedModel(path).stream(prompt))).text == "good day"
