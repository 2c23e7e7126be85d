from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from pydantic_ai.models import override_allow_model_requests

from plansmith.errors import ModelBusy
from plansmith.ports import ChatModel, Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith.testing import FakeClock
from plansmith.testing.clock import settle
from plansmith_planner.models.wrappers import RetryingModel, TimedModel

HELLO = [Message("user", "hello")]


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


async def said(model: ChatModel) -> str:
    deltas = [delta async for delta in model.stream(Prompt(HELLO))]
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


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


async def test_the_callers_own_time_is_no_silence() -> None:
    clock = FakeClock()
    stream = TimedModel(SlowModel(clock, 0, 1), clock=clock, silence_s=5).stream(Prompt(HELLO))
    assert await anext(stream) == TextDelta("0 ")
    await clock.advance(60)
    second = asyncio.ensure_future(anext(stream))
    await clock.advance(1)
    assert await second == TextDelta("1 ")
    await stream.aclose()  # type: ignore[attr-defined]


async def test_time_that_ran_out_while_the_caller_was_away_is_noticed() -> None:
    clock = FakeClock()
    stream = TimedModel(SlowModel(clock, 0, 1), clock=clock, total_s=5).stream(Prompt(HELLO))
    await anext(stream)
    await clock.advance(60)
    with pytest.raises(ModelBusy, match="took longer"):
        await anext(stream)


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
