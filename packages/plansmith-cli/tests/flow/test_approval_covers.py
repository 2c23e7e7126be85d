"""What a person approved is what runs: replans by a model that wants something else are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.flow.plans import answered, approve, plan, step

from plansmith import Effect, Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import ModelRefused, OutcomeUnknown, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import ReviewAsked
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.testing import FakeTool, FakeTools, ScriptedModel
from plansmith_planner.settings import PlannerSettings

Script = Callable[..., ScriptedModel]
NO_TRIAGE = PlannerSettings(triage=False)
LIMITS = Limits(first_wait_s=0, data="show")


def draft(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"goal": "pay alice", "steps": list(steps)} | fields


def smith(
    *tools: FakeTool, model: ScriptedModel | None = None, **options: Any
) -> tuple[Plansmith, FakeTools]:
    """A Plansmith with a search, a payment, a file to save, and a read that fails once."""
    model = model or ScriptedModel()  # which fails if it is asked
    source = FakeTools(
        FakeTool("look", [lambda a: {"seen": dict(a), "items": ["alice"]}]),
        FakeTool("pay", effect=Effect.FINAL),
        FakeTool("save", effect=Effect.WRITE),
        FakeTool("flaky", [ToolFailed("no")]),
        *tools,
    )
    app = Plansmith(tools=[source], limits=LIMITS, settings=NO_TRIAGE, model=model, **options)
    return app, source


def plan_of(*steps: dict[str, Any], goal: str = "look around") -> Plan:
    return plan(*steps, goal=goal)


async def decided(app: Plansmith, run: Run) -> Run:
    """The run after a person has approved its plan, and it went on."""
    await approve(app, run)
    return await app.run(run.id)


async def approved(app: Plansmith, request: str = "pay alice") -> Run:
    run = await app.plan(request, by="ada")
    return await (decided(app, run) if run.status is RunStatus.REVIEWING else app.run(run.id))


async def reasons(app: Plansmith, run: Run) -> str:
    asked = [e.body async for e in app.events(run.id) if isinstance(e.body, ReviewAsked)]
    return "\n".join(asked[-1].reasons)


def effects(tools: FakeTools, *names: str) -> list[Any]:
    return [dict(call.arguments) for call in tools.calls if call.tool in (names or ("pay", "save"))]


PAY = step("p", "pay", inputs={"to": "alice", "amount": 10}, after=["f"])
FAILS = step("f", "flaky")
MANY = {"id": "m", "over": ["alice"], "each": step("e", "pay", inputs={"to": "{{item}}"})}
USE = {"id": "t", "template": "transfer", "inputs": {"to": "alice"}, "after": ["f"]}
SURE = {"id": "q", "question": "Really pay?", "after": ["f"]}


def transfer() -> Plan:
    return plan(step("pay", "pay", inputs={"to": "{{params.to}}"}), goal="transfer")


REVISIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "other arguments": (
        draft(FAILS, PAY),
        draft(step("p", "pay", inputs={"to": "mallory", "amount": 9999999})),
        'pay(to="mallory", amount=9999999) instead of pay(to="alice", amount=10)',
    ),
    "another list of a map": (
        draft(FAILS, MANY | {"after": ["f"]}),
        draft(MANY | {"over": ["mallory"]}),
        '["mallory"]',
    ),
    "one more item of a map": (
        draft(FAILS, MANY | {"after": ["f"]}),
        draft(MANY | {"over": ["alice", "alice"]}),
        '["alice", "alice"]',
    ),
    "another parameter of a template": (
        draft(FAILS, USE),
        draft(USE | {"inputs": {"to": "mallory"}, "after": []}),
        'transfer(to="mallory")',
    ),
    "a template inside a map with another parameter": (
        draft(FAILS, {"id": "m", "over": [1], "each": USE | {"after": []}, "after": ["f"]}),
        draft({"id": "m", "over": [1], "each": USE | {"inputs": {"to": "eve"}, "after": []}}),
        'transfer(to="eve")',
    ),
    "a question that is dropped": (
        draft(SURE, FAILS, PAY | {"after": ["f", "q"]}),
        draft(step("p", "pay", inputs={"to": "alice", "amount": 10})),
        "no longer asks 'Really pay?' before pay",
    ),
    "a question that is another one": (
        draft(SURE, FAILS, PAY | {"after": ["f", "q"]}),
        draft({"id": "q", "question": "Nice day?"}, PAY | {"after": ["q"]}),
        "no longer asks 'Really pay?' before pay",
    ),
    "what a reference finds": (
        draft(
            FAILS,
            step("find", inputs={"name": "alice"}, after=["f"]),
            step("p", "pay", inputs={"to": "{{find.seen}}"}),
        ),
        draft(
            step("find", inputs={"name": "mallory"}),
            step("p", "pay", inputs={"to": "{{find.seen}}"}),
        ),
        'with other values than you approved: look(name="mallory") is new',
    ),
    "what a reference to a reference finds": (
        draft(
            FAILS,
            step("find", inputs={"name": "alice"}, after=["f"]),
            step("more", inputs={"of": "{{find.seen}}"}),
            {"id": "m", "over": "{{more.items}}", "each": MANY["each"]},
        ),
        draft(
            step("find", inputs={"name": "mallory"}),
            step("more", inputs={"of": "{{find.seen}}"}),
            {"id": "m", "over": "{{more.items}}", "each": MANY["each"]},
        ),
        'look(name="mallory") is new',
    ),
    "a call made twice": (
        draft(FAILS, PAY),
        draft(PAY | {"after": []}, PAY | {"id": "p2", "after": []}),
        "which you have not approved",
    ),
    "an effect that is dropped": (
        draft(FAILS, PAY, step("s", "save", inputs={"path": "report.md"}, after=["f"])),
        draft(PAY | {"after": []}),
        'no longer calls save(path="report.md"), which you approved',
    ),
    "a read that no longer comes first": (
        draft(FAILS, PAY),
        draft(PAY | {"after": []}),
        "no longer waits for flaky() before pay",
    ),
}


@pytest.mark.parametrize("name", REVISIONS)
async def test_a_replan_that_goes_beyond_the_approval_is_asked_with_the_reason(
    scripted: Script, name: str
) -> None:
    first, second, words = REVISIONS[name]
    app, tools = smith(model=scripted(first, second), templates={"transfer": transfer()})
    run = await approved(app)
    assert run.status is RunStatus.REVIEWING
    assert effects(tools) == []
    assert words in await reasons(app, run)
    assert (await app.run(run.id)).status is RunStatus.REVIEWING
    assert effects(tools) == []


async def test_a_replan_that_makes_a_made_call_again_under_another_name_is_asked(
    scripted: Script,
) -> None:
    find = step("find", inputs={"name": "alice"})
    first = draft(find, FAILS, step("p", "pay", inputs={"to": "{{find.seen}}"}))
    again = step("seek", inputs={"name": "alice"})
    second = draft(again, step("q", "pay", inputs={"to": "{{seek.seen}}"}), step("n"))
    app, tools = smith(model=scripted(first, second))
    run = await approved(app)
    # The payment itself went through beside the read that failed; only the rest is new.
    assert run.status is RunStatus.REVIEWING
    assert "was made already; this would make it again" in await reasons(app, run)
    assert len(effects(tools)) == 1


async def test_what_has_not_happened_yet_may_get_another_name_unasked(scripted: Script) -> None:
    slow = FakeTool("slow", [ToolFailed("no"), ToolFailed("no"), {"ok": 1}])  # first in the preview
    first = draft(
        step("a"), step("s", "slow"), step("p", "pay", inputs={"to": "{{a.seen}}", "for": "{{s}}"})
    )
    second = draft(
        step("b"), step("t", "slow"), step("r", "pay", inputs={"to": "{{b.seen}}", "for": "{{t}}"})
    )
    app, tools = smith(slow, model=scripted(first, second))
    assert (await approved(app)).status is RunStatus.DONE
    assert effects(tools) == [{"to": {}, "for": {"ok": 1}}]


async def test_each_replan_is_compared_with_what_was_approved_last(scripted: Script) -> None:
    reads = [FakeTool(name, [ToolFailed("no")]) for name in ("one", "two")]
    pay = step("p", "pay", inputs={"to": "{{r.seen}}"})
    first = draft(step("a", "one"), step("r", inputs={"n": 1}, after=["a"]), pay)
    second = draft(step("b", "two"), step("r", inputs={"n": 1}, after=["b"]), pay)
    third = draft(step("r", inputs={"n": 2}), pay)
    app, tools = smith(*reads, model=scripted(first, second, third))
    run = await approved(app)
    assert run.status is RunStatus.REVIEWING
    assert run.plan is not None
    assert effects(tools) == []
    run = await decided(app, run)
    assert run.status is RunStatus.REVIEWING
    assert "look(n=2) is new" in await reasons(app, run)
    assert effects(tools) == []


async def test_a_review_of_a_replan_survives_a_restart_and_a_changed_policy(
    scripted: Script,
) -> None:
    app, _ = smith(model=scripted(draft(FAILS), draft(PAY | {"after": []})))
    run = await approved(app)
    again, tools = smith(store=app.store)
    again.runs.intake.policy = again.runs.intake.policy.replace(never_for=("*",))
    await again.runs.resume_all()
    assert (await again.run(run.id)).status is RunStatus.REVIEWING
    assert effects(tools) == []


SAVES = step("s", "save", inputs={"path": "report.md"}, after=["f"])


async def test_a_dropped_effect_ends_partly_done_with_it_as_the_first_line(
    scripted: Script,
) -> None:
    second = draft(step("n"), goal="look around")
    app, tools = smith(model=scripted(draft(FAILS, SAVES, goal="save the report"), second))
    run = await approved(app)
    assert run.status is RunStatus.REVIEWING
    assert run.plan is not None
    assert run.plan.goal == "save the report"
    await approve(app, run)
    again, _ = smith(store=app.store)
    run = await again.run(run.id)
    assert run.status is RunStatus.PARTLY_DONE
    assert effects(tools) == []
    first, _, second_line, *_ = run.report.splitlines()
    assert first == "# save the report"
    assert second_line == 'Not done, although it was approved: save(path="report.md")'
    assert "save" in run.reason


async def test_an_answered_question_need_not_be_asked_again_after_a_replan(
    scripted: Script,
) -> None:
    asked = {"id": "q", "question": "Really pay?"}
    slow = FakeTool("slow", [ToolFailed("no"), {"ok": 1}])
    first = draft(asked, step("s", "slow", after=["q"]), PAY | {"after": ["q", "s"]})
    second = draft(asked, step("t", "slow", inputs={}), PAY | {"after": ["t"]})
    app, tools = smith(slow, model=scripted(first, second))
    run = await approved(app)
    [question] = run.questions
    run = await answered(app, run, question, "yes")
    assert run.status is RunStatus.DONE
    assert len(effects(tools)) == 1


async def test_changes_that_a_model_makes_at_a_wish_ask_about_what_they_drop(
    scripted: Script,
) -> None:
    first = draft(step("a"), {"id": "q", "question": "Really?"}, SAVES | {"after": ["q"]})
    app, tools = smith(model=scripted(first, draft(step("a"), step("b"))))
    run = await approved(app)
    assert run.status is RunStatus.ASKING
    run = await app.request_changes(run.id, "look twice", by="ada")
    assert run.status is RunStatus.REVIEWING
    assert 'no longer calls save(path="report.md")' in await reasons(app, run)
    assert run.drops_in_review == ('save(path="report.md")',)
    assert (await app.run(run.id)).status is RunStatus.REVIEWING
    assert effects(tools) == []
    run = await decided(app, run)
    assert run.status is RunStatus.PARTLY_DONE
    assert 'Not done, although it was approved: save(path="report.md")' in run.report


@pytest.mark.parametrize("paused", [False, True])
async def test_an_edit_of_a_run_under_way_needs_the_approval_of_its_own_hash(paused: bool) -> None:
    source = FakeTools(FakeTool("pay", effect=Effect.FINAL))
    app = Plansmith(tools=[source], limits=LIMITS)
    asked = {"id": "q", "question": "Really?"}
    run = await decided(app, await app.submit(plan(asked, PAY | {"after": ["q"]})))
    if paused:
        await app.pause(run.id, by="ada")
    run = await app.edit(run.id, plan(asked, step("p", "pay", inputs={"to": "mallory"})), by="ada")
    if paused:
        await app.resume(run.id, by="ada")
    for question in run.questions:
        await app.answer(run.id, question, "yes", by="ada")
    again = Plansmith(tools=[source], limits=LIMITS, store=app.store)
    await again.runs.resume_all()
    assert (await again.run(run.id)).status is RunStatus.REVIEWING
    assert source.calls == []
    # Also back at what was approved at first: that approval was for the run as it stood.
    run = await again.runs.editing.undo(run.id, by="ada")
    assert (await again.run(run.id)).status is RunStatus.REVIEWING
    assert source.calls == []


# Templates


async def test_a_template_that_a_program_changes_after_approval_runs_as_it_was_approved() -> None:
    source = FakeTools(FakeTool("pay", effect=Effect.FINAL))
    outer = plan({"id": "in", "template": "transfer", "inputs": {"to": "{{params.to}}"}})
    wanted = plan({"id": "t", "template": "outer", "inputs": {"to": "alice"}})
    app = Plansmith(tools=[source], templates={"transfer": transfer(), "outer": outer})
    run = await app.submit(wanted)
    await approve(app, run)
    evil = plan(step("pay", "pay", inputs={"to": "mallory"}))
    again = Plansmith(tools=[source], templates={"transfer": evil, "outer": outer}, store=app.store)
    run = await again.run(run.id)
    assert run.status is RunStatus.DONE
    assert [dict(call.arguments) for call in source.calls] == [{"to": "alice"}]
    other = await again.submit(wanted)
    assert other.plan is not None
    assert run.plan is not None
    assert other.plan.hash != run.plan.hash


# Maps over what tools found


async def test_a_map_over_what_a_tool_found_asks_before_it_acts_on_more_than_it_may() -> None:
    names: list[Json] = [f"n{number}" for number in range(25)]
    source = FakeTools(FakeTool("find", [{"items": names}]), FakeTool("pay", effect=Effect.FINAL))
    app = Plansmith(tools=[source], limits=LIMITS)
    every = {"id": "m", "over": "{{find.items}}", "each": MANY["each"]}
    run = await app.submit(plan(step("find", "find"), every))
    assert "once for each item of {{find.items}}, at most 20" in await reasons(app, run)
    run = await decided(app, run)
    assert run.status is RunStatus.ASKING
    assert effects(source) == []
    [question] = run.questions.values()
    assert question.kind == "consent"
    assert "25 times" in question.text
    again = Plansmith(tools=[source], store=app.store, limits=LIMITS)
    await again.runs.resume_all()
    assert effects(source) == []
    run = await answered(again, run, question.question, "allow")
    assert run.status is RunStatus.DONE
    assert len(effects(source)) == 25


@pytest.mark.parametrize("most", [30, 3])
async def test_the_number_in_the_map_step_counts_and_a_refused_list_makes_no_call(
    most: int,
) -> None:
    inner = {"id": "m", "over": "{{params.list}}", "each": MANY["each"], "most": most}
    source = FakeTools(
        FakeTool("find", [{"items": list(range(25))}]), FakeTool("pay", effect=Effect.FINAL)
    )
    use = {"id": "t", "template": "every", "inputs": {"list": "{{find.items}}"}}
    app = Plansmith(tools=[source], templates={"every": plan(inner)}, limits=LIMITS)
    run = await app.submit(plan(step("find", "find"), use))
    assert f"at most {most}" in await reasons(app, run)
    run = await decided(app, run)
    if most == 30:
        assert len(effects(source)) == 25
        return
    [question] = run.questions
    run = await answered(app, run, question, "refuse")
    assert run.status is RunStatus.PARTLY_DONE
    assert effects(source) == []


async def test_a_list_that_the_person_has_seen_in_the_plan_is_not_asked_about_again() -> None:
    source = FakeTools(FakeTool("pay", effect=Effect.FINAL))
    app = Plansmith(tools=[source])
    run = await app.submit(plan(MANY | {"over": list(range(40))}))
    assert "once for each of 40 items" in await reasons(app, run)
    assert (await decided(app, run)).status is RunStatus.DONE
    assert len(effects(source)) == 40


# Calls that were made, or may have been


async def test_a_map_that_acted_in_part_is_not_begun_anew_under_another_name(
    scripted: Script,
) -> None:
    paid: list[Any] = []

    def pay(arguments: Any) -> Json:
        if arguments["to"] == "bob":
            raise ToolFailed("nothing was changed")
        paid.append(arguments["to"])
        return "paid"

    every = {"id": "m", "over": ["alice", "bob"], "each": MANY["each"]}
    model = scripted(draft(every), draft(every | {"id": "again"}))
    source = FakeTools(FakeTool("pay", [pay], Effect.FINAL))
    app = Plansmith(tools=[source], limits=LIMITS, settings=NO_TRIAGE, model=model)
    run = await approved(app)
    assert run.status is RunStatus.REVIEWING
    assert "was made already; this would make it again" in await reasons(app, run)
    assert paid == ["alice"]


async def test_the_same_call_written_out_is_known_to_have_been_made(scripted: Script) -> None:
    first = draft(
        step("find", inputs={"name": "alice"}),
        step("p", "pay", inputs={"to": "{{find.seen.name}}"}),
        FAILS | {"after": ["p"]},
    )
    second = draft(step("again", "pay", inputs={"to": "alice"}), step("n"))
    app, tools = smith(model=scripted(first, second))
    run = await approved(app)
    assert run.status is RunStatus.REVIEWING
    assert 'pay(to="alice") was made already; this would make it again' in await reasons(app, run)
    assert effects(tools) == [{"to": "alice"}]


async def test_changes_keep_a_step_of_which_nobody_knows_whether_it_took_effect(
    scripted: Script,
) -> None:
    pay = FakeTool("send", [OutcomeUnknown("the line went dead")], Effect.FINAL)
    first = draft(step("s", "send", inputs={"to": "alice"}), step("a"))
    second = draft(step("other", "send", inputs={"to": "alice"}))
    app, tools = smith(pay, model=scripted(first, second))
    run = await approved(app)
    [question] = run.questions.values()
    assert question.kind == "unknown"
    run = await app.request_changes(run.id, "send it differently", by="ada")
    assert run.plan is not None
    assert "s" in run.plan.by_id
    assert [each.kind for each in run.questions.values()] == ["unknown"]
    assert run.status is not RunStatus.RUNNING
    assert 'send(to="alice") was made already' in await reasons(app, run)
    await app.run(run.id)
    assert len(effects(tools, "send")) == 1


async def test_a_dropped_effect_that_a_person_puts_back_is_no_longer_missed(
    scripted: Script,
) -> None:
    app, tools = smith(model=scripted(draft(FAILS, SAVES), draft(step("n"))))
    run = await approved(app, "save the report as report.md")
    await approve(app, run)
    restored = plan(step("n"), SAVES | {"after": []})
    run = await decided(app, await app.edit(run.id, restored, by="ada"))
    assert run.status is RunStatus.DONE
    assert effects(tools) == [{"path": "report.md"}]


async def test_a_dropped_effect_is_still_missed_when_no_other_plan_is_found(
    scripted: Script,
) -> None:
    app, tools = smith(model=scripted(draft(FAILS, SAVES), draft(step("n")), ModelRefused("no")))
    run = await approved(app)
    assert run.drops_in_review == ('save(path="report.md")',)
    run = await app.request_changes(run.id, "save it after all", by="ada")
    assert run.status is RunStatus.REVIEWING
    assert run.drops_in_review == ('save(path="report.md")',)
    assert (await decided(app, run)).status is RunStatus.PARTLY_DONE
    assert effects(tools) == []
