"""Tells clients that planning failed, why, and whether a plan only stands in for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from plansmith.app import Plansmith
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.planning_events import PlanningFailed
from plansmith.plan.run import Run
from plansmith.planner.fallback import stands_in

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
    wrote = calls[-1] if calls else {}
    output = str(wrote.get("text") or "")[:_MOST_TEXT]
    return {"reason": last.reason, "model": str(wrote.get("model") or ""), "output": output}
