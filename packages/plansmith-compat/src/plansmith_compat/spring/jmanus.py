"""JManus: its planning function, templates with parameters, and its methods for runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from plansmith.app import Plansmith
from plansmith.errors import Misconfigured, PlanInvalid, Refused
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.run import Run
from plansmith.ports import Agent, ChatModel
from plansmith.runs.deletion import delete_run
from plansmith.templates.book import Template
from plansmith.templates.parameters import parameter_names
from plansmith_compat.spring.beans import ManusPlan, ManusStep
from plansmith_compat.spring.dialects import write_as
from plansmith_compat.spring.dialects.jmanus import read
from plansmith_compat.spring.planning_tool import (
    OffersPlanning,
    PlanningTool,
    PlanningToolInterface,
)
from plansmith_compat.spring.published import PublishedTemplates, stop_with_sub_runs
from plansmith_planner.make import model_of

_CREATE: Final = "create"
_NOT_NAME: Final = re.compile(r"[^\w.-]+")


def plan_from(value: Mapping[str, Any]) -> Plan:
    """Reads the plan in a call of the planning function or in a template's JSON."""
    if value.get("command", _CREATE) != _CREATE:
        raise Refused(f"Invalid command: {value['command']}", hint="the only command is create")
    reading = read(cast("Json", dict(value)))
    if reading.plan is None or has_errors(list(reading.problems)):
        raise PlanInvalid([each for each in reading.problems if each.severity == "error"])
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
            raise Misconfigured("JManus takes a Plansmith or its options, not both", hint=hint)
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
            self.planning_tool.hold(_held(run.plan, run.id))
        return run

    async def create(self, *, by: str = "", **arguments: Any) -> Run:
        """Creates a run with this plan, or a direct response, from the function's arguments."""
        plan = plan_from(arguments)
        asked = str(arguments.get("userRequest") or "")
        run = await self.smith.submit(plan, request=asked, by=by)
        self.planning_tool.hold(_held(plan, run.id))
        return await self.smith.runs.run(run.id) if arguments.get("directResponse") else run

    async def submit(self, tool: PlanningToolInterface | None = None, *, by: str = "") -> Run:
        """Creates a run with the current plan of a planning tool."""
        plan = (tool or self.planning_tool).get_current_plan()
        if plan is None:
            raise Refused("the planning tool has no plan", hint="have it create one first")
        held = ("title", "steps", "direct_response", "user_request", "response")
        given = plan.model_dump(by_alias=True, include={*held}, exclude_defaults=True)
        run = await self.create(by=by, **{"title": plan.title, "steps": [], **given})
        plan.current_plan_id = run.id
        return run

    async def execute(self, run_id: str) -> Run:
        """Runs a plan until it ends or waits for a person."""
        return await self.smith.runs.run(run_id)

    async def status(self, run_id: str) -> Json:
        """Returns the plan with the status and the result of each step."""
        run = await self.smith.get(run_id)
        if run.plan is None:
            return {"planTemplateId": run.id, "steps": [], "summary": run.report}
        return write_as("jmanus", run.plan, run).value

    async def details(self, run_id: str) -> list[Json]:
        """Returns every event, with who caused it and when."""
        return [event.to_json() async for event in self.smith.events(run_id)]

    async def stop(self, run_id: str, *, by: str = "") -> Run:
        """Stops a run and the templates it runs: starts nothing new, cancels what is running."""
        return await stop_with_sub_runs(self.smith, run_id, by=by)

    async def delete(self, run_id: str) -> bool:
        """Deletes a run that has ended, with its journal; false if there is none."""
        return await delete_run(self.smith.runs.journals, run_id)


def _held(plan: Plan, run_id: str) -> ManusPlan:
    """Returns a plan as the planning tool holds it."""
    value = cast("dict[str, Any]", write_as("jmanus", plan).value)
    steps = [
        ManusStep.from_json({**each, "stepIndex": place})
        for place, each in enumerate(value["steps"])
    ]
    direct = value.get("directResponse")
    return ManusPlan(
        title=str(value["title"]),
        steps=steps,
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
        """Returns every version of a template, oldest first."""
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
        """Returns the newest versions of all templates in JManus' form."""
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
        """Returns templates as tools that other plans may call."""
        return PublishedTemplates(self._smith, [await self._book.get(name) for name in names])


def _written(template: Template) -> Json:
    value = write_as("jmanus", template.plan.replace(id=template.name)).value
    assert isinstance(value, dict)  # noqa: S101 - this shape is an object
    return {**value, "version": template.version}
