"""Approvals of plans, and answers to the questions of a run: from whom, and for exactly what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from plansmith.engine.answers import ONLY_PERSONS, after_answer, why_only_persons
from plansmith.engine.consent import given_values, read_consent
from plansmith.engine.units import named_unit
from plansmith.errors import Misconfigured, Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import content_hash, content_of, require_json
from plansmith.plan.plan import Plan
from plansmith.plan.question_options import ALLOW, CHANGE, lets_happen
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.second_person import stricter, why_cannot_approve
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.plan.steps import AgentStep, ToolStep
from plansmith.review.settings import ReviewPolicy

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.data import Json
    from plansmith.plan.run_options import SecondPerson
    from plansmith.ports import Store
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals


ASK_ANOTHER: Final = Sentence("Ask somebody with the role approver or admin")


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
    who = e.actor(by)
    if who.kind != "person":
        raise Refused(f"a {who.kind} cannot decide on a plan", hint=ONLY_PERSONS)
    journal = await journals.load_verified(run_id)
    run = journal.run
    if approve is not None:
        journals.require_ours(run)
    plan = _plan_to_decide(run, approve)
    if approve is not None:
        require_second_person(run, who, intake.policy)
        tools = await intake.registry.definitions(plan, run.templates)
        bodies: list[e.AnyBody] = [e.PlanApproved(hash=plan.hash, tools=tools)]
    else:
        withdrawn = [e.QuestionWithdrawn(question=name) for name in run.questions]
        ending = e.RunFinished(status="cancelled", reason=Sentence("end.rejected"))
        bodies = [e.PlanRejected(), *withdrawn, ending]
    try:
        await journal.append(*bodies, by=who)
    except StaleWriter:
        raise _too_late(run_id) from None
    return journal


def _plan_to_decide(run: Run, approve: str | None) -> Plan:
    """Returns the plan that waits for a decision; refuses the approval of any other."""
    # The phase, not the status: an open question does not prevent a decision.
    reviewing = run.phase is RunStatus.REVIEWING
    if not reviewing or run.plan is None or run.is_approved:
        state, hint = Sentence(f"status.{run.status}"), ""
        if reviewing and run.is_approved:
            state = Sentence("status.approved")
            hint = Sentence("plansmith go {run} goes on with it, with the same options", run=run.id)
        why = Sentence(
            "run {run} does not wait for a decision: it is {state}", run=run.id, state=state
        )
        raise StaleDecision(why, hint=hint)
    if run.cancel_asked and approve is not None:
        raise StaleDecision(Sentence("run {run} is being cancelled", run=run.id))
    if approve is not None:
        require_hash(run.plan, approve)
    return run.plan


def require_hash(plan: Plan | None, approve: str | None) -> None:
    """Refuses the approval of another plan than the current one."""
    if plan is None or approve != plan.hash:
        now = plan.hash if plan is not None else "none"
        hint = Sentence("the plan now has the hash {hash}: review it again", hash=now)
        why = Sentence("this is not the hash of the current plan")
        if approve and now.startswith(approve):
            why = Sentence("this is only the beginning of the hash of the current plan")
        raise StaleDecision(why, hint=hint)


def _too_late(run_id: str) -> StaleDecision:
    return StaleDecision(Sentence("someone else decided about run {run} first", run=run_id))


def require_second_person(run: Run, who: e.Actor, policy: ReviewPolicy) -> None:
    """Refuses an approval by who asked for the run or changed its plan last."""
    if why := why_cannot_approve(run, who, policy.second_person):
        raise Refused(why, hint=ASK_ANOTHER)


async def take_answer(
    journal: Journal, intake: PlanIntake, question: str, value: Json, *, by: e.Actor, of: str = ""
) -> e.QuestionAsked:
    """Writes the answer to an open question, which it returns; a second answer is refused.

    Other steps of the run may go on meanwhile.
    """
    run, plan = journal.run, journal.plan_hash
    asked = open_question(run, question, of)
    environment = await intake.registry.environment(run.plan, run.templates)
    if by.kind != "person" and (why := why_only_persons(run, asked, environment)):
        message = f"{asked.question!r} is not for programs to answer: {why}"
        raise Refused(message, hint=ONLY_PERSONS)
    if lets_happen(asked, value):
        require_second_person(run, by, intake.policy)
        rule = stricter(run.options.second_person, intake.policy.second_person)
        own = given_values(value)
        await _require_shown(journal, asked, own or {})
        if own is not None and rule != "never":
            why = Sentence(
                "Another user has to agree to values of your own, so they have to stand in the plan"
            )
            raise Refused(why, hint=Sentence("refuse, or change the plan"))
    require_json(value)
    value = content_of(value).value()  # a copy: the caller may change its own later
    answered = e.QuestionAnswered(question=asked.question, answer=_in_short(asked, value))
    while True:
        after = after_answer(asked, value, run=journal.run, environment=environment)
        try:
            values = [value, *after.values]
            await journal.append(answered, *after.bodies, by=by, values=values)
        except StaleWriter:
            await journal.catch_up()
            if journal.run.questions.get(asked.question) != asked or journal.plan_hash != plan:
                raise _too_late(journal.id) from None
        else:
            return asked


async def _require_shown(journal: Journal, asked: e.QuestionAsked, own: Mapping[str, Json]) -> None:
    """Refuses a person's value under a name that is not among those shown."""
    seen = cast("dict[str, Json]", await journal.value(asked.values)) if own else {}
    for name in own.keys() - seen.keys():
        hint = did_you_mean(name, seen, otherwise=Sentence("there are {names}", names=[*seen]))
        raise Refused(Sentence("no value '{name}' was shown", name=name), hint=hint)


