"""Approval crossed with skips, edits, repeated runs, equal questions and tools that change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.flow.plans import answered, approve, step
from tests.flow.test_approval_covers import (
    FAILS,
    PAY,
    Script,
    approved,
    decided,
    draft,
    effects,
    plan_of,
    reasons,
    smith,
)

from plansmith import Effect, Plan, RunStatus
from plansmith.errors import OutcomeUnknown, Refused, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.run import StepStatus
from plansmith.plan.run_options import RunOptions
from plansmith.review.settings import ReviewPolicy
from plansmith.runs.intake import NewRun
from plansmith.runs.template_book import TemplateBook
from plansmith.testing import FakeTool, MemoryStore


def ask(name: str, text: str = "Go on?", **fields: Any) -> dict[str, Any]:
    return {"id": name, "question": text} | fields


# Questions


BOB = step("b", "pay", inputs={"to": "bob"}, after=["q2"])
# What acts behind two equal questions, what a new plan makes of it, and why that is asked about.
EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the answer to the first for the second": (
        BOB,
        BOB | {"after": ["q1", "f"]},
        "no longer asks 'How much?' before pay",
    ),
    "the value of the first for the second": (
        BOB | {"inputs": {"to": "bob", "amount": "{{q2}}"}},
        BOB | {"inputs": {"to": "bob", "amount": "{{q1}}"}},
        "instead of",
    ),
}


@pytest.mark.parametrize("name", EQUAL)
async def test_a_replan_cannot_take_the_answer_to_an_equal_question(
    scripted: Script, name: str
) -> None:
    acts, other, why = EQUAL[name]
    asked = (ask("q1", "How much?"), step("f", "shaky", after=["q1"]))
    second = ask("q2", "How much?", after=["f"])
    kept = (second,) if "q2" in other["after"] else ()
    shaky = FakeTool("shaky", [ToolFailed("no"), "ok"])
    model = scripted(draft(*asked, second, acts), draft(*asked, *kept, other))
    app, tools = smith(shaky, model=model)
    run = await approved(app)
    run = await answered(app, run, "q1", "yes")
    assert run.status is RunStatus.REVIEWING
    assert why in await reasons(app, run)
    assert effects(tools) == []


# Steps that were left out


@pytest.mark.parametrize("name", ["again", "p"])
async def test_what_a_person_left_out_stays_out_of_a_replan_whatever_it_is_called(
    scripted: Script, name: str
) -> None:
    pay = PAY | {"after": []}
    first = draft(FAILS, pay, step("n", after=["f"]))
    app, tools = smith(model=scripted(first, draft(pay | {"id": name}, step("n"))))
    run = await app.plan("pay alice", by="ada")
    await approve(app, run)
    await app.runs.skip(run.id, "p", by="ada")
    run = await app.run(run.id)
    if name == "p":
        assert run.status is RunStatus.PARTLY_DONE
        assert run.steps["p"].status is StepStatus.SKIPPED
    else:
        assert run.status is RunStatus.REVIEWING
        assert "which you left out" in await reasons(app, run)
    assert effects(tools) == []


# Tools that are something else by now


async def test_a_tool_that_no_longer_only_reads_is_asked_about_in_a_run_under_way() -> None:
    look = FakeTool("peek")
    app, tools = smith(look)
    run = await app.submit(plan_of(ask("q"), step("x", "peek", after=["q"])), by="ada")
    run = await app.run(run.id)
    look.effect = Effect.FINAL
    run = await answered(app, run, "q", "yes")
    assert run.status is RunStatus.REVIEWING
    assert effects(tools, "peek") == []
    assert (await decided(app, run)).status is RunStatus.DONE
    assert len(effects(tools, "peek")) == 1


# Effects that were made already

FREE = ReviewPolicy(never_for=("pay", "send"))


async def test_an_edit_that_names_a_made_call_anew_is_asked_about_whatever_is_never_asked() -> None:
    app, tools = smith(policy=FREE)
    pay = step("p", "pay", inputs={"to": "alice"})
    run = await app.submit(plan_of(pay, ask("q", after=["p"])), by="ada")
    run = await app.run(run.id)
    run = await app.edit(run.id, plan_of(pay | {"id": "p2"}, ask("q", after=["p2"])), by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.REVIEWING
    assert "was made already" in await reasons(app, run)
    assert len(effects(tools)) == 1


async def test_continuing_asks_before_it_does_again_what_was_done_in_part() -> None:
    send = FakeTool("send", ["ok", ToolFailed("full"), "ok"], effect=Effect.WRITE)
    app, tools = smith(send, policy=FREE)
    each = {"tool": "send", "inputs": {"to": "{{item}}"}}
    many = {"id": "m", "over": ["ann", "bob"], "each": each, "width": 1}
    first = await app.submit(plan_of(many), by="ada")
    first = await app.run(first.id)
    assert first.status is RunStatus.PARTLY_DONE
    again = await app.retry(first.id, by="ada")
    again = await app.runs.run(again.id)
    assert again.status is RunStatus.REVIEWING
    assert "m (1 of its 2 parts) was done" in await reasons(app, again)
    assert len(effects(tools, "send")) == 2
    edited = await app.edit(again.id, plan_of(many, step("x")), by="ada")
    assert "m (1 of its 2 parts) was done" in await reasons(app, edited)
    back = await app.runs.editing.undo(again.id, by="ada")
    assert "m (1 of its 2 parts) was done" in await reasons(app, back)


# Answers that say no

PAYS = step("p", "pay", inputs={"to": "alice"}, after=["q"])
USE = plan_of({"id": "t", "template": "transfer"})
NO: list[Any] = ["no", "Cancel", "不要", False]
NOT_YES = [
    *("No, thanks.", "don't", "do not pay", "Please do not pay", "please don't", "absolutely not"),
    *(
        "请不要付款",
        "我不同意",
        "先别付",
        "“no”",
        "\u200bno",
        "ＮＯ",
        "nah",
        "wait",
        "I refuse",
        "false",
    ),
]


@pytest.mark.parametrize("answer", NO)
@pytest.mark.parametrize("inside", [False, True])
async def test_who_answers_no_to_the_question_before_an_effect_prevents_it(
    answer: Any, inside: bool
) -> None:
    transfer = plan_of(ask("q", "Really pay?"), PAYS, goal="transfer")
    app, tools = smith(templates={"transfer": transfer})
    run = await decided(app, await app.submit(USE if inside else transfer, by="ada"))
    [question] = run.questions
    await app.answer(run.id, question, answer, by="ada")
    again, _ = smith(templates={"transfer": transfer}, store=app.store)
    run = await again.run(run.id)
    assert run.status.over
    assert run.status not in (RunStatus.DONE, RunStatus.PARTLY_DONE)
    assert f"left out by a person: {question}" in run.reason
    assert effects(tools) == []


@pytest.mark.parametrize("answer", NOT_YES)
async def test_nothing_but_a_clear_yes_lets_the_effect_happen(answer: str) -> None:
    app, tools = smith()
    run = await decided(app, await app.submit(plan_of(ask("q", "Really pay?"), PAYS), by="ada"))
    with suppress(Refused):
        await app.answer(run.id, "q", answer, by="ada")
    await app.run(run.id)
    assert effects(tools) == []


@pytest.mark.parametrize("answer", ["yes", "Go ahead, please!", "ok", "同意", True])
async def test_who_answers_yes_lets_the_effect_happen(answer: Any) -> None:
    app, tools = smith()
    run = await decided(app, await app.submit(plan_of(ask("q", "Pay?"), PAYS), by="ada"))
    assert (await answered(app, run, "q", answer)).status is RunStatus.DONE
    assert len(effects(tools)) == 1


async def test_a_no_is_a_value_where_the_effect_works_with_it_or_only_reads_follow() -> None:
    app, tools = smith()
    tip = ask("q", "A tip?", options=["yes", "no"])
    pays = step("p", "pay", inputs={"to": "alice", "tip": "{{q}}"})
    run = await decided(app, await app.submit(plan_of(tip, pays), by="ada"))
    assert (await answered(app, run, "q", "no")).status is RunStatus.DONE
    assert effects(tools) == [{"to": "alice", "tip": "no"}]
    run = await app.submit(plan_of(tip, step("x", after=["q"])), by="ada")
    run = await app.run(run.id)
    assert (await answered(app, run, "q", "no")).status is RunStatus.DONE


# Steps that are switched off


@pytest.mark.parametrize("inside", [False, True])
async def test_a_question_still_comes_before_what_is_behind_a_step_switched_off(
    inside: bool,
) -> None:
    parts = [
        ask("q", "Really pay?"),
        step("x", after=["q"], disabled=True),
        step("y", after=["x"], disabled=True),
        step("p", "pay", inputs={"to": "alice"}, after=["y"]),
    ]
    transfer = plan_of(*parts, goal="transfer")
    app, tools = smith(templates={"transfer": transfer})
    run = await decided(app, await app.submit(USE if inside else transfer, by="ada"))
    [question] = run.questions
    assert effects(tools) == []
    assert (await answered(app, run, question, "yes")).status is RunStatus.DONE
    assert len(effects(tools)) == 1


# Templates that are saved anew


async def test_a_revision_may_keep_the_version_of_a_template_that_was_approved(
    scripted: Script,
) -> None:
    pay = step("pay", "pay", inputs={"to": "alice"})
    use = {"id": "t", "template": "transfer", "after": ["f"]}
    kept = use | {"template": "transfer@1", "after": []}
    app, tools = smith(model=scripted(draft(FAILS, use), draft(kept)))
    book = TemplateBook(app.runs)
    await book.save(Plan.model_validate({"goal": "transfer", "steps": [pay]}), "transfer")
    run = await app.plan("pay alice", by="ada")
    await approve(app, run)
    other = pay | {"inputs": {"to": "mallory"}}
    await book.save(Plan.model_validate({"goal": "transfer", "steps": [other]}), "transfer")
    run = await app.run(run.id)
    assert "no longer waits for flaky()" in await reasons(app, run)
    assert (await decided(app, run)).status is RunStatus.DONE
    assert effects(tools) == [{"to": "alice"}]


async def test_who_wants_to_see_every_plan_is_asked_about_her_own_ones_too_at_once() -> None:
    app, tools = smith()
    options = RunOptions(mode="review")
    journal = await app.runs.create(NewRun("r", plan_of(ask("q")), options=options, by="ada"))
    elsewhere, _ = smith(store=app.store)
    for edited in (None, plan_of(ask("q", "Really?"), step("a")), plan_of(step("b"))):
        if edited is not None:
            await app.edit(journal.id, edited, by="ada")
        # Whoever looks in another process finds a plan to decide on, and no planning that goes on.
        seen = await elsewhere.get(journal.id)
        assert seen.status is RunStatus.REVIEWING
        assert await reasons(elsewhere, seen) == "You wanted to see the plan first"
        assert (await elsewhere.runs.run(journal.id)).status is RunStatus.REVIEWING
    assert tools.calls == []
    run = await decided(elsewhere, await elsewhere.get(journal.id))
    assert run.status is RunStatus.DONE


async def test_repeating_says_what_may_have_taken_effect_before() -> None:
    app, _ = smith(FakeTool("send", [OutcomeUnknown("lost"), "ok"], effect=Effect.WRITE))
    run = await app.submit(plan_of(step("s", "send")), by="ada")
    run = await decided(app, run)
    await app.cancel(run.id, by="ada")
    for verb in (app.retry, app.rerun):
        causes = await reasons(app, await verb(run.id, by="ada"))
        assert f"s may have taken effect in run {run.id} and is done again" in causes


@pytest.mark.parametrize("answer", ["now", "note it", "", None])
async def test_who_answers_neither_yes_nor_no_is_asked_again(answer: Any) -> None:
    app, tools = smith()
    run = await decided(app, await app.submit(plan_of(ask("q", "Pay?"), PAYS), by="ada"))
    with pytest.raises(Refused, match="neither a clear yes nor a clear no"):
        await app.answer(run.id, "q", answer, by="ada")
    assert [*(await app.run(run.id)).questions] == ["q"]
    assert effects(tools) == []


# Endings, order and memory through changes


class Batches(MemoryStore):
    """Remembers what was appended together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Any] = (), **options: Any
    ) -> None:
        await super().append(events, values, **options)
        self.batches.append([event.body.type for event in events])


