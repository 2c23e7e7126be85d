"""The plans and steps of Spring AI Alibaba as objects, with their Java names beside Python's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json
from plansmith_planner.parse.habits import snake


class Bean(BaseModel):
    """A record whose fields can be read as in Java too: `toolToUse`, `getToolToUse()`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    def __getattr__(self, name: str) -> Any:
        fields = type(self).model_fields
        verb = next((each for each in ("get", "is", "set") if name.startswith(each)), "")
        field = snake(name.removeprefix(verb))
        if verb and name[len(verb) :][:1].isupper() and field in fields:
            return partial(setattr if verb == "set" else getattr, self, field)
        if not name.startswith("_") and snake(name) in fields.keys() - {name}:
            return getattr(self, snake(name))
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Makes it from an object with names in either spelling; unknown fields are refused."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise Misconfigured(str(error), hint="leave out what it has no field for") from None

    def to_json(self, *, camel: bool = False) -> dict[str, Json]:
        """Returns the object as JSON, with names such as `toolToUse` if `camel`."""
        return self.model_dump(mode="json", by_alias=camel)


class ToolParameters(Bean):
    """What a step of NL2SQL is told; only what is set is written."""

    instruction: str | None = None
    summary_and_recommendations: str | None = None
    sql_query: str | None = None
    description: str | None = None
    input_data_description: str | None = None

    @model_serializer(mode="wrap")
    def _only_set(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: each for name, each in write(self).items() if each is not None}


class ExecutionStep(Bean):
    """A step of NL2SQL's plan."""

    step: int = 0
    tool_to_use: str | None = None
    tool_parameters: ToolParameters | None = None


class NL2SQLPlan(Bean):
    """NL2SQL's plan: what the planner thought, and its steps."""

    thought_process: str = ""
    execution_plan: list[ExecutionStep] = []


class ResearchStep(Bean):
    """A step of deepresearch's plan."""

    need_web_search: bool = False
    title: str = ""
    description: str = ""
    step_type: str = "research"
    execution_res: str | None = None
    execution_status: str | None = None


class ResearchPlan(Bean):
    """deepresearch's plan."""

    title: str = ""
    has_enough_context: bool = False
    thought: str = ""
    steps: list[ResearchStep] = []
    locale: str = ""


class ManusStep(Bean):
    """A step of JManus' plan: `[AGENT] what to do`."""

    step_requirement: str = ""
    terminate_columns: str | None = None
    step_index: int | None = None
    status: str = "not_started"
    result: str | None = None


class ManusPlan(Bean):
    """JManus' plan, as its planning tool holds it."""

    title: str = ""
    steps: list[ManusStep] = []
    current_plan_id: str | None = None
    root_plan_id: str | None = None
    user_request: str | None = None
    direct_response: bool = False
    response: str | None = None