def _in_short(asked: e.QuestionAsked, value: Json) -> Json:
    """Returns an answer in short: the permit that follows holds what was seen or changed."""
    allowed = read_consent(value) if asked.kind == "consent" else None
    if allowed is None:
        return value
    is_same = allowed.values is None or content_hash(allowed.values) == asked.state
    return ALLOW if is_same else CHANGE


def open_question(run: Run, name: str, of: str = "") -> e.QuestionAsked:
    """Returns a question that waits for its answer.

    Raises:
        StaleDecision: It is not the one with the hash `of`, or its plan is another one now.
    """
    asked = run.questions.get(name)
    if asked is None:
        raise Refused(Sentence("run {run} has no open question '{name}'", run=run.id, name=name))
    if of and of != run.question_hash(name):
        why = Sentence(
            "the question '{name}', or the plan that it is about, is not the one you saw", name=name
        )
        raise StaleDecision(why, hint=Sentence("look at it again, then decide"))
    return asked


def may_change_values(run: Run, asked: e.QuestionAsked, rule: SecondPerson = "never") -> bool:
    """Tells whether a person may give other values instead of those that consent is asked for.

    Not where somebody else has to agree to them; nor for a list: the plan has a place for it.
    """
    if asked.kind != "consent" or run.plan is None:
        return False
    unit = named_unit(run.plan, asked.step or "", run.templates)
    is_call = unit is not None and isinstance(unit.step, ToolStep | AgentStep)
    return is_call and stricter(run.options.second_person, rule) == "never"


async def consent_values(store: Store, asked: e.QuestionAsked) -> dict[str, Json] | None:
    """Returns the values of the call that a question asks consent for; None for other ones."""
    if asked.kind != "consent" or not asked.values:
        return None
    values = await store.get(asked.values)
    return values if isinstance(values, dict) else None


async def changed_values(
    store: Store, asked: e.QuestionAsked, changes: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the values a person saw, with those that the person changed."""
    seen = await consent_values(store, asked)
    if seen is None:
        why = Sentence("these values cannot be changed here, only in the plan")
        raise Refused(why, hint=Sentence("refuse, or change the plan"))
    return {**seen, **changes}
