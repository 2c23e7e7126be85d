"""Takes the answers to the questions of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plansmith.engine.answers import ONLY_PERSONS, settle, why_not
from plansmith.engine.given_values import CHANGE, given_values
from plansmith.engine.plan_levels import Known
from plansmith.engine.provenance import ALLOW, is_allowed
from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import content_hash, content_of, need_plain
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.review.settings import ReviewPolicy
from plansmith.runs.approvers import need_second_person

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.data import Json


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
    why = why_not(journal.run, asked, known) if e.actor(by).kind != "person" else ""
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
