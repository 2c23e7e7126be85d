"""The end of a run for a person: one last reply, what failed first, the answer, and no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.flow.smiths import NO_TRIAGE, Script, step

from plansmith import Plan, Plansmith, RunStatus, tool
from plansmith.errors import ToolFailed
from plansmith.plan import events as e
from plansmith.plan.limits import Limits
from plansmith.plan.planning import Times
from plansmith.report.build import load_report
from plansmith.report.markdown import answer_markdown, to_markdown
from plansmith.runs.replan import IterationRules
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore, ScriptedModel
from plansmith_cli.replay import replay
from plansmith_planner.threads.memory import RunDigest, why
from plansmith_server.report_page import to_html


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
    state = run.steps["w"]
    assert (run.status, state.finished_at) == ("done", state.started_at)
    assert run.times == Times(waiting=600.0 if effect == "write" else 0.0)


TWO_ROUNDS = {"max_iterations": 2}


def reply(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "instruction": text}


def drafted(*steps: dict[str, Any], enough: bool = False) -> dict[str, Any]:
    return {"goal": "go", "enough_context": enough, "steps": list(steps)}


def replying(*tools: FakeTool, limits: dict[str, Any] | None = None, **options: Any) -> Plansmith:
    source = FakeTools(FakeTool("look", [lambda a: f"saw {a.get('x', 'it')}"]), *tools)
    given = Limits.model_validate({"first_wait_s": 0} | (limits or {}))
    return Plansmith(tools=[source], limits=given, settings=NO_TRIAGE, **options)


async def started(app: Plansmith, run: Any) -> list[str]:
    return [
        each.body.step async for each in app.events(run.id) if isinstance(each.body, e.StepStarted)
    ]


async def test_one_reply_is_written_for_all_plans_and_only_after_the_last_one(
    scripted: Script,
) -> None:
    first = drafted(step("a"), reply("r", "Say {{a}}"))
    second = drafted(
        step("a"), step("b", inputs={"x": "more"}), reply("r", "Say {{a}} and {{b}}"), enough=True
    )
    planner, writer = scripted(first, second), scripted("Both.")
    app = replying(model=planner, report_model=writer, limits=TWO_ROUNDS)
    run = await app.run((await app.plan("go")).id)
    assert run.status is RunStatus.DONE
    assert await started(app, run) == ["a", "b", "r"]
    assert run.steps["r"].result == "Both."
    assert len(writer.prompts) == 1
    assert (await replay(run.id, app)).identical


async def test_the_held_reply_is_written_when_the_person_wants_no_further_plan(
    scripted: Script,
) -> None:
    first = drafted(step("a"), reply("r", "Say {{a}}"))
    second = drafted(step("a"), step("b", inputs={"x": "more"}), reply("r", "Say {{a}} and {{b}}"))
    app = replying(model=scripted(first, second), report_model=scripted("Both."), limits=TWO_ROUNDS)
    run = await app.run((await app.plan("go")).id)
    [question] = run.questions
    assert run.steps["r"].status == "ready"
    await app.answer(run.id, question, "stop", by="ada")
    run = await app.run(run.id)
    assert (run.status, run.steps["r"].result) == (RunStatus.DONE, "Both.")


async def test_a_reply_that_another_step_uses_is_not_held_back(scripted: Script) -> None:
    first = drafted(
        step("a"),
        reply("r", "Say {{a}}"),
        step("b", inputs={"x": "{{r}}"}),
        reply("s", "Say {{b}}"),
    )
    app = replying(
        model=scripted(first, *["none"] * 3), report_model=scripted("R", "S"), limits=TWO_ROUNDS
    )
    run = await app.run((await app.plan("go")).id)
    assert await started(app, run) == ["a", "r", "b", "s"]


FAILING = drafted(
    step("a"), step("f", "flaky"), reply("r", "Compare {{a}} with {{f.text}}."), enough=True
)


def flaky() -> FakeTool:
    return FakeTool("flaky", [ToolFailed("out of order")])


async def test_a_failed_step_without_another_plan_still_gives_a_reply_from_what_there_is(
    scripted: Script,
) -> None:
    writer = scripted("Only a.")
    app = replying(
        flaky(),
        model=scripted(FAILING, *["no plan"] * 3),
        report_model=writer,
        iterations=IterationRules(partial_reply=True),
    )
    run = await app.run((await app.plan("go")).id)
    assert run.status is RunStatus.PARTLY_DONE
    assert run.steps["r"].result == "Only a."
    assert "Only a." in run.report
    prompt = writer.prompts[0][0].text
    assert "saw it" in prompt
    assert "the step 'f' did not finish" in prompt
    assert "These steps did not finish: f" in prompt
    assert "out of order" not in prompt
    assert await started(app, run) == ["a", "f", "r"]
    assert (await replay(run.id, app)).identical


async def test_no_reply_is_made_up_when_nothing_has_finished(scripted: Script) -> None:
    only = drafted(step("f", "flaky"), reply("r", "Say {{f}}"), enough=True)
    app = replying(
        flaky(),
        model=scripted(only, *["no plan"] * 3),
        report_model=scripted(),
        iterations=IterationRules(partial_reply=True),
    )
    run = await app.run((await app.plan("go")).id)
    assert (run.status, run.steps["r"].status) == (RunStatus.FAILED, "skipped")
