"""What the failure of a step means, as its plan says: `on_error`, of the step or of its map."""

from __future__ import annotations

from plansmith.plan.run import Run, StepStatus
from plansmith.plan.step_events import FailureKind
from plansmith.plan.steps import AnyStep, Instead, OnError


def on_error(step: AnyStep, whole: AnyStep | None) -> OnError:
    """Returns what a failure of a step means; a map that collects (`whole`) says it for items."""
    collects = whole is not None and whole.on_error == "collect"
    return "collect" if collects and step.on_error == "fail" else step.on_error


def instead_of_result(
    step: AnyStep, wanted: OnError, error: str, kind: FailureKind
) -> Instead | None:
    """Returns the value that stands in for the result of a failed step, if there is one."""
    if wanted == "collect":
        return Instead(value={"error": {"kind": kind, "message": str(error)}})
    return wanted if isinstance(wanted, Instead) else step.otherwise


def was_refused(run: Run, step: str) -> bool:
    """Whether a step failed only because a person refused its values, or those of its parts."""
    parts = (each for name, each in run.steps.items() if name.startswith(f"{step}/"))
    broken = [each for each in parts if each.status is StepStatus.FAILED] or [run.steps[step]]
    return all(each.error_kind == "refused" for each in broken)
