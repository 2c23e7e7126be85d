"""JManus: plans by its planning function, templates with places, and runs by its verbs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from plansmith.app import Plansmith
from plansmith.dialects.spring import write_as
from plansmith.dialects.spring.jmanus import read
from plansmith.errors import InvalidPlan, Refused, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.run import Run, RunStatus
from plansmith.ports import Call
from plansmith.review.policy import active_steps, effects
from plansmith.templates.book import Template
from plansmith.templates.parameters import parameter_names

_NOT_NAME: Final = re.compile(r"[^\w.-]+")


def plan_from(value: Mapping[str, Any]) -> Plan:
    """The plan of a call of the planning function, or of a template's JSON."""
    reading = read(cast("Json", dict(value)))
    if reading.plan is None or has_errors(list(reading.problems)):
        raise InvalidPlan([each for each in reading.problems if each.severity == "error"])
    return reading.plan


class JManus:
    """Runs by JManus' verbs: create, execute, status, details, stop."""

    def __init__(self, smith: Plansmith) -> None:
        self.smith = smith
        self.templates = PlanTemplates(smith)

    async def request(self, text: str, *, by: str = "") -> Run:
        """A plan for a request; small talk is answered directly, a bad plan is sent back twice."""
        return await self.smith.plan(text, dialect="jmanus", by=by)

    async def create(self, *, by: str = "", **arguments: Any) -> Run:
        """What the planning function creates: a run with this plan, or a direct response."""
        run = await self.smith.submit(plan_from(arguments), by=by)
        return await self.smith.run(run.id) if arguments.get("directResponse") else run

    async def execute(self, run_id: str) -> Run:
        """Run a plan until it is over or waits for a person."""
        return await self.smith.run(run_id)

    async def status(self, run_id: str) -> Json:
        """The plan with the status and the result of each step."""
        run = await self.smith.get(run_id)
        if run.plan is None:
            return {"planTemplateId": run.id, "steps": [], "summary": run.report}
        return write_as("jmanus", run.plan, run).value

    async def details(self, run_id: str) -> list[Json]:
        """The execution record: every event, who caused it and when."""
        return [event.to_json() async for event in self.smith.events(run_id)]

    async def stop(self, run_id: str, *, by: str = "") -> Run:
        """Stop a run: nothing new starts, what runs is cancelled."""
        return await self.smith.cancel(run_id, by=by)

    async def delete(self, run_id: str) -> bool:
        """Delete a run that is over, with its journal; false when there is none."""
        run = await self.smith.get(run_id)
        if not run.status.over:
            raise Refused(f"run {run_id} is {run.status}", hint="stop it first")
        delete = getattr(self.smith.store, "delete_run", None)
        if delete is None:
            raise Refused("this store deletes no runs", hint="use SQLite or PostgreSQL")
        return bool(await delete(run_id))


class PlanTemplates:
    """Templates with `<<places>>`, kept by name and version; a missing parameter is an error."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._book = smith.templates

    async def save(self, value: Mapping[str, Any], *, by: str = "") -> Template:
        """Keep a template's JSON as the next version of its name."""
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
        """A template as JManus writes it; `name@2` is exactly that version."""
        return _written(await self._book.get(name))

    async def versions(self, name: str) -> list[Json]:
        """Every version of a template, oldest first."""
        known = await self._book.all()
        found = [each for full, each in known.items() if full.startswith(f"{name}@")]
        return [_written(each) for each in sorted(found, key=lambda each: each.version)]

    async def parameters(self, name: str) -> list[str]:
        """The names of a template's places."""
        return list((await self._book.get(name)).properties)

    async def plan(self, name: str, params: Mapping[str, Json]) -> Plan:
        """The plan of a template with its places filled, checked against today's agents."""
        return await self._book.plan(name, params)

    async def run(self, name: str, params: Mapping[str, Json], *, by: str = "") -> Run:
        """Run a template with its places filled, reviewed like any other plan."""
        run = await self._book.use(name, params, by=by)
        return await self._smith.run(run.id)

    async def export(self) -> list[Json]:
        """All templates in their newest versions, as JManus imports them."""
        known = await self._book.all()
        return [_written(each) for full, each in known.items() if "@" not in full]

    async def take_in(self, values: Sequence[Mapping[str, Any]], *, by: str = "") -> int:
        """Import templates; returns how many there were."""
        for value in values:
            await self.save(value, by=by)
        return len(values)

    async def delete(self, name: str) -> int:
        """Take a template out of use; runs that use it go on."""
        return await self._book.remove(name)

    async def publish(self, *names: str) -> PublishedTemplates:
        """Templates as tools that other plans may call."""
        return PublishedTemplates(self._smith, [await self._book.get(name) for name in names])


class PublishedTemplates:
    """Templates as a tool source: a call is a run of its own, a sub-plan with its own journal."""

    def __init__(self, smith: Plansmith, templates: Sequence[Template]) -> None:
        self._smith = smith
        self._templates = {each.name: each for each in templates}

    async def tools(self) -> Sequence[ToolSpec]:
        """One tool a template, with its places as arguments and the effects of its steps."""
        specs = (await self._smith.runs.intake.callees()).specs
        agents = {card.name: card for card in self._smith.runs.intake.agents()}
        made: list[ToolSpec] = []
        for each in self._templates.values():
            steps = active_steps(each.plan, self._smith.runs.intake.templates)
            found = [effect for s in steps for _, effect in effects(s, tools=specs, agents=agents)]
            made.append(
                ToolSpec(
                    name=each.name,
                    description=each.request,
                    input_schema=each.parameters,
                    effect=max(found, key=lambda effect: effect.rank, default=Effect.READ),
                )
            )
        return made

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """The results of the template's steps, by step; a run that does not end well fails."""
        del call
        template = self._templates.get(tool)
        if template is None:
            raise ToolFailed(f"there is no published template {tool!r}")
        run = await self._smith.templates.use(template.full_name, arguments)
        run = await self._smith.run(run.id)
        if run.status is not RunStatus.DONE:
            hint = f"look at run {run.id}"
            raise ToolFailed(f"the template {tool!r} is {run.status}: {run.reason}", hint=hint)
        return {name: state.result for name, state in run.steps.items() if "/" not in name}


def _written(template: Template) -> Json:
    value = write_as("jmanus", template.plan.replace(id=template.name)).value
    assert isinstance(value, dict)  # noqa: S101 - this shape is an object
    return {**value, "version": template.version}
