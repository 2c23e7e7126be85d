"""Warns about changes and conditions of a request that the plan of a model seems to leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plansmith.engine.plan_levels import Known
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.planner.check.conditions import dropped_conditions
from plansmith.planner.check.missing import missing_changes
from plansmith.planner.intent import find_intents


def person_texts(bodies: Sequence[e.AnyBody]) -> Iterator[str]:
    """Yields the request, answers to questions about it, and the changes asked for, in order."""
    about_request: set[str] = set()
    for body in bodies:
        match body:
            case e.RunCreated(request=text) | e.ChangesAsked(text=text):
                yield text
            case e.QuestionAsked() if body.kind == "request":
                about_request.add(body.question)
            case e.QuestionAnswered(question=name, answer=str(text)) if name in about_request:
                yield text
            case _:
                continue


def left_out(bodies: Sequence[e.AnyBody], plan: Plan, known: Known) -> list[Problem]:
    """Returns a warning for each change and condition that the plan seems to leave out.

    Found by words, so a person may be told of them, and nothing may depend on them.
    """
    texts = [*person_texts(bodies)]
    missing = missing_changes(find_intents(*texts), plan, **known)
    return [*missing, *dropped_conditions(texts, plan, known["templates"], known["tools"])]
