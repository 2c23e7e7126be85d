"""Tells clients what a plan is: its rules in words, whether it stands in, why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from plansmith.app import Plansmith
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.planning import stands_in
from plansmith.plan.planning_events import PlanningFailed
from plansmith.plan.rule_text import rule_sentences
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep

_MOST_TEXT: Final = 20_000


async def planning_view(smith: Plansmith, run: Run, events: Sequence[e.Event]) -> dict[str, Json]:
    """Returns whether the plan stands in for one that could not be made, and the last failure."""
    placeholder = run.plan is not None and stands_in(run.plan, run.metrics)
    return {"stand_in": placeholder, "failure": await _failure(smith, events)}


async def _failure(smith: Plansmith, events: Sequence[e.Event]) -> Json:
    """Returns why the newest planning gave no plan; None if it gave one."""
    outcomes = (each.body for each in reversed(events))
    kinds = (e.PlanProposed, PlanningFailed)
    last = next((each for each in outcomes if isinstance(each, kinds)), None)
    if not isinstance(last, PlanningFailed):
        return None
    calls = cast("list[dict[str, Json]]", await smith.store.get(last.record) if last.record else [])
    texts = [each for each in calls if each.get("text")] or calls
    wrote = texts[-1] if texts else {}
    output = str(wrote.get("text") or "")[:_MOST_TEXT]
    return {"reason": last.reason, "model": str(wrote.get("model") or ""), "output": output}


def rules_view(plan: Plan | None) -> dict[str, Json]:
    """Returns the rules of each step that has any, as sentences, with those of a map's items."""
    found: dict[str, Json] = {}
    for step in plan.steps if plan else ():
        rules = rule_sentences(step)
        if isinstance(step, MapStep):
            rules += [Sentence("rule.of_item", rule=each) for each in rule_sentences(step.each)]
        if rules:
            found[step.id] = [*rules]
    return found