async def test_what_a_run_leaves_over_and_its_end_are_one_append() -> None:
    store = Batches()
    app, _ = smith(store=store)
    run = await app.submit(plan_of(step("f", "flaky"), step("x", after=["f"])), by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.FAILED
    assert store.batches[-1] == ["step_skipped", "run_finished"]


async def test_an_edit_of_a_revision_still_tells_what_was_made_under_another_name(
    scripted: Script,
) -> None:
    pay = step("p", "pay", inputs={"to": "alice"})
    shaky = FakeTool("shaky", [ToolFailed("no")])
    again = draft(pay | {"id": "again"}, step("n", after=["again"]))
    app, tools = smith(shaky, model=scripted(draft(pay, step("s", "shaky"), ask("q")), again))
    run = await app.plan("pay alice", by="ada")
    run = await decided(app, run)
    run = await app.request_changes(run.id, "otherwise", by="ada")
    assert run.plan is not None
    edited = run.plan.replace(steps=tuple(each for each in run.plan.steps if each.id != "n"))
    run = await app.edit(run.id, edited, by="ada")
    assert "was made already; this would make it again" in await reasons(app, run)
    assert len(effects(tools)) == 1


async def test_a_question_put_before_a_step_in_doubt_holds_what_comes_behind_the_step() -> None:
    app, tools = smith(FakeTool("send", [OutcomeUnknown("lost"), "ok"], effect=Effect.WRITE))
    look = step("n")
    send = step("s", "send", after=["n"])
    pay = step("p", "pay", inputs={"to": "alice"}, after=["s"])
    run = await decided(app, await app.submit(plan_of(look, send, pay), by="ada"))
    assert list(run.questions) == ["unknown:s"]
    guarded = plan_of(ask("q", "Really?"), look | {"after": ["q"]}, send, pay)
    run = await app.edit(run.id, guarded, by="ada")
    await app.answer(run.id, "unknown:s", "done", by="ada")
    run = await decided(app, run)
    assert list(run.questions) == ["q"]
    assert effects(tools) == []
    assert (await answered(app, run, "q", "yes")).status is RunStatus.DONE
    assert len(effects(tools)) == 1


async def test_continuing_a_rejected_revision_tells_what_was_made_under_another_name() -> None:
    pay = step("p", "pay", inputs={"to": "alice"})
    app, tools = smith()
    wanted = plan_of(pay, ask("q"), goal="pay alice")
    run = await decided(app, await app.submit(wanted, by="ada"))
    await app.edit(run.id, plan_of(pay | {"id": "again"}, ask("q"), goal="pay alice"), by="ada")
    await app.decide(run.id, reject=True, by="ada")
    again = await app.retry(run.id, by="ada")
    assert "was made already; this would make it again" in await reasons(app, again)
    assert len(effects(tools)) == 1
