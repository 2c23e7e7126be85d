"""JManus: its planning function, templates with parameters, and its methods for runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, cast, runtime_checkable
from uuid import UUID

from plansmith import errors
from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.events import StepStarted
from plansmith.plan.ids import call_key, is_part, uuid7
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.question_options import GO_ON
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.steps import MAX_TIMEOUT_S
from plansmith.ports import Agent, Call, ChatModel, Delta, Prompt
from plansmith.review.policy import active_steps
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import delete_run
from plansmith.templates.parameters import parameter_names
from plansmith.templates.template import Template
from plansmith_compat.spring.beans import Bean, ManusPlan, ManusStep
from plansmith_compat.spring.dialects import write_as
from plansmith_compat.spring.dialects.jmanus import read, schema
from plansmith_planner.make import model_of
from plansmith_planner.parse.habits import snake

NAME: Final = "planning"
DESCRIPTION: Final = "Makes the plan of a task: its title and its steps, or a direct response."


PARAMETERS: Final[dict[str, Json]] = json.loads(
    Path(__file__).with_name("planning.json").read_text(encoding="utf-8")
)
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
        self.plan: ManusPlan | None = None

    def get_current_plan_id(self) -> str | None:
        return self.plan.current_plan_id if self.plan else None

    def set_current_plan_id(self, plan_id: str) -> None:
        if self.plan is not None:
            self.plan.current_plan_id = plan_id

    def get_current_plan(self) -> ManusPlan | None:
        return self.plan

    def get_function_tool_callback(
        self, tool: PlanningToolInterface | None = None
    ) -> FunctionToolCallback:
        """Returns the function for a model; its calls go to `tool`, or to this one."""
        return FunctionToolCallback(NAME, DESCRIPTION, PARAMETERS, (tool or self).apply)

    def get_current_tool_state_string(self) -> str:
        return f"Current plan: {_plan_text(self.plan)}" if self.plan else "No active plan"

    def apply(self, arguments: Arguments) -> ToolExecuteResult:
        given = {snake(name): each for name, each in _arguments(arguments).items()}
        title = given.get("title")
        if given.get("direct_response") is True:
            text = str(title or "")
            self.plan = ManusPlan(title=text, user_request=text or None, direct_response=True)
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
        self.plan = plan
        return ToolExecuteResult(output=f"Plan created successfully\n{_plan_text(plan)}")

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
    step_columns = str(own or columns or "") or None
    return ManusStep(step_requirement=str(value), terminate_columns=step_columns, step_index=place)


def _plan_text(plan: ManusPlan) -> str:
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
        if prompt.schema is not None and prompt.schema.get("title") == schema()["title"]:
            spec = PlanningTool().get_function_tool_callback().spec
            parameters = {name: each for name, each in prompt.schema.items() if name != "title"}
            offered = spec.replace(input_schema=parameters)
            prompt = replace(prompt, schema=None, tools=(*prompt.tools, offered))
        return self._model.stream(prompt)


class PublishedTemplates:
    """Templates as a tool source: each call is a run with its own journal.

    A call that is made again, after a restart or a time limit, goes on with the run that it began.
    """

    def __init__(self, smith: Plansmith, templates: Sequence[Template]) -> None:
        self._smith = smith
        self._templates = {each.name: each for each in templates}
        self._stopping: set[asyncio.Task[Run]] = set()

    async def tools(self) -> Sequence[ToolSpec]:
        made: list[ToolSpec] = []
        for each in self._templates.values():
            known = await self._smith.runs.registry.capabilities(each.plan)
            found = [known.effect(step) for step in active_steps(each.plan, known.templates)]
            made.append(
                ToolSpec(
                    name=each.name,
                    description=each.request,
                    input_schema=each.parameters,
                    effect=max(found, key=lambda effect: effect.rank, default=Effect.READ),
                    idempotent=True,
                    timeout_s=MAX_TIMEOUT_S,  # the steps of the run have their own limits
                )
            )
        return made

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Runs the template and returns the results by step; fails if the run does.

        A run that waits for a person makes the step ask. Stopping the caller stops the run.
        """
        template = self._templates.get(tool)
        if template is None:
            raise errors.ToolFailed(f"there is no published template {tool!r}")
        run_id = sub_run_id(call.key)
        try:
            await self._begin(run_id, template, arguments)
            run = await self._smith.runs.run(run_id)
        except asyncio.CancelledError:
            if call.is_stopped() and await self._smith.store.events(run_id):
                # To its end, even if the caller does not wait for it.
                stopping = asyncio.ensure_future(self._smith.cancel(run_id))
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)
                await asyncio.shield(stopping)
            raise
        except errors.RunBusy as busy:
            raise errors.ToolBusy(str(busy)) from None
        if not run.status.over:
            text = f"the template {tool!r} waits for a person in run {run.id}: it is {run.status}"
            raise errors.InputNeeded(f"{text}. Go on once it is decided there?", options=[GO_ON])
        if run.status is not RunStatus.DONE:
            hint = f"look at run {run.id}"
            raise errors.ToolFailed(
                f"the template {tool!r} is {run.status}: {run.reason}", hint=hint
            )
        return {name: state.result for name, state in run.steps.items() if not is_part(name)}

    async def _begin(self, run_id: str, template: Template, arguments: Mapping[str, Json]) -> None:
        if await self._smith.store.events(run_id):
            return
        plan = await self._smith.templates.plan(template.full_name, arguments)
        with suppress(errors.StaleWriter):  # another process has begun it meanwhile
            origin = Origin(kind="template", id=template.full_name)
            goal = plan.goal or template.request
            await self._smith.runs.create(NewRun(goal, plan, origin=origin, by="", run_id=run_id))


