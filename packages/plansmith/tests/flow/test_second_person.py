"""Where the settings say so, nobody approves what they asked for or changed last."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.flow.plans import plan

from plansmith import RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import PlansmithError, Refused
from plansmith.plan import events as e
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.plan.timing import Timing
from plansmith.review.settings import ReviewPolicy
from plansmith.testing import FakeClock

ANN = e.Actor(kind="person", name="ann")
ANNS_TOKEN = e.Actor(kind="person", name="ann (token laptop)", user="ann")
ANNS_PROGRAM = e.Actor(kind="program", name="nightly", user="ann")
BOB = e.Actor(kind="person", name="bob (token desk)", user="bob")
CAROL = e.Actor(kind="person", name="carol")
HOURLY = Timing(every_minutes=60)


PAY = plan({"id": "p", "tool": "pay", "inputs": {"to": "x"}})
PAY_MORE = plan({"id": "p", "tool": "pay", "inputs": {"to": "y"}})
LOOK = plan({"id": "l", "tool": "look"})
PAY_FOUND = plan({"id": "l", "tool": "look"}, {"id": "p", "tool": "pay", "inputs": {"to": "{{l}}"}})


class Bank:
    """A Plansmith with a payment, on a store that others may open too."""

    def __init__(self, path: Path, rule: str = "changes", **more: Any) -> None:
        self.paid: list[str] = []
        self.path = path
        self.clock = FakeClock(datetime(2026, 1, 1, 8, tzinfo=UTC))
        self.smith = self.another(rule, **more)

    def another(self, rule: str, **more: Any) -> Plansmith:
        """One more process on the same store, with settings of its own."""

        @tool(effect="final")
        def pay(to: str) -> str:
            self.paid.append(to)
            return "paid"

        @tool(effect="read")
        def look() -> str:
            return "mallory"

        return Plansmith(
            store=f"sqlite:///{self.path / 'runs.db'}",
            tools=[pay, look],
            policy=ReviewPolicy.model_validate({"second_person": rule}),
            limits=Limits(first_wait_s=0),
            clock=self.clock,
            **more,
        )


async def approve(smith: Plansmith, run: Run, by: e.Who) -> Run:
    assert run.plan is not None
    return await smith.decide(run.id, approve=run.plan.hash, by=by)


async def refused(smith: Plansmith, run: Run, by: e.Who) -> str:
    with pytest.raises(Refused) as error:
        await approve(smith, run, by)
    return str(error.value)


@pytest.mark.parametrize("asked_by", [ANN, ANNS_TOKEN, ANNS_PROGRAM, "Ann"])
async def test_who_asked_cannot_approve_with_any_token_and_another_user_can(
    tmp_path: Path, asked_by: e.Who
) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        run = await smith.submit(PAY, by=asked_by)
        for own in (ANN, ANNS_TOKEN, "ann", "ANN"):
            assert "another user has to approve" in await refused(smith, run, own)
        assert "A named user" in await refused(smith, run, "")
        assert (await smith.runs.run(run.id)).status is RunStatus.REVIEWING
        await approve(smith, run, BOB)
        assert (await smith.run(run.id)).status is RunStatus.DONE
        assert bank.paid == ["x"]


async def test_who_changed_the_plan_last_cannot_approve_it(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        run = await smith.submit(PAY, by=ANN)
        run = await smith.edit(run.id, PAY_MORE, by=BOB)
        assert "changed this plan last" in await refused(smith, run, BOB)
        assert "asked for this" in await refused(smith, run, ANN)
        run = await smith.runs.editing.undo(run.id, by=CAROL)  # going back is a change too
        assert "changed this plan last" in await refused(smith, run, CAROL)
        await approve(smith, run, BOB)
        assert (await smith.run(run.id)).status is RunStatus.DONE


async def test_the_journal_itself_refuses_an_approval_by_the_same_user(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        run = await smith.submit(PAY, by=ANN)
        journal = await smith.runs.journals.load_verified(run.id)
        approval = e.PlanApproved(hash=PAY.hash)
        for own in (ANN, ANNS_TOKEN, e.Actor(kind="person")):
            with pytest.raises(PlansmithError):
                await journal.append(approval, by=own)
        assert not (await smith.get(run.id)).is_approved


async def test_another_process_with_laxer_settings_cannot_approve_it_either(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        run = await smith.submit(PAY, by=ANN)
    async with bank.another("never") as lax:
        assert "another user" in await refused(lax, run, ANN)
        await approve(lax, run, BOB)


async def test_a_run_that_was_approved_alone_elsewhere_is_asked_again_where_the_rule_holds(
    tmp_path: Path,
) -> None:
    bank = Bank(tmp_path, "never")
    async with bank.smith as lax:
        run = await lax.submit(PAY, by=ANN)
        await approve(lax, run, ANN)
    async with bank.another("changes") as strict:
        again = await strict.runs.run(run.id)
        assert (again.status, bank.paid) == (RunStatus.REVIEWING, [])
        await approve(strict, again, BOB)
        assert (await strict.run(run.id)).status is RunStatus.DONE
        assert bank.paid == ["x"]


async def test_a_repeated_run_is_of_who_repeats_it(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        run = await smith.submit(PAY, by=ANN)
        await approve(smith, run, BOB)
        await smith.run(run.id)
        for who in (ANN, ANNS_PROGRAM):
            again = await smith.runs.editing.rerun(run.id, by=who)
            assert "another user" in await refused(smith, again, ANN)
        again = await smith.runs.editing.retry(run.id, plan=PAY_MORE, by=BOB)
        assert "another user" in await refused(smith, again, BOB)
        assert bank.paid == ["x"]


async def test_consent_is_given_by_another_user_and_refused_by_anybody(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        for answer, by in (("allow", BOB), ("refuse", ANN)):
            run = await smith.submit(PAY_FOUND, by=ANN)
            await approve(smith, run, BOB)
            run = await smith.run(run.id)
            [asked] = run.questions.values()
            assert asked.kind == "consent"
            with pytest.raises(Refused, match="another user"):
                await smith.runs.answer(run.id, asked.question, "allow", by=ANNS_TOKEN)
            journal = await smith.runs.journals.load_verified(run.id)
            body = e.QuestionAnswered(question=asked.question, answer="allow")
            with pytest.raises(PlansmithError):
                await journal.append(body, by=ANN)
            await smith.runs.answer(run.id, asked.question, answer, by=by)
            await smith.run(run.id)
        assert bank.paid == ["mallory"]


async def test_plans_that_only_read_need_a_second_person_only_where_always_is_set(
    tmp_path: Path,
) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        run = await smith.submit(LOOK, by=ANN)
        assert (await smith.run(run.id)).status is RunStatus.DONE
    async with bank.another("always") as strict:
        run = await strict.submit(LOOK, by=ANN)
        assert (await strict.runs.run(run.id)).status is RunStatus.REVIEWING
        await refused(strict, run, ANN)
        await approve(strict, run, BOB)
        assert (await strict.run(run.id)).status is RunStatus.DONE


async def test_a_schedule_is_approved_by_another_user_than_who_asked_for_its_run(
    tmp_path: Path,
) -> None:
    bank = Bank(tmp_path)
    async with bank.smith as smith:
        with pytest.raises(Refused, match="Another user has to schedule"):
            await smith.schedules.create(plan=PAY, timing=HOURLY, approve=PAY.hash, by=BOB)
        run = await smith.submit(PAY, by=ANN)
        with pytest.raises(Refused, match="another user"):
            await smith.schedules.create(run=run.id, timing=HOURLY, approve=PAY.hash, by=ANNS_TOKEN)
        made = await smith.schedules.create(run=run.id, timing=HOURLY, approve=PAY.hash, by=BOB)
        assert (made.by, made.approved_by) == ("ann", "bob (token desk)")
        with pytest.raises(Refused, match="Another user has to schedule"):
            await smith.schedules.change(made.id, plan=PAY_MORE, approve=PAY_MORE.hash, by=BOB)
        await smith.schedules.fire_now(made.id)
        await smith.schedules.carried()
        assert bank.paid == ["x"]


async def test_a_schedule_that_one_user_made_alone_waits_where_the_rule_holds_now(
    tmp_path: Path,
) -> None:
    bank = Bank(tmp_path, "never")
    async with bank.smith as lax:
        made = await lax.schedules.create(plan=PAY, timing=HOURLY, approve=PAY.hash, by=ANNS_TOKEN)
    async with bank.another("changes") as strict:
        fire = await strict.schedules.fire_now(made.id)
        await strict.schedules.carried()
        run = await strict.get(fire.run)
        assert (run.status, bank.paid) == (RunStatus.REVIEWING, [])
        await refused(strict, run, ANN)
        await approve(strict, run, BOB)
