"""Reflection: a result is judged once, done once more at most, and the better one counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from plansmith.errors import InputNeeded, Misconfigured, ModelFailed, ToolFailed
from plansmith.plan.capability import AgentSpec, Effect
from plansmith.plan.data import Json
from plansmith.ports import Call, Reply, Usage
from plansmith.testing import Answer, ScriptedModel
from plansmith.testing.fakes import FakeClock
from plansmith_desk.agents.reflecting import FIRST_TRY, Reflecting

FIRST: Json = {"text": "Two bridges.", "files": [{"name": "a.png", "base64": "eHh4"}], "notes": []}
SECOND: Json = {"text": "Three bridges.", "files": [], "notes": []}
SHORT: Json = {"score": 4, "missing": ["the third bridge"]}
ENOUGH: Json = {"score": 8, "missing": ["a nicer style"]}


@dataclass
class Worker:
    """An agent that hands over what it was given to hand over, or fails with it."""

    results: list[Any]
    effect: Effect = Effect.READ
    calls: list[tuple[str, Mapping[str, Json], Call]] = field(
        default_factory=list[tuple[str, Mapping[str, Json], Call]]
    )

    @property
    def spec(self) -> AgentSpec:
        return AgentSpec(name="worker", effect=self.effect)

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        self.calls.append((task, inputs, call))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[no-any-return]


async def work(worker: Worker, *answers: Any, **call: Any) -> Any:
    model = ScriptedModel(*answers)
    agent = Reflecting(agent=worker, model=model)
    result = await agent.work("Name the bridges.", {"city": "Oslo"}, Call(key="k", **call))
    model.finish()
    return result


async def test_a_result_that_is_good_enough_stands_as_it_is() -> None:
    worker = Worker([FIRST])
    spent: list[Usage] = []
    assert await work(worker, Answer(ENOUGH, usage=Usage(9, 1)), spend=spent.append) == FIRST
    assert len(worker.calls) == 1
    assert spent == [Usage(9, 1)]


async def test_one_that_falls_short_is_done_once_more_with_what_is_missing() -> None:
    worker = Worker([FIRST, SECOND])
    progress: list[str] = []
    result = await work(worker, SHORT, ENOUGH, progress=progress.append)
    assert result["text"] == "Three bridges."
    assert "at first this was missing: the third bridge" in result["notes"][0]
    task, inputs, call = worker.calls[1]
    assert task.startswith("Name the bridges.")
    assert inputs["city"] == "Oslo"
    first: Any = inputs[FIRST_TRY]
    assert first["missing"] == ["the third bridge"]
    assert first["result"]["files"] == ["a.png"]
    assert call.key != "k"
    assert "the third bridge" in progress[0]


@pytest.mark.parametrize("other", [{"score": 2, "missing": ["all"]}, Answer(ModelFailed("gone"))])
async def test_a_second_result_that_is_worse_or_not_judged_does_not_count(other: Any) -> None:
    result = await work(Worker([FIRST, SECOND]), SHORT, other)
    assert result["text"] == "Two bridges."
    assert "no better" in result["notes"][0]


@pytest.mark.parametrize(
    "failure", [ToolFailed("broken"), InputNeeded("Which city?"), ValueError("a bug")]
)
async def test_a_second_try_that_fails_leaves_the_first_result(failure: Exception) -> None:
    result = await work(Worker([FIRST, failure]), SHORT)
    assert result["text"] == "Two bridges."
    assert "second try failed" in result["notes"][0]


@pytest.mark.parametrize(
    "judgement",
    [
        Answer(ModelFailed("down")),
        "It is fine.",
        {"score": 11, "missing": []},
        {"score": "4", "missing": ["x"]},
        {"score": 1, "missing": [" "]},
    ],
)
async def test_a_reflection_that_fails_changes_nothing(judgement: Any) -> None:
    worker = Worker([FIRST])
    assert await work(worker, judgement) == FIRST


async def test_the_answer_of_a_person_is_for_the_first_try_alone() -> None:
    worker = Worker([FIRST, SECOND])
    await work(worker, SHORT, ENOUGH, reply=Reply("Oslo"))
    assert [each[2].reply for each in worker.calls] == [Reply("Oslo"), None]


async def test_a_second_try_has_only_the_time_that_is_left() -> None:
    clock = FakeClock()

    class Slow(Worker):
        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            if not self.calls:
                await clock.sleep(200)
                return await super().work(task, inputs, call)
            return await asyncio.Future[Json]()

    model = ScriptedModel(SHORT)
    agent = Reflecting(agent=Slow([FIRST]), model=model, seconds=240, clock=clock)
    work = asyncio.ensure_future(agent.work("Name the bridges.", {}, Call(key="k")))
    await clock.advance(200)
    await clock.advance(40)
    result: Any = await work
    assert "no answer within 40 s" in result["notes"][0]


def test_an_agent_that_changes_things_is_not_asked_twice() -> None:
    with pytest.raises(Misconfigured, match="changes things"):
        Reflecting(agent=Worker([], effect=Effect.WRITE), model=ScriptedModel())
