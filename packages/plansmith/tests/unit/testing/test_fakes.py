from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from plansmith.errors import ModelBusy, ScriptMismatch, ToolBusy
from plansmith.plan.capability import ToolSpec
from plansmith.ports import Call, ChatModel, Delta, Message, Prompt, Usage
from plansmith.testing import (
    Answer,
    FakeClock,
    FakeTool,
    FakeTools,
    RecordedModel,
    RecordingModel,
    ScriptedModel,
)

HELLO = [Message("user", "hello 你好")]
USED = Answer({"plan": 1}, tool="plan", usage=Usage(9, 3, 2))


async def ask(model: ChatModel, messages: list[Message] | None = None) -> list[Delta]:
    return [delta async for delta in model.stream(Prompt(messages or HELLO))]


async def test_a_scripted_model_refuses_what_its_script_does_not_say() -> None:
    model = ScriptedModel("one")
    with pytest.raises(ScriptMismatch, match="never asked for"):
        model.finish()
    await ask(model)
    with pytest.raises(ScriptMismatch, match="call 2"):
        await ask(model)
    with pytest.raises(ScriptMismatch, match="expected 'weather'"):
        await ask(ScriptedModel(Answer("x", expects="weather")))


def test_the_plugins_fixture_complains_of_left_over_answers(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["plansmith.testing.plugin"]')
    pytester.makepyfile("def test_it(scripted): scripted('left over')")
    options = ("-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:asyncio")
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1, errors=1)


async def test_a_recorded_call_plays_back_piece_by_piece_the_same(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    source = ScriptedModel("第一 answer", USED, ModelBusy("later"))
    recording = RecordingModel(source, path)
    first, second = await ask(recording), await ask(recording)
    with pytest.raises(ModelBusy):
        await ask(recording)
    kept = path.read_bytes()

    recorded = RecordedModel(path)
    assert recorded.name == "scripted"
    assert [await ask(recorded), await ask(recorded)] == [first, second]
    with pytest.raises(ModelBusy, match="later"):
        await ask(recorded)
    recorded.finish()

    again = RecordingModel(RecordedModel(path), tmp_path / "again.jsonl")
    assert [await ask(again), await ask(again)] == [first, second]
    with pytest.raises(ModelBusy):
        await ask(again)
    assert (tmp_path / "again.jsonl").read_bytes() == kept


async def test_a_call_that_was_not_recorded_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    await ask(RecordingModel(ScriptedModel("x"), path))
    recorded = RecordedModel(path)
    with pytest.raises(ScriptMismatch, match="no unused record"):
        await ask(recorded, [Message("user", "something else")])
    with pytest.raises(ScriptMismatch, match="1 recorded calls"):
        recorded.finish()
    with pytest.raises(ScriptMismatch, match="no unused record"):
        [delta async for delta in recorded.stream(Prompt(HELLO, tools=[ToolSpec(name="t")]))]


def test_a_damaged_recording_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"model": 1}\n', encoding="utf-8")
    with pytest.raises(ScriptMismatch, match=r"line 1 of calls\.jsonl"):
        RecordedModel(path)


async def test_the_fake_clock_wakes_sleepers_in_the_order_of_their_time() -> None:
    clock, woken = FakeClock(), list[tuple[str, float]]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    start = clock.now()
    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 9), ("soon", 2), ("now", 0)):
            group.create_task(sleeper(name, seconds))
        await clock.advance(5)
        assert woken == [("now", 0), ("soon", 2)]
        assert clock.sleepers == 1
        await clock.advance(5)
    assert woken[2:] == [("late", 9)]
    assert clock.now() - start == timedelta(seconds=10)


async def test_fake_tools_fail_and_wait_as_told() -> None:
    clock = FakeClock()
    tools = FakeTools(FakeTool("t", [ToolBusy("later"), 1, 2], delay=3), clock=clock)
    call = asyncio.ensure_future(tools.call("t", {"a": 1}, Call(key="k")))
    await clock.advance(1)
    assert clock.sleepers == 1
    await clock.advance(2)
    with pytest.raises(ToolBusy):
        await call
    for expected in (1, 2, 2):
        call = asyncio.ensure_future(tools.call("t", {}, Call(key="k")))
        await clock.advance(3)
        assert await call == expected
    assert [(each.tool, each.key) for each in tools.calls] == [("t", "k")] * 4
