"""The plans and steps of Spring AI Alibaba as objects, with their Java names beside Python's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Self, cast

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json
from plansmith_planner.parse.habits import snake

_VERBS = ("get", "is", "set")


class Bean:
    """A record whose fields can be read as in Java too: `toolToUse`, `getToolToUse()`."""

    _inner: ClassVar[dict[str, type[Bean]]] = {}

    def __getattr__(self, name: str) -> Any:
        names = {each.name for each in fields(cast("Any", self))}
        verb = next((each for each in _VERBS if name.startswith(each)), "")
        rest = name.removeprefix(verb)
        if verb and rest[:1].isupper() and snake(rest) in names:
            return partial(setattr if verb == "set" else getattr, self, snake(rest))
        if not name.startswith("_") and snake(name) in names - {name}:
            return getattr(self, snake(name))
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Makes it from an object with names in either spelling; unknown fields are refused."""
        given: dict[str, Any] = {snake(name): each for name, each in value.items()}
        for name, kind in cls._inner.items():
            if name in given:
                given[name] = _made(kind, given[name])
        unknown = sorted(given.keys() - {each.name for each in fields(cast("Any", cls))})
        if unknown:
            hint = "leave them out"
            raise Misconfigured(f"{cls.__name__} has no {', '.join(unknown)}", hint=hint)
        return cls(**given)

    def to_json(self, *, camel: bool = False) -> dict[str, Json]:
        """Returns the object as JSON, with names such as `toolToUse` if `camel`."""
        made: dict[str, Json] = {}
        for each in fields(cast("Any", self)):
            name = _camel(each.name) if camel else each.name
            made[name] = _plain(getattr(self, each.name), camel=camel)
        return made


def _made(kind: type[Bean], value: object) -> object:
    if isinstance(value, list):
        return [_made(kind, each) for each in cast("list[object]", value)]
    return kind.from_json(cast("Mapping[str, Any]", value)) if value is not None else None


def _plain(value: object, *, camel: bool) -> Json:
    if isinstance(value, list):
        return [_plain(each, camel=camel) for each in cast("list[object]", value)]
    return value.to_json(camel=camel) if isinstance(value, Bean) else cast("Json", value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


@dataclass
class ToolParameters(Bean):
    """What a step of NL2SQL is told."""

    instruction: str | None = None
    summary_and_recommendations: str | None = None
    sql_query: str | None = None
    description: str | None = None
    input_data_description: str | None = None

    def to_json(self, *, camel: bool = False) -> dict[str, Json]:
        """Returns the parameters that are set."""
        made = super().to_json(camel=camel)
        return {name: each for name, each in made.items() if each is not None}


@dataclass
class ExecutionStep(Bean):
    """A step of NL2SQL's plan."""

    _inner = {"tool_parameters": ToolParameters}

    step: int = 0
    tool_to_use: str | None = None
    tool_parameters: ToolParameters | None = None


@dataclass
class NL2SQLPlan(Bean):
    """NL2SQL's plan: what the planner thought, and its steps."""

    _inner = {"execution_plan": ExecutionStep}

    thought_process: str = ""
    execution_plan: list[ExecutionStep] = field(default_factory=list[ExecutionStep])


@dataclass
class ResearchStep(Bean):
    """A step of deepresearch's plan."""

    need_web_search: bool = False
    title: str = ""
    description: str = ""
    step_type: str = "research"
    execution_res: str | None = None
    execution_status: str | None = None


@dataclass
class ResearchPlan(Bean):
    """deepresearch's plan."""

    _inner = {"steps": ResearchStep}

    title: str = ""
    has_enough_context: bool = False
    thought: str = ""
    steps: list[ResearchStep] = field(default_factory=list[ResearchStep])
    locale: str = ""


@dataclass
class ManusStep(Bean):
    """A step of JManus' plan: `[AGENT] what to do`."""

    step_requirement: str = ""
    terminate_columns: str | None = None
    step_index: int | None = None
    status: str = "not_started"
    result: str | None = None


@dataclass
class ManusPlan(Bean):
    """JManus' plan, as its planning tool holds it."""

    _inner = {"steps": ManusStep}

    title: str = ""
    steps: list[ManusStep] = field(default_factory=list[ManusStep])
    current_plan_id: str | None = None
    root_plan_id: str | None = None
    user_request: str | None = None
    direct_response: bool = False
    response: str | None = None
