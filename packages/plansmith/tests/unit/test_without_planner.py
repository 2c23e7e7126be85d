"""A Plansmith where no package brings a planner: plans run, words are not guessed at."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.plans import approve

from plansmith import Plansmith, plugins, read_plan, tool
from plansmith.errors import Misconfigured, Refused
from plansmith.plan.run import Run

INSTALL = "pip install packages/* 'plansmith[planner]'"
paid: list[str] = []


@tool
def pay(to: str) -> str:
    paid.append(to)
    return to


@pytest.fixture(autouse=True)
def nothing_else_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_found", dict[str, Any])
    paid.clear()


async def asking(smith: Plansmith, **more: Any) -> Run:
    """A run whose question guards a payment, approved and begun."""
    ask = {"id": "ask", "question": "Pay 10,000?", **more}
    step = {"id": "pay", "tool": "pay", "inputs": {"to": "x"}, "after": ["ask"]}
    run = await approve(smith, await smith.submit(read_plan({"steps": [ask, step]}), by="ann"))
    return await smith.run(run.id)


@pytest.mark.parametrize(("answer", "times"), [("yes", 1), ("Yes ", 1), (True, 1), ("no", 0)])
async def test_a_plan_is_approved_answered_and_run(answer: bool | str, times: int) -> None:
    async with Plansmith(tools=[pay]) as smith:
        run = await asking(smith)
        await smith.answer(run.id, "ask", answer, by="ann")
        assert (await smith.run(run.id)).status.over
    assert len(paid) == times


@pytest.mark.parametrize("answer", ["go ahead", "please do not", "是", "", "yes, but later"])
async def test_other_words_than_yes_and_no_are_asked_again(answer: str) -> None:
    async with Plansmith(tools=[pay]) as smith:
        run = await asking(smith)
        with pytest.raises(Refused, match="neither a clear yes nor a clear no"):
            await smith.answer(run.id, "ask", answer, by="ann")
        assert "ask" in (await smith.run(run.id)).questions
    assert paid == []


async def test_an_option_that_is_no_clear_yes_is_no_permission() -> None:
    async with Plansmith(tools=[pay]) as smith:
        run = await asking(smith, options=["Pay", "Leave it"])
        await smith.answer(run.id, "ask", "Leave it", by="ann")
        assert (await smith.run(run.id)).status.over
    assert paid == []


@pytest.mark.parametrize("name", ["model", "report_model"])
def test_a_model_needs_the_package_that_plans(name: str) -> None:
    given: dict[str, Any] = {name: "rules"}
    with pytest.raises(Misconfigured) as caught:
        Plansmith(**given)
    assert caught.value.hint == INSTALL


async def test_requests_and_conversations_need_it_too() -> None:
    smith = Plansmith(tools=[pay])
    for wanted in (smith.plan("pay x"), smith.thread()):
        with pytest.raises(Misconfigured) as caught:
            await wanted
        assert caught.value.hint == INSTALL


async def test_where_it_is_installed_a_plansmith_without_a_model_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    with pytest.raises(Misconfigured, match="model"):
        await Plansmith(tools=[pay]).plan("pay x")