def sub_run_id(key: str) -> str:
    """Returns the id of the run that the call with this key begins; it sorts with its caller."""
    bits = int.from_bytes(sha256(key.encode()).digest()[:10], "big") >> 6
    try:
        milliseconds = UUID(key.partition("/")[0]).int >> 80
    except ValueError:
        milliseconds = 0
    return uuid7(milliseconds, bits)


async def stop_with_sub_runs(smith: Plansmith, run_id: str, *, by: str) -> Run:
    """Stops a run and what it has begun in the same store, also in a process that died."""
    run = await smith.cancel(run_id, by=by)
    keys = [
        call_key(run_id, event.body.step, event.body.call_mark)
        async for event in smith.events(run_id)
        if isinstance(event.body, StepStarted)
    ]
    for sub_run in map(sub_run_id, dict.fromkeys(keys)):
        if await smith.store.events(sub_run):
            await stop_with_sub_runs(smith, sub_run, by=by)
    return run


_CREATE: Final = "create"
_NOT_NAME: Final = re.compile(r"[^\w.-]+")


def plan_from(value: Mapping[str, Any]) -> Plan:
    """Reads the plan in a call of the planning function or in a template's JSON."""
    if value.get("command", _CREATE) != _CREATE:
        raise Refused(f"Invalid command: {value['command']}", hint="the only command is create")
    reading = read(cast("Json", dict(value)))
    if reading.plan is None or has_errors(list(reading.problems)):
        raise errors.PlanInvalid([each for each in reading.problems if each.severity == "error"])
    return reading.plan


class JManus:
    """Runs with JManus' methods: create, execute, status, details, stop.

    Takes a Plansmith, or makes one of `model` (a model, its name, or None for the automatic
    choice), `agents` and other options; that one offers the planning function to the model.
    """

    def __init__(
        self,
        smith: Plansmith | None = None,
        *,
        model: ChatModel | str | None = None,
        agents: Sequence[Agent] = (),
        **options: Any,
    ) -> None:
        if smith is not None and (model or agents or options):
            hint = "give a Plansmith alone, or the options of one"
            raise errors.Misconfigured(
                "JManus takes a Plansmith or its options, not both", hint=hint
            )
        if smith is None:
            planning = OffersPlanning(model_of(model))
            smith = Plansmith(model=planning, agents=agents, **options)
        self.smith = smith
        self.templates = PlanTemplates(smith)
        self.planning_tool = PlanningTool()

    async def request(self, text: str, *, by: str = "") -> Run:
        """Plans a request; answers small talk directly; a bad plan is repaired up to twice."""
        run = await self.smith.plan(text, dialect="jmanus", by=by)
        if run.plan is not None and not run.plan.degraded:
            self.planning_tool.plan = _manus_plan(run.plan, run.id)
        return run

    async def create(self, *, by: str = "", **arguments: Any) -> Run:
        """Creates a run with this plan, or a direct response, from the function's arguments."""
        plan = plan_from(arguments)
        request = str(arguments.get("userRequest") or "")
        run = await self.smith.submit(plan, request=request, by=by)
        self.planning_tool.plan = _manus_plan(plan, run.id)
        return await self.smith.runs.run(run.id) if arguments.get("directResponse") else run

    async def submit(self, tool: PlanningToolInterface | None = None, *, by: str = "") -> Run:
        plan = (tool or self.planning_tool).get_current_plan()
        if plan is None:
            raise Refused("the planning tool has no plan", hint="have it create one first")
        fields = ("title", "steps", "direct_response", "user_request", "response")
        given = plan.model_dump(by_alias=True, include={*fields}, exclude_defaults=True)
        run = await self.create(by=by, **{"title": plan.title, "steps": [], **given})
        plan.current_plan_id = run.id
        return run

    async def execute(self, run_id: str) -> Run:
        return await self.smith.runs.run(run_id)

    async def status(self, run_id: str) -> Json:
        run = await self.smith.get(run_id)
        if run.plan is None:
            return {"planTemplateId": run.id, "steps": [], "summary": run.report}
        return write_as("jmanus", run.plan, run).value

    async def details(self, run_id: str) -> list[Json]:
        return [event.to_json() async for event in self.smith.events(run_id)]

    async def stop(self, run_id: str, *, by: str = "") -> Run:
        """Stops a run and the templates it runs: starts nothing new, cancels what is running."""
        return await stop_with_sub_runs(self.smith, run_id, by=by)

    async def delete(self, run_id: str) -> bool:
        """Deletes a run that has ended, with its journal; false if there is none."""
        return await delete_run(self.smith.runs.journals, run_id)


