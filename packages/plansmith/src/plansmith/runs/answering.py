"""Takes the answers to the questions of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from plansmith.engine.answers import ONLY_PERSONS, settle, why_only_persons
from plansmith.engine.provenance import ALLOW, CHANGE, given_values, is_allowed
from plansmith.engine.units import Known, named_unit
from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import content_hash, content_of, need_plain
from plansmith.plan.run import Run
from plansmith.plan.run_options import NO_OPTIONS
from plansmith.plan.second_person import grants, stricter, why_not
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, ToolStep
from plansmith.review.settings import ReviewPolicy

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.data import Json
    from plansmith.plan.events import Actor, QuestionAsked
    from plansmith.plan.run_options import RunOptions, SecondPerson
    from plansmith.ports import PlanStore


async def take_answer(
    journal: Journal,
    question: str,
    value: Json,
    *,
    known: Known,
    policy: ReviewPolicy,
    by: e.Who,
    of: str = "",
) -> e.QuestionAsked:
    """Writes the answer to an open question, which it returns; a second answer is refused."""
    asked = open_question(journal.run, question, of)
    why = why_only_persons(journal.run, asked, known) if e.actor(by).kind != "person" else ""
    if why:
        told = f"{asked.question!r} is not for programs to answer: {why}"
        raise Refused(told, hint=ONLY_PERSONS)
    need_second_person(journal.run, e.actor(by), policy, asked, value)
    need_plain(value)
    # A copy: the caller may change its own later.
    await _append(journal, asked, content_of(value).value(), known=known, by=by)
    return asked


def open_question(run: Run, name: str, of: str = "") -> e.QuestionAsked:
    """Returns a question that waits for its answer.

    Raises:
        StaleDecision: It is not the one with the hash `of`, or its plan is another one now.
    """
    asked = run.questions.get(name)
    if asked is None:
        raise Refused(Sentence("run {run} has no open question '{name}'", run=run.id, name=name))
    if of and of != run.question_hash(name):
        hint = Sentence("look at it again, then decide")
        raise StaleDecision(
            Sentence(
                "the question '{name}', or the plan that it is about, is not the one you saw",
                name=name,
            ),
            hint=hint,
        )
    return asked


async def _append(
    journal: Journal, asked: e.QuestionAsked, value: Json, *, known: Known, by: e.Who
) -> None:
    """Writes an answer, although other steps of the run may go on meanwhile.

    Refuses it if someone else answered the question or changed the plan first.
    """
    plan = journal.plan_hash
    while True:
        answered = e.QuestionAnswered(question=asked.question, answer=_said(asked, value))
        settled = settle(asked, value, run=journal.run, known=known)
        try:
            values = [value, *settled.values]
            await journal.append(answered, *settled.bodies, by=e.actor(by), values=values)
        except StaleWriter:
            await journal.catch_up()
            if journal.run.questions.get(asked.question) != asked or journal.plan_hash != plan:
                why = Sentence("someone else decided about run {run} first", run=journal.id)
                raise StaleDecision(why) from None
        else:
            return


def _said(asked: e.QuestionAsked, value: Json) -> Json:
    """Returns an answer in short: the permit that follows holds what was seen or changed."""
    if asked.kind != "consent" or not is_allowed(value):
        return value
    values = given_values(value)
    return ALLOW if values is None or content_hash(values) == asked.state else CHANGE


def with_rule(options: RunOptions | None, policy: ReviewPolicy) -> RunOptions:
    """Returns the options of a new run with the rule, so that its journal itself keeps it."""
    given = options or NO_OPTIONS
    return given.replace(second_person=stricter(given.second_person, policy.second_person))


def need_second_person(
    run: Run,
    who: Actor,
    policy: ReviewPolicy,
    asked: QuestionAsked | None = None,
    answer: Json = None,
) -> None:
    """Refuses an approval, or such an answer, by who asked for the run or changed its plan last."""
    if asked is not None and not grants(asked, answer):
        return
    if why := why_not(run, who, policy.second_person):
        raise Refused(why, hint=Sentence("Ask somebody with the role approver or admin"))
    rule = stricter(run.options.second_person, policy.second_person)
    if given_values(answer) is not None and rule != "never":
        raise Refused(
            Sentence(
                "Another user has to agree to values of your own, so they have to stand in the plan"
            ),
            hint=Sentence("refuse, or change the plan"),
        )


def may_change_values(run: Run, asked: QuestionAsked, rule: SecondPerson = "never") -> bool:
    """Tells whether a person may give other values instead of those that consent is asked for.

    Not where somebody else has to agree to them; nor for a list: the plan has a place for it.
    """
    if asked.kind != "consent" or run.plan is None:
        return False
    unit = named_unit(run.plan, asked.step or "", run.templates)
    is_call = unit is not None and isinstance(unit.step, ToolStep | AgentStep)
    return is_call and stricter(run.options.second_person, rule) == "never"


async def changed_values(
    store: PlanStore, asked: QuestionAsked, changes: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the values a person saw, with those that the person changed."""
    if asked.kind != "consent":
        raise Refused(
            Sentence("these values cannot be changed here, only in the plan"),
            hint=Sentence("refuse, or change the plan"),
        )
    shown = await store.get(asked.values)
    return {**cast("dict[str, Json]", shown), **changes}


async def consent_values(store: PlanStore, asked: QuestionAsked) -> dict[str, Json] | None:
    """Returns the values of the call that a question asks consent for; None for other ones."""
    if asked.kind != "consent" or not asked.values:
        return None
    values = await store.get(asked.values)
    return values if isinstance(values, dict) else None
