"""Stores templates (plans by name and version), checks them, and makes runs of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Protocol, cast

from pydantic import Field, ValidationError

from plansmith.errors import Misconfigured, NotFound, PlanInvalid, Refused
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, Record, Whole, canonical_json
from plansmith.plan.field_types import Inputs, Text
from plansmith.plan.limits import broken_rule
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, MapStep, PlanStep, ToolStep
from plansmith.planner.check.arguments import argument_problems
from plansmith.planner.check.check_plan import check_plan
from plansmith.planner.check.names import Catalogue, Names
from plansmith.ports import PlanStore
from plansmith.templates.parameters import bind, parameter_names, parametrise
from plansmith.templates.services import HasRuns
from plansmith.templates.shipped import shipped_fields

if TYPE_CHECKING:
    from plansmith.dialects import text as dialect_text
else:
    lazy_modules(globals(), dialect_text="plansmith.dialects.text")

REQUEST: Final = "request"  # the text after @name; every template accepts it as a parameter
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
        """Returns the name with the version."""
        return f"{self.name}@{self.version}"

    @property
    def properties(self) -> dict[str, dict[str, Json]]:
        """Returns the schema of each parameter."""
        return cast("dict[str, dict[str, Json]]", self.parameters.get("properties") or {})

    @property
    def needed(self) -> list[str]:
        """Returns the parameters that have no default."""
        return [name for name, schema in self.properties.items() if "default" not in schema]

    def substance(self) -> bytes:
        """Returns the content of a version, without who saved it and when."""
        return canonical_json([self.parameters, self.plan.to_json()])


# A version: name, number, whether it was removed (it is kept for runs that use it), and content.
Kept = tuple[str, int, bool, Json]


class TemplateStore(Protocol):
    """A store that also keeps templates."""

    async def keep_template(self, name: str, value: Json) -> int:
        """Stores a new version and returns its number; content equal to the last adds none."""
        ...

    async def kept_templates(self) -> Sequence[Kept]:
        """Returns all versions of all names, also removed ones, by name and version."""
        ...

    async def drop_template(self, name: str, version: int | None = None) -> int:
        """Removes one version or all; returns how many. Their numbers are not used again."""
        ...


class TemplateBook:
    """The templates of a Plansmith: those that its program passed in, and those in its store.

    Examples:
        >>> from plansmith import Plansmith, read_plan
        >>> smith = Plansmith()
        >>> plan = read_plan({"goal": "Greet", "steps": [{"id": "name", "question": "Who?"}]})
        >>> template = await smith.templates.save(plan, "greet")
        >>> run = await smith.templates.use("greet")
        >>> run.origin.id
        'greet@1'
    """

    def __init__(self, smith: HasRuns) -> None:
        self._runs = smith.runs
        self._intake = smith.runs.intake

    @property
    def _store(self) -> TemplateStore:
        return _template_store(self._intake.store)

    async def all(self) -> dict[str, Template]:
        """Returns every usable template: `name` is its newest version, `name@2` exactly that."""
        return await usable_templates(self._intake.store, self._intake.templates)

    async def get(self, name: str, *, language: str = "en") -> Template:
        """Returns the template of a name such as `weather` or `weather@2`, else a shipped one."""
        known = await self.all()
        if name in known:
            return known[name]
        shipped = self.shipped(language)
        if name in shipped:
            return shipped[name]
        names = [*(each for each in known if "@" not in each), *shipped]
        hint = Names(names).hint(name.partition("@")[0])
        raise NotFound(Sentence("error.no_template", name=name), hint=hint)

    @staticmethod
    def shipped(language: str = "en") -> dict[str, Template]:
        """Returns the templates that come with Plansmith, in a language."""
        return {
            name: _template({**fields, "name": name})
            for name, fields in shipped_fields(language).items()
        }

    async def save(
        self,
        source: Run | Plan,
        name: str,
        *,
        parameters: Mapping[str, Sequence[str]] | None = None,
        required: Sequence[str] = (),
        by: e.Who = "",
    ) -> Template:
        """Saves a plan or a finished run as a template; `parameters` maps names to places."""
        plan = source.plan if isinstance(source, Run) else source
        if isinstance(source, Run) and source.status is not RunStatus.DONE:
            state, hint = Sentence(f"status.{source.status}"), Sentence("error.only_done")
            raise Refused(Sentence("error.run_is", run=source.id, status=state), hint=hint)
        if plan is None:
            raise Refused(Sentence("error.no_plan"))
        tools = (await self._intake.callees()).specs
        made = parametrise(plan, parameters or {}, tools=tools, required=required)
        bare = made.plan.replace(id=None, revision=1, thought="", degraded=None)
        fields = {"name": name, "parameters": made.parameters, "plan": bare}
        if isinstance(source, Run):
            fields |= {"request": source.request, "run": source.id}
        return await self._keep(_template(fields), by)

    async def take_in(self, text: str | bytes, *, name: str = "", by: e.Who = "") -> Template:
        """Imports a template from a file, as the next version of its name."""
        reading = dialect_text.read_text(text)
        if reading.problems:
            raise PlanInvalid(reading.problems)
        if not isinstance(reading.value, dict):
            raise Refused(Sentence("error.no_template_file"), hint="`templates export` writes one")
        fields = {key: each for key, each in reading.value.items() if key != "version"}
        return await self._keep(_template(fields | ({"name": name} if name else {})), by)

    async def _keep(self, template: Template, by: e.Who) -> Template:
        problems = await self.problems(template)
        if has_errors(problems):
            raise PlanInvalid([each for each in problems if each.severity == "error"])
        newest = (await self.all()).get(template.name)
        if newest is not None and newest.substance() == template.substance():
            return newest
        if newest is not None and newest.saved_at is None:
            raise Refused(Sentence("error.given_template", name=template.name))
        signed = template.replace(
            version=1, saved_by=e.actor(by).label, saved_at=self._intake.clock.now()
        )
        value = {key: each for key, each in signed.to_json().items() if key != "version"}
        version = await self._store.keep_template(template.name, value)
        return signed.replace(version=version)

    async def remove(self, name: str) -> int:
        """Removes a template or one version of it; returns how many versions were removed."""
        template = await self.get(name)
        if template.name in self.shipped() and name not in await self.all():
            raise Refused(Sentence("error.shipped_template", name=name))
        if template.saved_at is None:
            raise Refused(Sentence("error.given_template", name=template.name))
        version = template.version if "@" in name else None
        return await self._store.drop_template(template.name, version)

    async def problems(self, template: Template) -> list[Problem]:
        """Returns the problems of a template, given the present tools, agents and templates."""
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

    async def plan(
        self, name: str, inputs: Mapping[str, Json] | None = None, *, language: str = "en"
    ) -> Plan:
        """Returns the plan of a template with its parameters filled in, checked like any plan."""
        template = await self.get(name, language=language)
        given = dict(inputs or {})
        problems = [*input_problems(template, given), *await self.problems(template)]
        if has_errors(problems):
            raise PlanInvalid([each for each in problems if each.severity == "error"])
        return bind(template.plan, with_defaults(template, given))

    async def use(
        self,
        name: str,
        inputs: Mapping[str, Json] | None = None,
        by: e.Who = "",
        *,
        language: str = "en",
    ) -> Run:
        """Creates a run of a template, reviewed like any other plan."""
        template = await self.get(name, language=language)
        plan = await self.plan(name, inputs, language=language)
        return await self._runs.submit(
            plan,
            request=plan.goal or template.request,
            origin=Origin(kind="template", id=template.full_name),
            about={"origin": "template"},
            by=by,
        )


def keeps_templates(store: PlanStore) -> bool:
    """Tells whether a store can keep templates."""
    return hasattr(store, "keep_template")


def _template_store(store: PlanStore) -> TemplateStore:
    if not keeps_templates(store):
        raise Misconfigured("this store cannot keep templates", hint="use SQLite or PostgreSQL")
    return cast("TemplateStore", store)


async def usable_templates(store: PlanStore, given: Mapping[str, Plan]) -> dict[str, Template]:
    """Returns every template that is not removed: the stored ones, and those in `given`."""
    return _by_name(await _template_store(store).kept_templates(), given)


async def every_template(store: PlanStore, given: Mapping[str, Plan]) -> dict[str, Template]:
    """Returns every template, also removed versions, for runs that were planned with them."""
    kept = await _template_store(store).kept_templates()
    return _by_name([(each[0], each[1], False, each[3]) for each in kept], given)


def runs_templates(plan: Plan | None) -> bool:
    """Tells whether a plan has a step that runs a template."""
    # Without a look at each step: it is asked at every submission and start.
    if plan is None or "plan" not in plan.features:
        return False
    for step in plan.steps:
        kind = step.each.kind if step.kind == "map" else step.kind
        if kind == "plan" and not step.disabled:
            return True
    return False


def exported(template: Template, *, yaml: bool = False) -> Json | str:
    """Returns a template as it is written into a file: a value for JSON, or YAML text."""
    value = template.to_json()
    return dialect_text.write_yaml(value) if yaml else value


def given_template(name: str, plan: Plan) -> Template:
    """Makes a template of a plan that a program passes in; its references are its parameters."""
    names = sorted(parameter_names(plan) - {REQUEST})
    schema: dict[str, Json] = {"type": "object", "properties": {each: {} for each in names}}
    return _template({"name": name, "parameters": schema, "plan": plan, "request": plan.goal})


def with_defaults(template: Template, inputs: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the parameters with defaults filled in."""
    schemas = template.properties
    defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    given = {REQUEST: ""} if REQUEST in parameter_names(template.plan) - schemas.keys() else {}
    return given | defaults | dict(inputs)


