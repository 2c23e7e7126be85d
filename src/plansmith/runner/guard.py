"""Guard: a run that makes the same call with the same outcome again goes in circles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash
from plansmith.plan.plan import Plan
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.runner.units import named_unit, plan_units, resolved

TIMES: Final = 2
_Call = tuple[str, str]


def loop_in(
    events: Iterable[e.Event],
    plan: Plan,
    *,
    results: Mapping[str, Json],
    statuses: Mapping[str, StepStatus],
    templates: Mapping[str, Plan],
) -> str:
    """Why a new plan would only repeat what has been tried, or nothing.

    A step counts when its call, with these very arguments, has ended in the same way twice.
    """
    tried = _outcomes(events, templates)
    for name, unit in plan_units(plan).items():
        if statuses.get(name) is StepStatus.DONE:
            continue
        try:
            call = unit.callee, content_hash(resolved(unit, results))
        except ReferenceFailed:
            continue
        times = max(tried.get(call, Counter()).values(), default=0)
        if times >= TIMES:
            return Sentence("end.circle", callee=unit.callee, count=times)
    return ""


def _outcomes(
    events: Iterable[e.Event], templates: Mapping[str, Plan]
) -> dict[_Call, Counter[str]]:
    """How often each call ended in each way; a map's parts count once a plan."""
    plan: Plan | None = None
    made: dict[str, _Call] = {}
    seen: set[tuple[int, _Call]] = set()
    tried: dict[_Call, Counter[str]] = {}
    revision = 0
    for event in events:
        body = event.body
        if isinstance(body, e.PlanProposed):
            plan, revision = body.plan, revision + 1
        elif isinstance(body, e.StepStarted) and plan is not None and body.inputs:
            unit = named_unit(plan, body.step, templates)
            made[body.step] = (unit.callee if unit else "", body.inputs)
        elif isinstance(body, (e.StepDone, e.StepFailed)) and body.step in made:
            call = made[body.step]
            again = isinstance(body, e.StepFailed) and body.again
            if not again and (revision, call) not in seen:
                seen.add((revision, call))
                outcome = body.result if isinstance(body, e.StepDone) else body.error
                tried.setdefault(call, Counter())[outcome] += 1
    return tried
