"""Finds changes and conditions that a person asked for and that the plan of a run leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from plansmith.engine.journal import Entry
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.planner.check.conditions import DROPPED, dropped_conditions
from plansmith.planner.check.missing import MISSING, missing_changes
from plansmith.planner.intent import find_intents


def person_texts(bodies: Sequence[e.AnyBody]) -> Iterator[str]:
    """Yields the request, answers to questions about it, and the changes asked for, in order."""
    about_request: set[str] = set()
    for body in bodies:
        match body:
            case e.RunCreated(request=text) | e.ChangesAsked(text=text):
                yield text
            case e.QuestionAsked() if body.asks == "request":
                about_request.add(body.question)
            case e.QuestionAnswered(question=name, answer=str(text)) if name in about_request:
                yield text
            case _:
                continue


def left_out(
    bodies: Sequence[e.AnyBody],
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> list[Problem]:
    """Returns what the person asked for and the plan leaves out: changes and conditions."""
    texts = [*person_texts(bodies)]
    asked = find_intents(*texts)
    missing = missing_changes(asked, plan, tools=tools, agents=agents, templates=templates)
    return [*missing, *dropped_conditions(texts, plan, templates, tools)]


def missing_in(problems: Sequence[Problem]) -> list[str]:
    """Returns the messages of the problems about missing changes."""
    return [each.message for each in problems if each.code == MISSING]


def refuse_missing(problems: Sequence[Problem]) -> None:
    """Refuses to schedule a plan that does not do all that was asked for."""
    missing = missing_in(problems)
    if missing:
        hint = "first ask for a plan that does it: plansmith changes"
        raise Refused("; ".join(missing), hint=hint)


def asking_about_missing(
    entries: Sequence[Entry], plan: Plan, problems: Sequence[Problem]
) -> list[Entry]:
    """Adds the missing changes and conditions of a plan to the reasons of its review.

    `entries` are the events that follow the plan. A plan without review gets one if a change is
    missing, unless it starts under an approval given before.
    """
    left = [each.message for each in problems if each.code in (MISSING, DROPPED)]
    bodies = [each[0] if isinstance(each, tuple) else each for each in entries]
    if not left or any(isinstance(each, e.RunStarted) for each in bodies):
        return list(entries)
    review = [e.ReviewAsked(hash=plan.hash)] if missing_in(problems) else []
    given: Sequence[Entry] = entries or review
    return [
        each.replace(reasons=tuple(dict.fromkeys((*left, *each.reasons))))
        if isinstance(each, e.ReviewAsked)
        else each
        for each in given
    ]
