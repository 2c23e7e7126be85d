"""Replan: what a planner is told of a run that went wrong, and what becomes of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.events import AnyBody, StepReset
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.steps import ToolStep

_WHY = {
    "tool": "the tool failed",
    "time": "it took too long",
    "reference": "a value it needs was not there",
    "result": "its result was not usable",
    "person": "a person says it did not happen",
    "": "it did not finish",
}
_AGAIN = frozenset({StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})


def failed_steps(run: Run) -> list[str]:
    """The steps of the plan that failed."""
    return [
        name
        for name, step in run.steps.items()
        if step.status is StepStatus.FAILED and "/" not in name
    ]


def account(run: Run, specs: Mapping[str, ToolSpec]) -> str:
    """How each step ended, in our own words: nothing that a tool has said.

    Of results only the fields that the tool's own schema declares are named.
    """
    return "\n".join(
        json.dumps(_line(name, run, specs), ensure_ascii=False)
        for name in run.steps
        if "/" not in name
    )


def _line(name: str, run: Run, specs: Mapping[str, ToolSpec]) -> dict[str, Json]:
    state = run.steps[name]
    line: dict[str, Json] = {"step": name, "status": state.status.value}
    if state.status in _AGAIN:
        line["why"] = _WHY[state.error_kind]
    step = run.plan.by_id.get(name) if run.plan else None
    spec = specs.get(step.tool) if isinstance(step, ToolStep) else None
    if state.status is StepStatus.DONE and spec is not None and spec.output_schema is not None:
        fields = cast("Mapping[str, Json]", spec.output_schema.get("properties") or {})
        line["gives"] = [*sorted(fields)]
    return line


def keep_finished(run: Run, answer: Plan) -> Plan:
    """The new plan with every finished step exactly as it was: done is done."""
    if run.plan is None:
        return answer
    done = [step for step in run.plan.steps if run.steps[step.id].status is StepStatus.DONE]
    names = {step.id for step in done}
    rest = [step for step in answer.steps if step.id not in names]
    return answer.replace(steps=(*done, *rest), id=run.plan.id, revision=run.plan.revision + 1)


def resets(run: Run) -> Iterator[AnyBody]:
    """Steps that ended without a result go back to waiting, to be tried by the new plan."""
    for name, step in run.steps.items():
        if step.status in _AGAIN:
            yield StepReset(step=name, reason="the plan was revised")
