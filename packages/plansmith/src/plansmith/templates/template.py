"""A template: a plan that can be used again with other values, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, cast

from pydantic import Field, ValidationError

from plansmith.check.arguments import Placeholders, argument_problems
from plansmith.check.names import KnownTool
from plansmith.errors import Refused
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Instant, Json, JsonObject, Record, StrictInt, Text, canonical_json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, AnyStep, MapStep, PlanStep
from plansmith.plan.validation_errors import broken_rule
from plansmith.templates.parameters import parameter_names

REQUEST: Final = "request"  # the text after @name; every template accepts it as a parameter
Name = Annotated[str, Field(pattern=r"^[^\W_][\w.-]{0,63}$")]


class Template(Record):
    """A plan that can be used again; a version of it never changes."""

    name: Name
    version: StrictInt = Field(default=1, ge=1)
    request: Text = ""
    parameters: JsonObject = Field(default_factory=dict)
    plan: Plan
    saved_by: str = ""
    saved_at: Instant | None = None
    run: str = ""

    @property
    def full_name(self) -> str:
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


def make_template(fields: Mapping[str, object]) -> Template:
    """Makes a template of its fields; raises `Refused` with the field that is wrong."""
    try:
        return Template.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place, rule = ".".join(map(str, first["loc"])), broken_rule(first)
        why = Sentence("this is not a valid template: {place} {rule}", place=place, rule=rule)
        raise Refused(why) from None


def runs_templates(plan: Plan | None) -> bool:
    """Tells whether a plan has a step that runs a template."""
    # Mostly without a look at each step: it is asked at every submission and start.
    return plan is not None and "plan" in plan.features and any(plan_steps(plan))


def given_template(name: str, plan: Plan) -> Template:
    """Makes a template of a plan that a program passes in; its references are its parameters."""
    names = sorted(parameter_names(plan) - {REQUEST})
    schema: dict[str, Json] = {"type": "object", "properties": {each: {} for each in names}}
    return make_template({"name": name, "parameters": schema, "plan": plan, "request": plan.goal})


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
            message = Sentence(
                "the template '{name}' has no version {version}",
                name=step.template,
                version=str(step.version),
            )
            hint = Sentence(
                "the newest is {version}", version=str(templates[step.template].version)
            )
            problems.append(problem("PS103", message, hint=hint, step=step.id, path=("version",)))
        problems += _nesting(step, templates, outer)
    return problems


def input_problems(
    template: Template, inputs: Mapping[str, Json], *, step: str = "template"
) -> list[Problem]:
    """Returns the problems of the parameters given to a template."""
    schema: dict[str, Any] = {
        **template.parameters,
        "required": template.needed,
        "additionalProperties": False,
        "properties": {REQUEST: {}} | template.properties,
    }
    tool = KnownTool(ToolSpec(name=template.name, input_schema=schema))
    return argument_problems(step, tool, Placeholders(dict(inputs)))


def _nesting(step: PlanStep, templates: Mapping[str, Template], outer: int) -> Iterator[Problem]:
    """Yields a problem if templates run each other in a cycle or are nested too deep."""
    pending: list[tuple[PlanStep, int, tuple[str, ...]]] = [(step, outer, ())]
    while pending:
        inner, depth, above = pending.pop()
        if inner.template in above:
            cycle = " > ".join((*above[above.index(inner.template) :], inner.template))
            message = Sentence("templates run each other in a ring: {ring}", ring=cycle)
            hint = Sentence("take one of them out")
            yield problem("PS301", message, hint=hint, step=step.id, path=("template",))
            return
        if depth >= MAX_NESTING:
            message = Sentence(
                "templates and maps are nested more than {most} levels deep", most=MAX_NESTING
            )
            hint = Sentence("make fewer of them run each other")
            yield problem("PS007", message, hint=hint, step=step.id, path=("template",))
            return
        template = template_of(inner, templates)
        more = plan_steps(template.plan) if template else ()
        path = (*above, inner.template)
        pending += [(each, depth + 1 + deeper, path) for deeper, each in more]


def plan_steps(plan: Plan) -> Iterator[tuple[int, PlanStep]]:
    """Yields the steps that run templates, each with its depth in map steps."""
    for step in plan.steps:
        inner = step.inner
        if isinstance(inner, PlanStep) and not step.disabled:
            yield int(isinstance(step, MapStep)), inner


def template_of(step: PlanStep, templates: Mapping[str, Template]) -> Template | None:
    """Returns the template that a step runs, if it exists."""
    name = step.template.partition("@")[0]
    return templates.get(f"{name}@{step.version}" if step.version else step.template)


def with_fixed_templates(
    plan: Plan, templates: Mapping[str, Template], made: dict[str, Plan | None] | None = None
) -> Plan:
    """Returns the plan with the version, content hash and parameters of each template written in.

    What runs is then exactly what was approved, whatever is saved under the same name later. A
    template that the program passes in has no version and keeps its name. `made` are the plans
    of templates that are fixed already.
    """
    known: dict[str, Plan | None] = {} if made is None else made

    def fix(step: AnyStep) -> AnyStep:
        if isinstance(step, MapStep):
            return step.replace(each=fix(step.each))
        template = template_of(step, templates) if isinstance(step, PlanStep) else None
        if template is None or not isinstance(step, PlanStep):
            return step
        inner = _fixed_plan(template, templates, known)
        fields: dict[str, Any] = {
            "inputs": with_defaults(template, step.inputs),
            "content": inner.hash if inner else None,
        }
        if template.saved_at is not None:
            fields |= {"template": template.full_name, "version": template.version}
        return step.replace(**fields)

    return plan.replace(steps=tuple(map(fix, plan.steps)))


def _fixed_plan(
    template: Template, templates: Mapping[str, Template], made: dict[str, Plan | None]
) -> Plan | None:
    """Returns the fixed plan of a template, made once; a template that runs itself has none."""
    if template.full_name not in made:
        made[template.full_name] = None
        made[template.full_name] = with_fixed_templates(template.plan, templates, made)
    return made[template.full_name]


def template_plans(plan: Plan, templates: Mapping[str, Template]) -> dict[str, Plan]:
    """Returns the fixed plans of the templates that a plan runs, at every depth, by name."""
    found, made = dict[str, Plan](), dict[str, Plan | None]()
    pending = [plan]
    while pending:
        for _, step in plan_steps(pending.pop()):
            template = template_of(step, templates)
            inner = _fixed_plan(template, templates, made) if template else None
            if inner is not None and step.template not in found:
                found[step.template] = inner
                pending.append(inner)
    return found
