"""The plan format of Spring AI Alibaba's deepresearch: DeerFlow's with parallel research."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from typing import Final, cast

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith_compat.deerflow.dialect import Manner, is_work, read_research, write_research
from plansmith_compat.deerflow.dialect import recognises as is_research
from plansmith_compat.deerflow.dialect import schema as research_schema
from plansmith_compat.reading import names_of
from plansmith_planner.dialect import Dialect, in_order
from plansmith_planner.parse.habits import Notes, with_notes

MANNER: Final = Manner("Spring AI Alibaba's deepresearch", in_turn=False)
_MARKS: Final = frozenset({"hasEnoughContext", "executionRes", "executionStatus"})
_STATUSES: Final = dict.fromkeys(StepStatus, "pending") | {
    StepStatus.RUNNING: "processing",
    StepStatus.ASKING: "waiting",
    StepStatus.UNKNOWN: "waiting",
    StepStatus.DONE: "completed",
    StepStatus.FAILED: "error",
    StepStatus.SKIPPED: "skipped",
    StepStatus.CANCELLED: "cancelled",
}


def recognises(value: Json) -> bool:
    """Whether a value is such a plan and not DeerFlow's, which has the same fields."""
    if not is_research(value):
        return False
    steps = value.get("steps") if isinstance(value, dict) else value
    parts: list[Json] = [value, *(steps if isinstance(steps, list) else ())]
    found = [each for each in parts if isinstance(each, dict)]
    return any(each.keys() & _MARKS or "execution_status" in names_of(each) for each in found)


# Researchers work in parallel, processing steps get their results.
read: Final = partial(read_research, MANNER)


def write(plan: Plan, run: Run | None, notes: Notes) -> dict[str, Json]:
    """Writes the plan in this format, with status and result of each step."""
    value = write_research(MANNER, plan, run, notes)
    work = [step for step in in_order(plan) if is_work(step)]
    for step, fields in zip(work, cast("list[dict[str, Json]]", value["steps"]), strict=True):
        state = run.steps.get(step.id, StepState()) if run else StepState()
        # Its Java class has these two fields in camel case, unlike the others.
        fields["executionRes"] = fields.pop("execution_res")
        fields["executionStatus"] = _STATUSES[state.status]
    return value


_PROMPT: Final = files("plansmith_compat.spring") / "prompts" / "deepresearch.md"
_PARTS: Final = ("deepresearch", MANNER.title, recognises, read, with_notes(write))
DIALECT: Final = Dialect(
    *_PARTS, lambda: research_schema() | {"title": "deepresearch plan"}, _PROMPT, turn=None
)
