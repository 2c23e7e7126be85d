"""Inspecting: one step, with its arguments, attempts, result, and what models were asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from plansmith.app import Plansmith
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.server.problems import not_found
from plansmith.server.telling import WHOLE, moment, step_view


async def inspected(smith: Plansmith, run_id: str, name: str) -> dict[str, Json]:
    """All that the journal and the store know of a step."""
    journal = await smith.runs.journals.load(run_id)
    events, run = journal.events, journal.run
    state = run.steps.get(name)
    if state is None:
        raise not_found("step", name)
    result = await smith.store.get(state.result_hash) if state.result_hash else None
    inputs = await smith.store.get(state.inputs) if state.inputs else None
    step = _step_of(run.plan, name)
    template = step.get("inputs") if step else None
    return {
        "step": step,
        "state": step_view(state, result, inputs, WHOLE),
        "template_inputs": template,
        "resolved_inputs": inputs,
        "attempts": list(_attempts(run, events, name)),
        "exchanges": await _exchanges(smith, events),
    }


def _step_of(plan: Plan | None, name: str) -> dict[str, Json] | None:
    """The step of the plan that a name is, or is a part of."""
    step = plan.by_id.get(name.split("/", maxsplit=1)[0]) if plan else None
    return step.to_json() if step else None


def _attempts(run: Run, events: Sequence[e.Event], name: str) -> list[Json]:
    """Each call of a step; one that was made early has the times of the early read."""
    found: list[dict[str, Json]] = []
    ended: datetime | None = None
    for event in events:
        match event.body:
            case e.StepStarted(step=step, attempt=attempt, key=key) as body if step == name:
                early = run.prefetches.get(body.prefetched)
                began, ended = (early.started_at, early.ended_at) if early else (event.at, None)
                found.append({"number": attempt, "key": key, "started_at": moment(began)})
                found[-1] |= {"finished_at": None, "error": "", "read_early": early is not None}
            case (
                e.StepDone(step=step)
                | e.StepFailed(step=step)
                | e.StepCancelled(step=step)
                | e.StepUnknown(step=step)
            ) as body if step == name and found:
                found[-1]["finished_at"] = moment(ended or event.at)
                found[-1]["error"] = _error(body)
            case _:
                pass
    return cast("list[Json]", found)


def _error(body: e.StepDone | e.StepFailed | e.StepCancelled | e.StepUnknown) -> str:
    match body:
        case e.StepFailed(error=error):
            return error
        case e.StepCancelled(reason=reason) | e.StepUnknown(reason=reason):
            return reason
        case _:
            return ""


async def _exchanges(smith: Plansmith, events: Sequence[e.Event]) -> list[Json]:
    """What models were asked and said for the plan that stands."""
    records = [
        event.body.record
        for event in events
        if isinstance(event.body, (e.Triaged, e.PlanProposed)) and event.body.record
    ]
    if not records:
        return []
    said = cast("list[dict[str, Json]]", await smith.store.get(records[-1]))
    return [
        {"model": each["model"], "prompt": each["prompt"], "output": each["text"]} for each in said
    ]
