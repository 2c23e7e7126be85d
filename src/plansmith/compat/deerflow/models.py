"""DeerFlow's plan and its steps, as its programs hold them, to and from a plan of ours."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self, cast

from pydantic import BaseModel, ValidationError, model_validator

from plansmith.dialects.deerflow import read, write
from plansmith.errors import InvalidPlan, UnreadableText
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan as CorePlan
from plansmith.plan.run import Run
from plansmith.planner.jsontext.read import read_json


class StepType(StrEnum):
    """Who does a step: the researcher, or for what needs no search the coder."""

    RESEARCH = "research"
    ANALYSIS = "analysis"
    PROCESSING = "processing"


class Step(BaseModel):
    """One step; without a result it is open, and an empty result is a result too."""

    need_web_search: bool
    title: str
    description: str
    step_type: StepType
    execution_res: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _inferred(cls, value: Any) -> Any:
        """A step without a type is research when it needs a search, else processing."""
        if not isinstance(value, dict):
            return value
        fields = dict(cast("dict[str, Any]", value))
        # Newer versions say it in two words.
        if "need_search" in fields:
            fields.setdefault("need_web_search", fields.pop("need_search"))
        if fields.get("step_type"):
            return fields
        search = bool(fields.get("need_web_search"))
        return {**fields, "step_type": StepType.RESEARCH if search else StepType.PROCESSING}

    @property
    def done(self) -> bool:
        """Whether the step has its result."""
        return self.execution_res is not None


class Plan(BaseModel):
    """A plan for a piece of research; `title` is the subject of its report."""

    locale: str = "en-US"
    has_enough_context: bool = False
    thought: str = ""
    title: str = ""
    steps: list[Step] = []

    @property
    def open_steps(self) -> list[Step]:
        """The steps that have no result yet."""
        return [step for step in self.steps if not step.done]

    def to_core(self) -> CorePlan:
        """The same as a plan that Plansmith checks and runs."""
        reading = read(self.model_dump(mode="json"))
        if reading.plan is None:
            raise InvalidPlan(reading.problems)
        return reading.plan

    @classmethod
    def from_core(cls, plan: CorePlan, run: Run | None = None) -> Self:
        """A plan of Plansmith in this shape, with the results of its run."""
        return cls.model_validate(write(plan, run).value)


def parse_plan(answer: object) -> Plan | None:
    """The plan in what a model wrote, in a value or in a plan; None when there is none."""
    if isinstance(answer, Plan):
        return answer
    value = answer
    if isinstance(answer, str):
        try:
            value = read_json(answer)
        except UnreadableText:
            return None
    # A plan that was under way has results, which the plan language keeps apart from plans.
    if isinstance(value, Mapping) and "steps" in value:
        try:
            return Plan.model_validate(value)
        except ValidationError:
            pass
    found = read(cast("Json", value)).plan if isinstance(value, (dict, list)) else None
    return None if found is None else Plan.from_core(found)
