"""What a person reads at the end of a run: what failed first, then the answer, and no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plansmith import Plan, Plansmith, tool
from plansmith.errors import ToolFailed
from plansmith.plan.summary import Times, times_of
from plansmith.report.build import load_report
from plansmith.report.html import to_html
from plansmith.report.markdown import answer_markdown, to_markdown
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith_planner.threads.memory import RunDigest, why


@tool(effect="read")
def look(word: str) -> dict[str, Any]:
    """Look up a word."""
    if word == "missing":
        raise ToolFailed("there is no such page")
    return {"word": word, "size_bytes": 4711}


async def outcome(*words: str) -> tuple[str, str, str]:
    steps: list[dict[str, Any]] = [
        {"id": each, "tool": "look", "inputs": {"word": each}} for each in words
    ]
    says = f"The word is {{{{{words[0]}.word}}}}. [step:{words[0]}]"
    steps.append({"id": "say", "instruction": says, "style": "exact"})
    async with Plansmith(tools=[look]) as smith:
        run = await smith.submit(Plan.model_validate({"goal": "Look it up", "steps": steps}))
        run = await smith.run(run.id)
        report = await load_report(smith.store, run.id)
    return answer_markdown(report), to_markdown(report), to_html(report)


async def test_the_outcome_of_a_run_that_did_everything_is_its_answer_alone() -> None:
    short, whole, page = await outcome("tea")
    assert short == "The word is tea.\n"
    assert whole.index("The word is tea.") < whole.index("Everything was done.")
    assert whole.index("Everything was done.") < whole.index("4711")
    assert page.index("The word is tea.") < page.index("Everything was done.")


@pytest.mark.parametrize("words", [("tea", "missing"), ("missing", "tea")])
async def test_the_outcome_of_a_run_with_a_failed_step_begins_with_that(
    words: tuple[str, str],
) -> None:
    short, whole, page = await outcome(*words)
    first = short.splitlines()[0]
    assert first in ("Only part of it was done.", "It failed.") or "fail" in first.lower()
    assert "there is no such page" in short
    assert "4711" not in short
    assert "Everything was done." not in short + whole + page
    if "The word is tea." in whole:
        assert whole.index(first) < whole.index("The word is tea.")


@tool(effect="write")
def keep(word: str) -> dict[str, Any]:
    return {"kept": word, "tags": []}


@tool(effect="read")
def count(word: str | int) -> dict[str, Any]:
    return {"word": word, "count": 4711, "of": 4712}


@pytest.mark.parametrize(
    ("says", "step"),
    [
        ("There are {{b.count}}.", "b"),
        ("There are {{c.word}}.", "a"),
        ("There are 4711 of {{c.of}}. [step:b]", "b"),
    ],
)
async def test_why_names_the_step_that_an_answer_was_made_of(says: str, step: str) -> None:
    steps: list[dict[str, Any]] = [
        {"id": "a", "tool": "count", "inputs": {"word": "x"}},
        {"id": "b", "tool": "count", "inputs": {"word": "y"}, "after": ["a"]},
        {"id": "c", "tool": "count", "inputs": {"word": "{{a.count}}"}, "after": ["b"]},
        {"id": "say", "instruction": says, "style": "exact"},
    ]
    async with Plansmith(tools=[count]) as smith:
        run = await smith.submit(Plan.model_validate({"goal": "Count", "steps": steps}))
        run = await smith.run(run.id)
        events = await smith.store.events(run.id)
    reply = why("why 4711?", [RunDigest(run, events)])
    assert reply is not None
    assert reply.step == step
    assert f"step {step} (count)" in reply.text


KEEP_IT = {"tool": "keep", "inputs": {"word": "{{item}}"}}


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "keep", "inputs": {"word": "{{s.word}}"}},
        {"kind": "map", "over": ["{{s.word}}"], "each": KEEP_IT},
    ],
)
async def test_a_call_that_a_person_refused_is_told_as_refused_and_not_planned_again(
    step: dict[str, Any],
) -> None:
    first = {"id": "s", "tool": "look", "inputs": {"word": "tea"}}
    plan = Plan.model_validate({"goal": "Keep it", "steps": [first, {"id": "k", **step}]})
    async with Plansmith(tools=[look, keep], model=ScriptedModel([])) as smith:
        run = await smith.submit(plan)
        await smith.decide(run.id, approve=plan.hash, by="ann")
        run = await smith.run(run.id)
        [question] = run.questions
        await smith.answer(run.id, question, "refuse", by="ann")
        run = await smith.run(run.id)
        report = await load_report(smith.store, run.id)
    assert run.status == "partly_done"
    assert run.reason.startswith("refused by a person: k")
    assert run.replans == 0
    assert "`k` refused" in to_markdown(report)
    assert "`k` failed" not in to_markdown(report)


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_the_time_in_which_a_process_was_dead_is_not_the_time_of_a_step(effect: Any) -> None:
    clock, store = FakeClock(), MemoryStore()
    began, hangs = asyncio.Event(), [True, False]

    @tool(effect=effect)
    async def work() -> str:
        began.set()
        if hangs.pop(0):
            await asyncio.Event().wait()  # its process dies meanwhile
        return "worked"

    plan = Plan.model_validate({"goal": "Work", "steps": [{"id": "w", "tool": "work"}]})
    dead = Plansmith(tools=[work], store=store, clock=clock)
    run = await dead.submit(plan)
    if run.status == "reviewing":
        await dead.decide(run.id, approve=plan.hash, by="ann")
    running = asyncio.create_task(dead.run(run.id))
    await began.wait()
    await dead.close()
    await asyncio.gather(running, return_exceptions=True)
    await clock.advance(3600)
    async with Plansmith(tools=[work], store=store, clock=clock) as smith:
        run = await smith.run(run.id)
        if effect == "write":
            await clock.advance(600)
            run = await smith.answer(run.id, "unknown:w", "done", by="ann")
            run = await smith.run(run.id)
        events = await smith.store.events(run.id)
    state = run.steps["w"]
    assert (run.status, state.finished_at) == ("done", state.started_at)
    assert times_of(events) == Times(waiting=600.0 if effect == "write" else 0.0)
