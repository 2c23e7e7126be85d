"""Keeps plans by name and version, to be used again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, cast

from pydantic import Field, ValidationError

from plansmith.dialects.text import read_text, write_yaml
from plansmith.engine.call import Callees
from plansmith.errors import InvalidPlan, Misconfigured, Refused
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json, Record, Whole, canonical_json
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, Inputs, MapStep, PlanStep, Text, ToolStep
from plansmith.planner.check.arguments import argument_problems
from plansmith.planner.check.check_plan import check_plan
from plansmith.planner.check.names import Catalogue, Names
from plansmith.ports import Clock, PlanStore
from plansmith.templates.parameters import bind, parameter_names, parametrise

REQUEST: Final = "request"  # what a person wrote behind @name; every template may be given it
Name = Annotated[str, Field(pattern=r"^[^\W_][\w.-]{0,63}$")]


class Template(Record):
    """A plan that can be used again; a version of it never changes."""

    name: Name
    version: Whole = Field(default=1, ge=1)
    request: Text = ""
    parameters: Inputs = Field(default_factory=dict)
    plan: Plan
    saved_by: str = ""
    saved_at: e.Instant | None = None
    run: str = ""

    @property
    def full_name(self) -> str:
        """The name with the version."""
        return f"{self.name}@{self.version}"

    @property
    def properties(self) -> dict[str, dict[str, Json]]:
        """The schema of each parameter."""
        return cast("dict[str, dict[str, Json]]", self.parameters.get("properties") or {})

    @property
    def needed(self) -> list[str]:
        """The parameters that have no default."""
        return [name for name, form in self.properties.items() if "default" not in form]

    def substance(self) -> bytes:
        """What a version consists of, whoever saved it when."""
        return canonical_json([self.parameters, self.plan.to_json()])


# A version as a store keeps it: its name, its number, whether it was removed, and all else.
# A removed one is still there for the runs that use it.
Kept = tuple[str, int, bool, Json]


class TemplateStore(Protocol):
    """A store that also keeps templates."""

    async def keep_template(self, name: str, value: Json) -> int:
        """Keep the next version of a name and return its number; one equal to the last is that."""
        ...

    async def kept_templates(self) -> Sequence[Kept]:
        """All versions of all names, removed ones too, by name and version."""
        ...

    async def drop_template(self, name: str, version: int | None = None) -> int:
        """Remove one version or all; returns how many there were. Numbers are not used again."""
        ...


class Intake(Protocol):
    """What templates need of the place where plans come in."""

    store: PlanStore
    clock: Clock
    templates: dict[str, Plan]

    async def callees(self) -> Callees:
        """What can be called."""
        ...

    def agents(self) -> list[AgentSpec]:
        """The cards of all agents."""
        ...


class Submit(Protocol):
    """Makes a run of a ready plan; `about` is more of how the plan came to be."""

    async def __call__(
        self, plan: Plan, *, request: str, origin: Origin, about: Mapping[str, Any], by: e.Who
    ) -> Run:
        """A new run with this plan."""
        ...


class Runs(Protocol):
    """What templates need of the service for runs."""

    @property
    def intake(self) -> Intake:
        """Where plans come in."""
        ...

    @property
    def submit(self) -> Submit:
        """Makes runs of ready plans."""
        ...


class HasRuns(Protocol):
    """A Plansmith."""

    @property
    def runs(self) -> Runs:
        """The service for runs."""
        ...


class TemplateBook:
    """The templates of a Plansmith: those its program gave, and those kept in its store."""

    def __init__(self, smith: HasRuns) -> None:
        self._runs = smith.runs
        self._intake = smith.runs.intake

    @property
    def _store(self) -> TemplateStore:
        return _keeper(self._intake.store)

    async def all(self) -> dict[str, Template]:
        """Every usable template: `name` is the newest version, `name@2` exactly that one."""
        return await usable_templates(self._intake.store, self._intake.templates)

    async def get(self, name: str) -> Template:
        """The template of a name such as `weather` or `weather@2`."""
        known = await self.all()
        if name not in known:
            hint = Names([each for each in known if "@" not in each]).hint(name.partition("@")[0])
            raise Refused(f"there is no template {name!r}", hint=hint)
        return known[name]

    async def save(
        self,
        source: Run | Plan,
        name: str,
        *,
        parameters: Mapping[str, Sequence[str]] | None = None,
        required: Sequence[str] = (),
        by: e.Who = "",
    ) -> Template:
        """Make a template of a plan, or of a run that was done; `parameters` name their places."""
        plan = source.plan if isinstance(source, Run) else source
        if isinstance(source, Run) and source.status is not RunStatus.DONE:
            hint = "only a run that was done makes a template; save its plan file instead"
            raise Refused(f"run {source.id} is {source.status}", hint=hint)
        if plan is None:
            raise Refused("the run has no plan")
        tools = (await self._intake.callees()).specs
        made = parametrise(plan, parameters or {}, tools=tools, required=required)
        bare = made.plan.replace(id=None, revision=1, thought="", degraded=None)
        fields = {"name": name, "parameters": made.parameters, "plan": bare}
        if isinstance(source, Run):
            fields |= {"request": source.request, "run": source.id}
        return await self._keep(_template(fields), by)

    async def take_in(self, text: str | bytes, *, name: str = "", by: e.Who = "") -> Template:
        """A template from a file, as the next version of its name."""
        reading = read_text(text)
        if reading.problems:
            raise InvalidPlan(reading.problems)
        if not isinstance(reading.value, dict):
            raise Refused("the file holds no template", hint="`templates export` writes one")
        fields = {key: each for key, each in reading.value.items() if key != "version"}
        return await self._keep(_template(fields | ({"name": name} if name else {})), by)

    async def _keep(self, template: Template, by: e.Who) -> Template:
        problems = await self.problems(template)
        if has_errors(problems):
            raise InvalidPlan([each for each in problems if each.severity == "error"])
        newest = (await self.all()).get(template.name)
        if newest is not None and newest.substance() == template.substance():
            return newest
        if newest is not None and newest.saved_at is None:
            raise Refused(f"the program itself gives a template {template.name!r}")
        signed = template.replace(
            version=1, saved_by=e.actor(by).label, saved_at=self._intake.clock.now()
        )
        value = {key: each for key, each in signed.to_json().items() if key != "version"}
        version = await self._store.keep_template(template.name, value)
        return signed.replace(version=version)

    async def remove(self, name: str) -> int:
        """Take a template, or one version of it, out of use; returns how many versions went."""
        template = await self.get(name)
        if template.saved_at is None:
            raise Refused(f"the program itself gives the template {template.name!r}")
        version = template.version if "@" in name else None
        return await self._store.drop_template(template.name, version)

    async def problems(self, template: Template) -> list[Problem]:
        """What is wrong with a template, given today's tools, agents and other templates."""
        known = await self.all()
        names = [*template.properties, REQUEST]
        found = check_plan(
            template.plan,
            list((await self._intake.callees()).specs.values()),
            agents=self._intake.agents(),
            templates=known,
            parameters=names,
        )
        unused = sorted(template.properties.keys() - parameter_names(template.plan))
        found += [
            problem(
                "PS302", Sentence("ps.unused_parameter", name=name), hint=Sentence("hint.take_out")
            )
            for name in unused
        ]
        return [*found, *template_problems(template.plan, known | {template.name: template})]

    async def plan(self, name: str, inputs: Mapping[str, Json] | None = None) -> Plan:
        """The plan of a template with its parameters put in, checked against today's tools."""
        template = await self.get(name)
        given = dict(inputs or {})
        problems = [*input_problems(template, given), *await self.problems(template)]
        if has_errors(problems):
            raise InvalidPlan([each for each in problems if each.severity == "error"])
        return bind(template.plan, with_defaults(template, given))

    async def use(self, name: str, inputs: Mapping[str, Json] | None = None, by: e.Who = "") -> Run:
        """A run of a template: planned at once, reviewed like any other plan."""
        plan, template = await self.plan(name, inputs), await self.get(name)
        return await self._runs.submit(
            plan,
            request=plan.goal or template.request,
            origin=Origin(kind="template", id=template.full_name),
            about={"origin": "template"},
            by=by,
        )


