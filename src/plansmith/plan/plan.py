"""The plan: goal, steps, and the hash of what would run."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import Field

from plansmith.plan.data import Flag, Json, Record, Whole, content_hash
from plansmith.plan.steps import AnyStep, MapStep, Step, StepFields, Text
from plansmith.plan.timing import Timing

SCHEMA_VERSION: Final = 1
MAX_STEPS: Final = 10_000
PROSE: Final = frozenset({"title", "why"})
_NOT_HASHED: Final = PROSE | {"after"}


class Plan(Record):
    """The steps for a goal, as a graph."""

    schema_version: Whole = Field(default=SCHEMA_VERSION, ge=1)
    id: Text | None = None
    revision: Whole = Field(default=1, ge=1)
    goal: Text = ""
    locale: Text = "en"
    thought: Text = ""
    assumptions: tuple[Text, ...] = ()
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()
    enough_context: Flag = False
    degraded: Text | None = None
    schedule: Timing | None = None

    @property
    def hash(self) -> str:
        """The hash that approvals refer to; computed each time, since inputs are plain dicts."""
        return plan_hash(self)

    @cached_property
    def by_id(self) -> dict[str, AnyStep]:
        """The steps by id; when two have the same id, the first."""
        table: dict[str, AnyStep] = {}
        for step in self.steps:
            table.setdefault(step.id, step)
        return table

    def to_json(self) -> dict[str, Json]:
        """Returns the plan as JSON, version and goal first, without default values."""
        value: dict[str, Json] = {"schema_version": self.schema_version, "goal": self.goal}
        value |= self.model_dump(mode="json", exclude_defaults=True, exclude={"steps"})
        value["steps"] = [step.to_json() for step in self.steps]
        return value


def plan_hash(plan: Plan) -> str:
    """Hashes what would run: steps, arguments, order and schedule, but not descriptions.

    Fields at their default are left out, so that a field added to the language later does
    not change the hash of a plan approved earlier.
    """
    steps = sorted((_substance(step) for step in plan.steps), key=lambda each: str(each["id"]))
    schedule = plan.schedule.to_json() if plan.schedule else None
    return content_hash({"plansmith": plan.schema_version, "steps": steps, "schedule": schedule})


def _substance(step: StepFields) -> dict[str, Any]:
    needs: dict[str, Any] = {"needs": sorted(step.needs())}
    own = {name: value for name, value in step.to_json().items() if name not in _NOT_HASHED}
    return own | needs | ({"each": _substance(step.each)} if isinstance(step, MapStep) else {})
