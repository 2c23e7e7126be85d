"""The last reply of a run: one for all plans, and one from what there is when a step failed."""

from __future__ import annotations

from typing import Any

from tests.flow.smiths import NO_TRIAGE, Script, step

from plansmith import Plansmith, RunStatus
from plansmith.errors import ToolFailed
from plansmith.plan import events as e
from plansmith.plan.limits import Limits
from plansmith.replay.player import replay
from plansmith.runs.replan import Rounds
from plansmith.testing import FakeTool, FakeTools

TWO_ROUNDS = {"max_iterations": 2}


def reply(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "instruction": text}


def plan(*steps: dict[str, Any], enough: bool = False) -> dict[str, Any]:
    return {"goal": "go", "enough_context": enough, "steps": list(steps)}


def smith(*tools: FakeTool, limits: dict[str, Any] | None = None, **options: Any) -> Plansmith:
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
    first = plan(step("a"), reply("r", "Say {{a}}"))
    second = plan(
        step("a"), step("b", inputs={"x": "more"}), reply("r", "Say {{a}} and {{b}}"), enough=True
    )
    planner, writer = scripted(first, second), scripted("Both.")
    app = smith(model=planner, report_model=writer, limits=TWO_ROUNDS)
    run = await app.run((await app.plan("go")).id)
    assert run.status is RunStatus.DONE
    assert await started(app, run) == ["a", "b", "r"]
    assert run.steps["r"].result == "Both."
    assert len(writer.prompts) == 1
    assert (await replay(run.id, app)).identical


async def test_the_held_reply_is_written_when_the_person_wants_no_further_plan(
    scripted: Script,
) -> None:
    first = plan(step("a"), reply("r", "Say {{a}}"))
    second = plan(step("a"), step("b", inputs={"x": "more"}), reply("r", "Say {{a}} and {{b}}"))
    app = smith(model=scripted(first, second), report_model=scripted("Both."), limits=TWO_ROUNDS)
    run = await app.run((await app.plan("go")).id)
    [question] = run.questions
    assert run.steps["r"].status == "ready"
    await app.answer(run.id, question, "stop", by="ada")
    run = await app.run(run.id)
    assert (run.status, run.steps["r"].result) == (RunStatus.DONE, "Both.")


async def test_a_reply_that_another_step_uses_is_not_held_back(scripted: Script) -> None:
    first = plan(
        step("a"),
        reply("r", "Say {{a}}"),
        step("b", inputs={"x": "{{r}}"}),
        reply("s", "Say {{b}}"),
    )
    app = smith(
        model=scripted(first, *["none"] * 3), report_model=scripted("R", "S"), limits=TWO_ROUNDS
    )
    run = await app.run((await app.plan("go")).id)
    assert await started(app, run) == ["a", "r", "b", "s"]


FAILING = plan(
    step("a"), step("f", "flaky"), reply("r", "Compare {{a}} with {{f.text}}."), enough=True
)


def flaky() -> FakeTool:
    return FakeTool("flaky", [ToolFailed("out of order")])


async def test_a_failed_step_without_another_plan_still_gives_a_reply_from_what_there_is(
    scripted: Script,
) -> None:
    writer = scripted("Only a.")
    app = smith(
        flaky(),
        model=scripted(FAILING, *["no plan"] * 3),
        report_model=writer,
        rounds=Rounds(partial_reply=True),
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
    only = plan(step("f", "flaky"), reply("r", "Say {{f}}"), enough=True)
    app = smith(
        flaky(),
        model=scripted(only, *["no plan"] * 3),
        report_model=scripted(),
        rounds=Rounds(partial_reply=True),
    )
    run = await app.run((await app.plan("go")).id)
    assert (run.status, run.steps["r"].status) == (RunStatus.FAILED, "skipped")