def keeps_templates(store: PlanStore) -> bool:
    """Whether a store has a place for templates."""
    return hasattr(store, "keep_template")


def _keeper(store: PlanStore) -> TemplateStore:
    if not keeps_templates(store):
        raise Misconfigured("this store keeps no templates", hint="use SQLite or PostgreSQL")
    return cast("TemplateStore", store)


async def usable_templates(store: PlanStore, given: Mapping[str, Plan]) -> dict[str, Template]:
    """Every template that is not removed: those kept in a store, and those a program gave."""
    return _by_name(await _keeper(store).kept_templates(), given)


async def every_template(store: PlanStore, given: Mapping[str, Plan]) -> dict[str, Template]:
    """Also the removed versions, by full name: for runs that were planned with them."""
    kept = await _keeper(store).kept_templates()
    return _by_name([(each[0], each[1], False, each[3]) for each in kept], given)


def runs_templates(plan: Plan | None) -> bool:
    """Whether a plan has a step that runs a template."""
    return plan is not None and any(True for _ in plan_steps(plan))


def exported(template: Template, *, yaml: bool = False) -> Json | str:
    """A template as it is written into a file: a value for JSON, or YAML text."""
    value = template.to_json()
    return write_yaml(value) if yaml else value


def given_template(name: str, plan: Plan) -> Template:
    """A template of a plan that a program gives by name: what it refers to are its parameters."""
    names = sorted(parameter_names(plan) - {REQUEST})
    form: dict[str, Json] = {"type": "object", "properties": {each: {} for each in names}}
    return _template({"name": name, "parameters": form, "plan": plan, "request": plan.goal})


