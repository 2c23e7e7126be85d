"""Approves and rejects plans: an approval is for one hash, by a person who may give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plansmith.engine.answers import ONLY_PERSONS
from plansmith.errors import Misconfigured, Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.runs.answering import need_second_person

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals


async def decide(
    journals: Journals,
    intake: PlanIntake,
    run_id: str,
    *,
    approve: str | None,
    reject: bool,
    by: e.Who,
) -> Journal:
    """Approves the plan with this hash, or rejects the plan; returns the run's journal."""
    if (approve is None) == (not reject):
        raise Misconfigured("decide takes either approve=HASH or reject=True")
    if e.actor(by).kind != "person":
        raise Refused(f"a {e.actor(by).kind} cannot decide on a plan", hint=ONLY_PERSONS)
    journal = await journals.load(run_id)
    run = journal.run
    if not reject:
        journals.require_ours(run)
    plan = plan_to_decide(run, approve)
    if approve is not None:
        need_second_person(run, e.actor(by), intake.policy)
        tools = await intake.definitions(plan, run.templates)
        await append_decision(journal, e.PlanApproved(hash=plan.hash, tools=tools), by=by)
    else:
        ending = e.RunFinished(status="cancelled", reason=Sentence("end.rejected"))
        open_ = [e.QuestionWithdrawn(question=name) for name in run.questions]
        await append_decision(journal, e.PlanRejected(), *open_, ending, by=by)
    return journal


def stale_hash(current: str) -> StaleDecision:
    """Makes the error for the approval of another plan than the current one."""
    hint = Sentence("the plan now has the hash {hash}: review it again", hash=current)
    return StaleDecision(Sentence("this is not the hash of the current plan"), hint=hint)


def plan_to_decide(run: Run, approve: str | None) -> Plan:
    """Returns the plan that waits for a decision; refuses the approval of any other."""
    # The phase, not the status: an open question does not prevent a decision.
    reviewing = run.phase is RunStatus.REVIEWING
    if not reviewing or run.plan is None or run.is_approved:
        approved = reviewing and run.is_approved
        state = Sentence(f"status.{'approved' if approved else run.status}")
        hint = (
            Sentence("plansmith go {run} goes on with it, with the same options", run=run.id)
            if approved
            else ""
        )
        raise StaleDecision(
            Sentence(
                "run {run} does not wait for a decision: it is {state}", run=run.id, state=state
            ),
            hint=hint,
        )
    if run.cancel_asked and approve is not None:
        raise StaleDecision(Sentence("run {run} is being cancelled", run=run.id))
    if approve is not None and approve != run.plan.hash:
        raise stale_hash(run.plan.hash)
    return run.plan


async def append_decision(journal: Journal, *bodies: e.AnyBody, by: e.Who) -> None:
    """Writes a decision; refuses it if someone else changed the run first."""
    try:
        await journal.append(*bodies, by=e.actor(by))
    except StaleWriter:
        raise StaleDecision(
            Sentence("someone else decided about run {run} first", run=journal.id)
        ) from None