def _manus_plan(plan: Plan, run_id: str) -> ManusPlan:
    value = cast("dict[str, Any]", write_as("jmanus", plan).value)
    steps = [{**each, "stepIndex": place} for place, each in enumerate(value["steps"])]
    direct = value.get("directResponse")
    return ManusPlan(
        title=str(value["title"]),
        steps=[ManusStep.from_json(each) for each in steps],
        current_plan_id=run_id,
        root_plan_id=run_id,
        user_request=value.get("userRequest"),
        direct_response=bool(direct),
        response=direct if isinstance(direct, str) else None,
    )


class PlanTemplates:
    """Templates with `<<parameters>>`, by name and version; parameters are required."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._book = smith.templates

    async def save(self, value: Mapping[str, Any], *, by: str = "") -> Template:
        """Stores a template's JSON as the next version of its name."""
        plan = plan_from(value)
        name = _NOT_NAME.sub("-", plan.id or plan.goal).strip("-_.")[:64]
        if not name:
            raise Refused("the template has no name", hint="give planTemplateId or title")
        places = sorted(parameter_names(plan))
        parameters: dict[str, Json] = {
            "type": "object",
            "properties": {each: {"type": "string"} for each in places},
            "required": [*places],
        }
        bare = plan.replace(id=None).to_json()
        document = {"name": name, "parameters": parameters, "plan": bare, "request": plan.goal}
        return await self._book.take_in(json.dumps(document), by=by)

    async def get(self, name: str) -> Json:
        """Returns a template in JManus' form; `name@2` is exactly that version."""
        return _written(await self._book.get(name))

    async def versions(self, name: str) -> list[Json]:
        known = await self._book.all()
        found = [each for full, each in known.items() if full.startswith(f"{name}@")]
        return [_written(each) for each in sorted(found, key=lambda each: each.version)]

    async def parameters(self, name: str) -> list[str]:
        return list((await self._book.get(name)).properties)

    async def plan(self, name: str, params: Mapping[str, Json]) -> Plan:
        return await self._book.plan(name, params)

    async def run(self, name: str, params: Mapping[str, Json], *, by: str = "") -> Run:
        """Runs a template with its parameters; it is reviewed like any other plan."""
        run = await self._book.use(name, params, by=by)
        return await self._smith.runs.run(run.id)

    async def export(self) -> list[Json]:
        known = await self._book.all()
        return [_written(each) for full, each in known.items() if "@" not in full]

    async def take_in(self, values: Sequence[Mapping[str, Any]], *, by: str = "") -> int:
        for value in values:
            await self.save(value, by=by)
        return len(values)

    async def delete(self, name: str) -> int:
        """Removes a template; runs that use it continue."""
        return await self._book.remove(name)

    async def publish(self, *names: str) -> PublishedTemplates:
        return PublishedTemplates(self._smith, [await self._book.get(name) for name in names])


def _written(template: Template) -> Json:
    value = write_as("jmanus", template.plan.replace(id=template.name)).value
    assert isinstance(value, dict)  # noqa: S101 - this shape is an object
    return {**value, "version": template.version}
