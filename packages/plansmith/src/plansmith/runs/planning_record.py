"""How planning ended, as events: its exchanges, its failure, the answers that it used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plansmith.engine.progress import spending
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.events import PlanningFailed
from plansmith.plan.problem import Severity
from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    from plansmith.plan.planning import Planned


def recorded_exchanges(planned: Planned) -> list[Json]:
    """Returns the model calls of planning as values to store, at most one."""
    return [[*planned.exchanges]] if planned.exchanges else []


def failure(planned: Planned) -> PlanningFailed:
    """Returns the event of planning that failed, with its reason and cost."""
    record = content_of([*planned.exchanges]).digest if planned.exchanges else ""
    return PlanningFailed(
        reason=why_none(planned),
        problems=tuple(planned.problems),
        record=record,
        **spending(planned.metrics.usage),
    )


def why_none(planned: Planned) -> str:
    """Says why there is no plan, for a person."""
    if planned.plan is not None and planned.plan.degraded:
        return planned.plan.degraded
    worst = sorted(planned.problems, key=lambda each: each.severity is not Severity.ERROR)
    return worst[0].message if worst else planned.reason or Sentence("the model gave none")


def no_plan(planned: Planned) -> e.RunFinished:
    """Returns the end of a run that got no plan."""
    reason = Sentence("end.no_plan", reason=why_none(planned))
    return e.RunFinished(status="failed", reason=reason)


def changes_asked(events: Sequence[e.Event]) -> list[str]:
    """Returns what persons asked to change about the plan of a run, in order."""
    return [event.body.text for event in events if isinstance(event.body, e.ChangesAsked)]


def clarifications_in(events: Sequence[e.Event]) -> list[str]:
    """Returns the questions about the request that were answered, each with its answer."""
    asked: dict[str, str] = {}
    clarifications: list[str] = []
    for event in events:
        body = event.body
        if isinstance(body, e.QuestionAsked) and body.kind == "request":
            asked[body.question] = body.text
        elif isinstance(body, e.QuestionAnswered) and body.question in asked:
            clarifications.append(f"{asked[body.question]}\n{body.answer}")
    return clarifications
