"""JManus' planning tool: the function a model calls to make a plan, and the plan it made last."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, cast, runtime_checkable

from plansmith.errors import Refused
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ChatModel, Delta, Prompt
from plansmith_compat.spring.beans import Bean, ManusPlan, ManusStep
from plansmith_compat.spring.dialects.jmanus import schema
from plansmith_planner.parse.habits import snake

NAME: Final = "planning"
DESCRIPTION: Final = "Makes the plan of a task: its title and its steps, or a direct response."
PARAMETERS: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "enum": ["create"],
            "description": "what to do: create makes a plan",
        },
        "title": {
            "type": "string",
            "description": "the plan's title; for a direct response, the person's request",
        },
        "steps": {
            "type": "array",
            "items": {"type": "string"},
            "description": "the steps in order, each as `[AGENT] what to do`",
        },
        "terminateColumns": {
            "type": "string",
            "description": "what every step has to give, such as `name, price`; optional",
        },
        "directResponse": {
            "type": "boolean",
            "description": "true if the request needs no plan and is answered directly",
        },
    },
    "required": ["command", "title", "steps"],
}
Arguments = str | Mapping[str, Any]  # of a call: JSON text or an object


class ToolExecuteResult(Bean):
    """What a call of the tool says."""

    output: str = ""
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class FunctionToolCallback:
    """A function for a model: its definition, and `call` for the arguments of a call."""

    name: str
    description: str
    input_schema: Mapping[str, Json]
    function: Callable[[Mapping[str, Any]], ToolExecuteResult]
    return_direct: bool = True

    def call(self, arguments: Arguments) -> str:
        return self.function(_arguments(arguments)).output

    @property
    def spec(self) -> ToolSpec:
        """The definition as a tool's, to be offered to a model."""
        about, schema = self.description, dict(self.input_schema)
        return ToolSpec(name=self.name, description=about, input_schema=schema, effect=Effect.READ)


@runtime_checkable
class PlanningToolInterface(Protocol):
    """What every planning tool of JManus offers."""

    def get_current_plan_id(self) -> str | None: ...
    def get_current_plan(self) -> ManusPlan | None: ...
    def get_function_tool_callback(
        self, tool: PlanningToolInterface | None = None
    ) -> FunctionToolCallback: ...
    def apply(self, arguments: Arguments) -> ToolExecuteResult: ...


class PlanningTool:
    """Keeps the plan that was made last; `JManus.submit` runs it."""

    name = NAME
    description = DESCRIPTION
    parameters = PARAMETERS

    def __init__(self) -> None:
        self._plan: ManusPlan | None = None

    def get_current_plan_id(self) -> str | None:
        return self._plan.current_plan_id if self._plan else None

    def set_current_plan_id(self, plan_id: str) -> None:
        if self._plan is not None:
            self._plan.current_plan_id = plan_id

    def get_current_plan(self) -> ManusPlan | None:
        return self._plan

    def get_function_tool_callback(
        self, tool: PlanningToolInterface | None = None
    ) -> FunctionToolCallback:
        """Returns the function for a model; its calls go to `tool`, or to this one."""
        return FunctionToolCallback(NAME, DESCRIPTION, PARAMETERS, (tool or self).apply)

    def get_current_tool_state_string(self) -> str:
        return f"Current plan: {_shown(self._plan)}" if self._plan else "No active plan"

    def apply(self, arguments: Arguments) -> ToolExecuteResult:
        """Carries out a call."""
        given = {snake(name): each for name, each in _arguments(arguments).items()}
        title = given.get("title")
        if given.get("direct_response") is True:
            text = str(title or "")
            self.hold(ManusPlan(title=text, user_request=text or None, direct_response=True))
            return ToolExecuteResult(output="Direct response mode: plan created successfully")
        command = given.get("command")
        if command != "create":
            raise Refused(f"Invalid command: {command}", hint="the only command is create")
        return self.create_plan(title, given.get("steps"), given.get("terminate_columns"))

    run = apply

    def create_plan(
        self, title: str | None, steps: Sequence[Any] | None, terminate_columns: str | None = None
    ) -> ToolExecuteResult:
        """Makes a plan; `terminate_columns` hold for every step that names none itself."""
        given: object = title
        if not isinstance(given, str) or not steps or isinstance(steps, str):
            return ToolExecuteResult(output="Required parameters missing")
        made = [_step(each, place, terminate_columns) for place, each in enumerate(steps)]
        plan = ManusPlan(title=given, steps=made)
        self.hold(plan)
        return ToolExecuteResult(output=f"Plan created successfully\n{_shown(plan)}")

    def hold(self, plan: ManusPlan) -> None:
        """Makes a plan the current one."""
        self._plan = plan

    # The names of the Java interface.
    getCurrentPlanId = get_current_plan_id  # noqa: N815
    setCurrentPlanId = set_current_plan_id  # noqa: N815
    getCurrentPlan = get_current_plan  # noqa: N815
    getFunctionToolCallback = get_function_tool_callback  # noqa: N815
    getCurrentToolStateString = get_current_tool_state_string  # noqa: N815
    createPlan = create_plan  # noqa: N815


def _arguments(given: Arguments) -> Mapping[str, Any]:
    try:
        value: Any = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError) as error:
        raise Refused(f"the arguments are not JSON: {error}", hint="give an object") from None
    if not isinstance(value, Mapping):
        raise Refused("the arguments are not an object", hint="give command, title and steps")
    return cast("Mapping[str, Any]", value)


def _step(value: Any, place: int, columns: str | None) -> ManusStep:
    own: Any = None
    if isinstance(value, Mapping):
        given = {snake(str(name)): each for name, each in cast("Any", value).items()}
        value, own = given.get("step_requirement", ""), given.get("terminate_columns")
    ends = str(own or columns or "") or None
    return ManusStep(step_requirement=str(value), terminate_columns=ends, step_index=place)


def _shown(plan: ManusPlan) -> str:
    numbered = enumerate(plan.steps, start=1)
    lines = [f"{place}. [{each.status}] {each.step_requirement}" for place, each in numbered]
    return "\n".join([plan.title, *lines])


class OffersPlanning:
    """A model that gets the planning function instead of a schema when it drafts a JManus plan."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Streams the answer: the arguments of the call, or text."""
        if prompt.schema is not None and prompt.schema.get("title") == schema()["title"]:
            spec = PlanningTool().get_function_tool_callback().spec
            parameters = {name: each for name, each in prompt.schema.items() if name != "title"}
            offered = spec.replace(input_schema=parameters)
            prompt = replace(prompt, schema=None, tools=(*prompt.tools, offered))
        return self._model.stream(prompt)
