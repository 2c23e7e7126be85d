"""Holds runs to the rule of the second person, as the settings and the run say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plansmith.engine.given_values import given_values
from plansmith.errors import Refused
from plansmith.plan.run_options import NO_OPTIONS
from plansmith.plan.second_person import grants, stricter, why_not
from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.events import Actor, QuestionAsked
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import RunOptions
    from plansmith.review.settings import ReviewPolicy


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