def with_defaults(template: Template, inputs: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters as a template runs with them."""
    forms = template.properties
    defaults = {name: form["default"] for name, form in forms.items() if "default" in form}
    given = {REQUEST: ""} if REQUEST in parameter_names(template.plan) - forms.keys() else {}
    return given | defaults | dict(inputs)


def template_problems(plan: Plan, templates: Mapping[str, Template]) -> list[Problem]:
    """What is wrong with the plan steps of a plan: parameters, versions, rings, depth."""
    problems: list[Problem] = []
    for outer, step in plan_steps(plan):
        template = template_of(step, templates)
        if template is not None:
            problems += input_problems(template, step.inputs, step=step.id)
        elif step.template in templates:
            message = Sentence("ps.no_version", name=step.template, version=str(step.version))
            hint = Sentence("hint.newest", version=str(templates[step.template].version))
            problems.append(problem("PS103", message, hint=hint, step=step.id, path=("version",)))
        problems += _nesting(step, templates, outer)
    return problems


def input_problems(
    template: Template, inputs: Mapping[str, Json], *, step: str = "template"
) -> list[Problem]:
    """What is wrong with the parameters that a template is given."""
    forms = template.properties
    schema = dict(template.parameters) | {
        "required": template.needed,
        "additionalProperties": False,
        "properties": {REQUEST: {}} | forms,
    }
    spec = ToolSpec(name=template.name, input_schema=cast("dict[str, Json]", schema))
    given = ToolStep(id=step, tool=template.name, inputs=dict(inputs))
    return argument_problems(given, spec, takes=Catalogue([spec]).takes(spec))


def _nesting(step: PlanStep, templates: Mapping[str, Template], outer: int) -> Iterator[Problem]:
    """A ring of templates, or more of them inside each other than a run goes into."""
    way: list[tuple[PlanStep, int, tuple[str, ...]]] = [(step, outer, ())]
    while way:
        inner, depth, above = way.pop()
        if inner.template in above:
            ring = " > ".join((*above[above.index(inner.template) :], inner.template))
            message, hint = Sentence("ps.template_ring", ring=ring), Sentence("hint.take_one_out")
            yield problem("PS301", message, hint=hint, step=step.id, path=("template",))
            return
        if depth >= MAX_NESTING:
            message = Sentence("ps.template_depth", most=MAX_NESTING)
            hint = Sentence("hint.fewer_templates")
            yield problem("PS007", message, hint=hint, step=step.id, path=("template",))
            return
        template = template_of(inner, templates)
        more = plan_steps(template.plan) if template else ()
        path = (*above, inner.template)
        way += [(each, depth + 1 + deeper, path) for deeper, each in more]


def plan_steps(plan: Plan) -> Iterator[tuple[int, PlanStep]]:
    """The plan steps that would run, each with how deep in map steps it stands."""
    for step in plan.steps:
        inner = step.each if isinstance(step, MapStep) else step
        if isinstance(inner, PlanStep) and not step.disabled:
            yield int(isinstance(step, MapStep)), inner


def template_of(step: PlanStep, templates: Mapping[str, Template]) -> Template | None:
    """The template that a step runs, if it is there."""
    name = step.template.partition("@")[0]
    return templates.get(f"{name}@{step.version}" if step.version else step.template)


def _by_name(kept: Sequence[Kept], given: Mapping[str, Plan]) -> dict[str, Template]:
    known: dict[str, Template] = {}
    stored = {name for name, *_ in kept}
    for name, version, removed, value in kept:
        if not removed and isinstance(value, dict):
            template = _template(value | {"name": name, "version": version})
            known[name] = known[template.full_name] = template
    for name, plan in given.items():
        if name.partition("@")[0] not in stored:
            known[name] = given_template(name, plan)
    return known


def _template(fields: Mapping[str, object]) -> Template:
    try:
        return Template.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Refused(f"this is no template: {place}: {first['msg']}") from None