def template_problems(plan: Plan, templates: Mapping[str, Template]) -> list[Problem]:
    """Returns the problems of steps that run templates: parameters, versions, cycles, depth."""
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
    """Returns the problems of the parameters given to a template."""
    schemas = template.properties
    schema = dict(template.parameters) | {
        "required": template.needed,
        "additionalProperties": False,
        "properties": {REQUEST: {}} | schemas,
    }
    spec = ToolSpec(name=template.name, input_schema=cast("dict[str, Json]", schema))
    given = ToolStep(id=step, tool=template.name, inputs=dict(inputs))
    return argument_problems(given, spec, takes=Catalogue([spec]).takes(spec))


def _nesting(step: PlanStep, templates: Mapping[str, Template], outer: int) -> Iterator[Problem]:
    """Yields a problem if templates run each other in a cycle or are nested too deep."""
    pending: list[tuple[PlanStep, int, tuple[str, ...]]] = [(step, outer, ())]
    while pending:
        inner, depth, above = pending.pop()
        if inner.template in above:
            cycle = " > ".join((*above[above.index(inner.template) :], inner.template))
            message, hint = Sentence("ps.template_ring", ring=cycle), Sentence("hint.take_one_out")
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
        pending += [(each, depth + 1 + deeper, path) for deeper, each in more]


def plan_steps(plan: Plan) -> Iterator[tuple[int, PlanStep]]:
    """Yields the steps that run templates, each with its depth in map steps."""
    for step in plan.steps:
        inner = step.each if isinstance(step, MapStep) else step
        if isinstance(inner, PlanStep) and not step.disabled:
            yield int(isinstance(step, MapStep)), inner


def template_of(step: PlanStep, templates: Mapping[str, Template]) -> Template | None:
    """Returns the template that a step runs, if it exists."""
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
        rule = broken_rule(first)
        raise Refused(Sentence("error.bad_template", place=place, rule=rule)) from None
