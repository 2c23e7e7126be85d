"""Wrappers of models: retries, a limit of silence, a limit of length."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from pydantic_ai.models import override_allow_model_requests

from plansmith.errors import ModelBusy, ModelFailed, ModelRefused, PromptTooLong
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ChatModel, Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith.testing import FakeClock, ScriptedModel
from plansmith.testing.fakes import settle
from plansmith.testing.modelserver import ModelServer, Refusal, Reply
from plansmith_planner.models.provider import ProviderModel
from plansmith_planner.models.wrappers import LimitedModel, RetryingModel, TimedModel

HELLO = [Message("user", "hello")]
BIG: dict[str, Json] = {"type": "object", "description": "word " * 1000}


class HastyClock(FakeClock):
    """Does not wait, but writes down how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class FaltersModel:
    """Says some pieces, then fails."""

    name = "falters"

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.calls = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.calls += 1
        for piece in self.pieces:
            yield TextDelta(piece)
        raise ModelBusy("cut")


class SlowModel:
    """Takes a while before each piece, by the clock; closed tells whether it was let go."""

    name = "slow"

    def __init__(self, clock: FakeClock, *pauses: float) -> None:
        self.clock = clock
        self.pauses = pauses
        self.calls = 0
        self.closed = False

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.calls += 1
        try:
            for pause in self.pauses:
                await self.clock.sleep(pause)
                yield TextDelta(f"{pause:g} ")
            yield ModelDone(Usage())
        finally:
            self.closed = True


@pytest.fixture(autouse=True)
def real_requests() -> Iterator[None]:
    with override_allow_model_requests(True):
        yield


async def listen(model: ChatModel, deltas: list[Delta]) -> None:
    async for delta in model.stream(Prompt(HELLO)):
        deltas.append(delta)  # noqa: PERF401 - kept when the stream fails


async def said(model: ChatModel) -> str:
    deltas = [delta async for delta in model.stream(Prompt(HELLO))]
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


async def test_a_busy_model_is_asked_three_times_with_growing_waits() -> None:
    clock = HastyClock()
    busy = ScriptedModel(ModelBusy("1"), ModelBusy("2"), "fine")
    model = RetryingModel(busy, clock=clock, chance=lambda: 0.5)
    assert await said(model) == "fine"
    assert clock.slept == [0.5, 1.0]


@pytest.mark.parametrize("failure", [ModelRefused("no"), ModelFailed("what")])
async def test_other_failures_are_not_tried_again(failure: ModelFailed) -> None:
    clock = HastyClock()
    with pytest.raises(type(failure)):
        await said(RetryingModel(ScriptedModel(failure), clock=clock))
    assert clock.slept == []


@pytest.mark.parametrize(("wish", "wait"), [(7.0, 7.0), (0.1, 0.5), (900.0, 60.0), (None, 0.5)])
async def test_the_providers_wish_is_kept_up_to_a_limit(wish: Any, wait: float) -> None:
    clock = HastyClock()
    busy = ScriptedModel(ModelBusy("1", retry_after=wish), "fine")
    await said(RetryingModel(busy, clock=clock, chance=lambda: 0.5))
    assert clock.slept == [wait]


async def test_what_was_said_is_never_said_twice() -> None:
    model = FaltersModel("half an ")
    heard: list[Delta] = []
    with pytest.raises(ModelBusy):
        await listen(RetryingModel(model, clock=HastyClock()), heard)
    assert heard == [TextDelta("half an ")]
    assert model.calls == 1


async def test_thinking_aloud_is_nothing_said() -> None:
    model = FaltersModel("", "")
    with pytest.raises(ModelBusy):
        await said(RetryingModel(model, clock=HastyClock()))
    assert model.calls == 3


async def test_a_wait_can_be_cancelled() -> None:
    clock = FakeClock()
    busy = ScriptedModel(ModelBusy("1", retry_after=30), "never")
    task = asyncio.create_task(said(RetryingModel(busy, clock=clock)))
    await settle()
    assert clock.sleepers == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(busy.prompts) == 1


async def test_over_http_a_rate_limit_and_a_broken_server_are_waited_out() -> None:
    clock = HastyClock()
    script = (Refusal(429, retry_after="7"), Reply("", ends="cut"), Reply("fine"))
    async with ModelServer(*script) as server:
        provider = ProviderModel("openai:test", base_url=server.url)
        assert await said(RetryingModel(provider, clock=clock, chance=lambda: 0.0)) == "fine"
        server.finish()
    assert clock.slept == [7.0, 0.0]


async def test_silence_is_given_up_and_the_stream_let_go() -> None:
    clock = FakeClock()
    slow = SlowModel(clock, 1, 100)
    task = asyncio.create_task(said(TimedModel(slow, clock=clock, silence_s=5)))
    await clock.advance(5.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(ModelBusy, match="slow said nothing for 5 s"):
        await task
    assert slow.closed


async def test_a_whole_answer_may_take_only_so_long() -> None:
    clock = FakeClock()
    slow = SlowModel(clock, *[2] * 20)
    task = asyncio.create_task(said(TimedModel(slow, clock=clock, silence_s=5, total_s=9)))
    await clock.advance(10)
    with pytest.raises(ModelBusy, match="slow took longer than 9 s"):
        await task
    assert slow.closed


async def test_time_that_ran_out_while_the_caller_was_away_is_noticed() -> None:
    clock = FakeClock()
    stream = TimedModel(SlowModel(clock, 0, 1), clock=clock, total_s=5).stream(Prompt(HELLO))
    await anext(stream)
    await clock.advance(60)
    with pytest.raises(ModelBusy, match="took longer"):
        await anext(stream)


async def test_the_callers_own_time_is_no_silence() -> None:
    clock = FakeClock()
    stream = TimedModel(SlowModel(clock, 0, 1), clock=clock, silence_s=5).stream(Prompt(HELLO))
    assert await anext(stream) == TextDelta("0 ")
    await clock.advance(60)
    second = asyncio.ensure_future(anext(stream))
    await clock.advance(1)
    assert await second == TextDelta("1 ")
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_cancelled_caller_stays_cancelled() -> None:
    clock = FakeClock()
    slow = SlowModel(clock, 100)
    task = asyncio.create_task(said(TimedModel(slow, clock=clock, silence_s=5)))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.closed


async def test_silence_before_the_first_piece_is_tried_again() -> None:
    clock = FakeClock()
    slow = SlowModel(clock, 100)
    timed = TimedModel(slow, clock=clock, silence_s=5)
    task = asyncio.create_task(said(RetryingModel(timed, clock=clock, chance=lambda: 0.0)))
    await clock.advance(60)
    with pytest.raises(ModelBusy):
        await task
    assert slow.calls == 3


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt([Message("user", "word " * 1000)]),
        Prompt(HELLO, schema=BIG),
        Prompt(HELLO, tools=[ToolSpec(name="t", input_schema=BIG)]),
    ],
)
async def test_a_prompt_that_does_not_fit_is_not_sent_and_the_numbers_are_named(
    prompt: Prompt,
) -> None:
    inner = ScriptedModel("never")
    with pytest.raises(PromptTooLong) as caught:
        _ = [delta async for delta in LimitedModel(inner, context_tokens=4896).stream(prompt)]
    assert inner.prompts == []
    assert "scripted has room for 800 (4,896 less 4,096 for the answer)" in str(caught.value)
    assert "larger context" in str(caught.value)
