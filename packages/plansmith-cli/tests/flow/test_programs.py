"""A program's word is never a person's: what it may answer, and what its answers may reach."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from tests.flow.plans import approve, approved, plan

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import JournalDamaged, PlansmithError, Refused
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.limits import Limits
from plansmith.plan.timing import Timing
from plansmith.store.memory import MemoryStore
from plansmith.testing import FakeClock, FakeTool, FakeTools

BOT = e.Actor(kind="program", name="MCP client bot")
ASK = {"id": "really", "question": "Really pay?"}
PAY = {"id": "pay", "tool": "pay", "inputs": {"to": "ann"}}
READ = {"id": "read", "tool": "look", "inputs": {"at": "{{really}}"}}


async def test_a_plan_that_a_program_edited_is_the_programs_own() -> None:
    bank = Bank()
    run = await bank.smith.submit(plan(PAY), by="ann")
    await bank.smith.edit(run.id, plan(PAY | {"inputs": {"to": "bob"}}), by=BOT)
    made = [
        e_.body.origin
        for e_ in await bank.store.events(run.id)
        if isinstance(e_.body, e.PlanProposed)
    ]
    assert made == ["submitted", "program"]


class Bank:
    """A Plansmith whose tool pays; `again` is another process on the same store."""

    def __init__(self, *, data: Any = "ask", **options: Any) -> None:
        self.store = MemoryStore()
        self.options = options
        self.data = data
        self.tools = FakeTools(
            FakeTool("look", [lambda given: {"seen": dict(given)}]),
            FakeTool("pay", ["paid"], effect=Effect.FINAL),
        )
        self.smith = self.again()

    def again(self) -> Plansmith:
        limits = Limits(data=self.data, first_wait_s=0)
        self.smith = Plansmith(
            tools=[self.tools], store=self.store, clock=FakeClock(), limits=limits, **self.options
        )
        return self.smith

    @property
    def paid(self) -> list[Any]:
        return [call.arguments for call in self.tools.calls if call.tool == "pay"]

    async def until_asked(self, wanted: Plan) -> str:
        run = await approved(self.smith, wanted, by="ann")
        assert run.status is RunStatus.ASKING
        return run.id


async def test_a_program_cannot_decide_on_a_plan() -> None:
    bank = Bank()
    run = await bank.smith.submit(plan(PAY), by=BOT)
    assert run.plan is not None
    words: list[dict[str, Any]] = [{"approve": run.plan.hash}, {"reject": True}]
    for word in words:
        with pytest.raises(Refused, match="program cannot decide"):
            await bank.smith.decide(run.id, by=BOT, **word)
    assert (await bank.smith.get(run.id)).status is RunStatus.REVIEWING


@pytest.mark.parametrize("kind", get_args(e.QuestionKind))
@pytest.mark.parametrize("who", ["program", "model", "system"])
def test_the_journal_refuses_answers_that_only_a_person_can_give(kind: Any, who: Any) -> None:
    asked = e.QuestionAsked(question="q", text="?", kind=kind)
    answered = e.QuestionAnswered(question="q", answer="allow")
    late = e.QuestionAnswered(question="q", no_answer=True)

    def after(body: e.AnyBody, by: e.Actor) -> Any:
        events: list[e.Event] = []
        for each, actor in (
            (e.RunCreated(request="x"), e.actor("ann")),
            (asked, e.Actor(kind="system")),
            (body, by),
        ):
            last = events[-1] if events else None
            events.append(e.next_event(each, run="r", by=actor, at=FakeClock().now(), last=last))
        return fold(events)

    assert after(answered, e.actor("ann")).questions == {}
    assert after(late, e.Actor(kind="system")).questions == {}
    if kind in ("step", "request"):
        assert after(answered, e.Actor(kind=who)).questions == {}
        return
    with pytest.raises(JournalDamaged, match=f"{who} cannot answer"):
        after(answered, e.Actor(kind=who))
    if who != "system":
        with pytest.raises(JournalDamaged, match=f"{who} cannot answer"):
            after(late, e.Actor(kind=who))


GUARDED = {
    "by reference": plan(ASK, {**PAY, "inputs": {"to": "{{really}}"}}),
    "by order": plan(ASK, {**PAY, "after": ["really"]}),
    "through another step": plan(ASK, READ, {**PAY, "after": ["read"]}),
    "in a map": plan(
        ASK, {"id": "all", "over": ["a", "b"], "each": {"tool": "pay"}, "after": ["really"]}
    ),
    "in a template": plan(ASK, {"id": "sub", "template": "payment", "after": ["really"]}),
    "inside a template": plan({"id": "sub", "template": "guarded"}),
    "inside a template in a map": plan(
        {"id": "all", "over": ["a"], "each": {"template": "guarded"}}
    ),
    "after a template": plan({"id": "sub", "template": "asking"}, {**PAY, "after": ["sub"]}),
    "after a map of templates": plan(
        {"id": "all", "over": ["a"], "each": {"template": "asking"}}, {**PAY, "after": ["all"]}
    ),
    "two templates deep": plan({"id": "sub", "template": "deeper"}, {**PAY, "after": ["sub"]}),
}
TEMPLATES = {
    "payment": plan(PAY),
    "guarded": plan(ASK, {**PAY, "after": ["really"]}),
    "asking": plan(ASK, READ),
    "deeper": plan({"id": "in", "template": "asking"}),
}


@pytest.mark.parametrize("how", GUARDED)
async def test_a_question_that_guards_an_effect_is_for_a_person_at_every_depth(how: str) -> None:
    bank = Bank(templates=TEMPLATES)
    run_id = await bank.until_asked(GUARDED[how])
    [question] = (await bank.smith.get(run_id)).questions
    for smith in (bank.smith, bank.again()):
        with pytest.raises(Refused, match="not for programs"):
            await smith.answer(run_id, question, "yes", by=BOT)
        assert question in (await smith.get(run_id)).questions
    assert bank.paid == []
    assert (await bank.smith.answer(run_id, question, "yes", by="ann")).questions == {}


async def test_a_question_that_nothing_acting_waits_for_is_answered_by_a_program() -> None:
    bank = Bank(templates=TEMPLATES)
    run_id = await bank.until_asked(plan({"id": "sub", "template": "asking"}, PAY))
    [question] = (await bank.smith.get(run_id)).questions
    await bank.smith.answer(run_id, question, "north", by=BOT)
    assert (await bank.smith.run(run_id)).status is RunStatus.DONE
    answered = [
        event
        async for event in bank.smith.events(run_id)
        if isinstance(event.body, e.QuestionAnswered)
    ]
    assert [event.by for event in answered] == [BOT]


async def answered_then_edited(bank: Bank, by: e.Who) -> str:
    """A run whose question is answered, and to which a person then adds a payment to the answer."""
    run_id = await bank.until_asked(plan(ASK, READ))
    await bank.smith.pause(run_id, by="ann")
    await bank.smith.answer(run_id, "really", "mallory", by=by)
    more = plan(ASK, READ, {**PAY, "inputs": {"to": "{{really}}"}})
    run = await bank.smith.edit(run_id, more, by="ann")
    assert run.plan is not None
    await bank.smith.resume(run_id, by="ann")
    await bank.smith.decide(run_id, approve=run.plan.hash, by="ann")
    return run_id


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_programs_answer_reaches_an_effect_like_data_from_a_tool(restarts: bool) -> None:
    bank = Bank()
    run_id = await answered_then_edited(bank, BOT)
    if restarts:
        bank.again()
    run = await bank.smith.run(run_id)
    consent = [each for each in run.questions.values() if each.kind == "consent"]
    assert len(consent) == 1
    assert "mallory" in consent[0].text
    assert "answered by the program 'MCP client bot'" in consent[0].text
    assert bank.paid == []
    with pytest.raises(Refused, match="not for programs"):
        await bank.smith.answer(run_id, consent[0].question, "allow", by=BOT)
    await bank.smith.answer(run_id, consent[0].question, "allow", by="ann")
    await bank.smith.run(run_id)
    assert bank.paid == [{"to": "mallory"}]


async def test_a_persons_answer_needs_no_consent() -> None:
    bank = Bank()
    await bank.smith.run(await answered_then_edited(bank, "ann"))
    assert bank.paid == [{"to": "mallory"}]


async def test_a_repeated_run_remembers_that_a_program_answered() -> None:
    bank = Bank()
    run_id = await bank.until_asked(plan(ASK, READ))
    await bank.smith.answer(run_id, "really", "mallory", by=BOT)
    assert (await bank.smith.run(run_id)).status is RunStatus.DONE
    more = plan(ASK, READ, {**PAY, "inputs": {"to": "{{really}}"}})
    for by in ("ann", BOT):  # also a repeat of the repeat
        again = await bank.smith.retry(run_id, plan=more, by=by)
        assert again.steps["really"].program == "MCP client bot"
        await approve(bank.smith, again, by="ann")
        run = await bank.smith.run(again.id)
        assert [each.kind for each in run.questions.values()] == ["consent"]
        assert bank.paid == []
        await bank.smith.cancel(again.id, by="ann")
        run_id = again.id


async def test_a_program_cannot_make_or_approve_a_schedule() -> None:
    bank = Bank()
    with pytest.raises(PlansmithError, match="program cannot approve"):
        await bank.smith.schedules.create(
            timing=Timing(daily_at="09:00"), plan=plan(PAY), approve=plan(PAY).hash, by=BOT
        )


async def test_a_programs_answer_is_denied_where_data_is() -> None:
    bank = Bank(data="deny")
    run = await bank.smith.run(await answered_then_edited(bank, BOT))
    assert "answered by the program" in run.steps["pay"].error
    assert bank.paid == []
