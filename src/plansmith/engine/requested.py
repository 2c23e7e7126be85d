"""What a person asked for over the life of a run, and what of it a plan leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from plansmith.engine.journal import Entry
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.planner.check.missing import MISSING, missing_changes
from plansmith.planner.intent import find_intents


def words_of_person(bodies: Sequence[e.AnyBody]) -> Iterator[str]:
    """The request, the answers to questions about it, and the changes asked for, in their order."""
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
    """What the person asked for and no step of the plan does."""
    asked = find_intents(*words_of_person(bodies))
    return missing_changes(asked, plan, tools=tools, agents=agents, templates=templates)


def missing_in(problems: Sequence[Problem]) -> list[str]:
    """What is known to be missing, in words; a person sees it before the plan runs."""
    return [each.message for each in problems if each.code == MISSING]


def refuse_missing(problems: Sequence[Problem]) -> None:
    """Refuse to do again and again, unattended, what was not even planned once."""
    missing = missing_in(problems)
    if missing:
        hint = "ask for a plan that does it first: plansmith changes"
        raise Refused("; ".join(missing), hint=hint)


def asking_about_missing(
    standing: Sequence[Entry], plan: Plan, problems: Sequence[Problem]
) -> list[Entry]:
    """What stands behind a plan, with what the plan leaves out among the reasons to review it.

    What is put forward without a review gets one, unless it runs under an approval it has.
    """
    missing = missing_in(problems)
    bodies = [each[0] if isinstance(each, tuple) else each for each in standing]
    if not missing or any(isinstance(each, e.RunStarted) for each in bodies):
        return list(standing)
    given: Sequence[Entry] = standing or [e.ReviewAsked(hash=plan.hash)]
    return [
        each.replace(reasons=tuple(dict.fromkeys((*missing, *each.reasons))))
        if isinstance(each, e.ReviewAsked)
        else each
        for each in given
    ]
