from __future__ import annotations

import asyncio

import pytest

from plansmith.errors import ToolFailed
from plansmith.testing import FakeClock
from plansmith.testing.fakes import settle
from plansmith_planner.context.timeouts import Failed, with_timeout


async def answer() -> str:
    return "done"


async def fail() -> str:
    raise ToolFailed("no\nnet <x>", hint="plug it in")


async def never() -> str:
    await asyncio.Event().wait()
    return ""


async def test_a_result_is_a_result_and_a_failure_is_a_reason(fake_clock: FakeClock) -> None:
    assert await with_timeout(answer(), seconds=1, clock=fake_clock) == "done"
    failed = await with_timeout(fail(), seconds=1, clock=fake_clock)
    assert failed == Failed("ToolFailed: no net ‹x› (plug it in)")


async def test_who_is_late_is_cancelled(fake_clock: FakeClock) -> None:
    task = asyncio.create_task(with_timeout(never(), seconds=5, clock=fake_clock))
    await fake_clock.advance(4.9)
    assert not task.done()
    await fake_clock.advance(0.2)
    assert await task == Failed("no answer within 5 s")


async def test_who_does_not_heed_being_cancelled_is_left_behind(
    fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plansmith_planner.context.timeouts._GRACE_S", 0.01)
    gate = asyncio.Event()

    async def stubborn() -> str:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    task = asyncio.create_task(with_timeout(stubborn(), seconds=1, clock=fake_clock))
    await fake_clock.advance(1)
    assert await task == Failed("no answer within 1 s")
    gate.set()
    await settle()


async def test_our_own_cancellation_reaches_the_work(fake_clock: FakeClock) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    task = asyncio.create_task(with_timeout(work(), seconds=5, clock=fake_clock))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work"]


async def test_work_that_cancels_itself_is_a_failure(fake_clock: FakeClock) -> None:
    async def gives_up() -> str:
        raise asyncio.CancelledError

    assert await with_timeout(gives_up(), seconds=1, clock=fake_clock) == Failed("it was cancelled")
