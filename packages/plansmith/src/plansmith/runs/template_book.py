"""The templates of a Plansmith: kept, checked, and made runs of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from plansmith.check.check_plan import check_plan
from plansmith.check.names import Names
from plansmith.errors import NotFound, PlanInvalid, Refused
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.data import Json, canonical_json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.sentence import Sentence
from plansmith.ports import Document
from plansmith.templates.parameters import bind, parameter_names, parametrise
from plansmith.templates.stored import KIND, REMOVED, shipped_fields, usable_templates
from plansmith.templates.template import (
    REQUEST,
    Template,
    input_problems,
    make_template,
    template_problems,
    with_defaults,
)

if TYPE_CHECKING:
    from plansmith.formats import text as dialect_text
    from plansmith.runs.service import RunService
else:
    lazy_modules(globals(), dialect_text="plansmith.formats.text")


class TemplateBook:
    """The templates of a Plansmith: those that its program passed in, and those in its store.

    Args of methods:
        name: Such as `weather`, or `weather@2` for exactly that version.
        language: The language of shipped templates.
        inputs: The values of its parameters.
        by: Who acts.

    Examples:
        >>> from plansmith import Plansmith, read_plan
        >>> smith = Plansmith()
        >>> plan = read_plan({"goal": "Greet", "steps": [{"id": "name", "question": "Who?"}]})
        >>> template = await smith.templates.save(plan, "greet")
        >>> run = await smith.templates.use("greet")
        >>> run.origin.id
        'greet@1'
    """

    def __init__(self, runs: RunService) -> None:
        self._submit, self._registry = runs.submit, runs.registry

    async def all(self) -> dict[str, Template]:
        """Returns every usable template: `name` is its newest version, `name@2` exactly that."""
        return await usable_templates(self._registry.store, self._registry.templates)

    async def get(self, name: str, *, language: str = "en") -> Template:
        """Returns a template by its name.

        Raises:
            NotFound: There is no such template.
        """
        known = await self.all()
        if name in known:
            return known[name]
        shipped = self.shipped(language)
        if name in shipped:
            return shipped[name]
        names = [*(each for each in known if "@" not in each), *shipped]
        hint = Names(names).hint(name.partition("@")[0])
        raise NotFound(Sentence("there is no template '{name}'", name=name), hint=hint)

    @staticmethod
    def shipped(language: str = "en") -> dict[str, Template]:
        """Returns the templates that come with Plansmith.

        Args:
            language: `en` or `zh`.
        """
        return {
            name: make_template({**fields, "name": name})
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
        """Saves a plan or a finished run as a template.

        Args:
            source: The plan, or a run that is done.
            name: The name; if it is taken, the template becomes its next version.
            parameters: Where the value of each parameter stands, such as `now.inputs.city`.
            required: The parameters that have no default.
            by: Who saves it.

        Raises:
            PlanInvalid: The template has errors.
            Refused: The run is not done, or has no plan.
        """
        plan = source.plan if isinstance(source, Run) else source
        if isinstance(source, Run) and source.status is not RunStatus.DONE:
            state = Sentence(f"status.{source.status}")
            raise Refused(
                Sentence("run {run} is {status}", run=source.id, status=state),
                hint=Sentence(
                    "only a run that is done can become a template; save its plan file instead"
                ),
            )
        if plan is None:
            raise Refused(Sentence("the run has no plan"))
        tools = (await self._registry.callees()).specs
        made = parametrise(plan, parameters or {}, tools=tools, required=required)
        bare = made.plan.replace(id=None, revision=1, thought="", degraded=None)
        fields = {"name": name, "parameters": made.parameters, "plan": bare}
        if isinstance(source, Run):
            fields |= {"request": source.request, "run": source.id}
        return await self._keep(make_template(fields), by)

    async def take_in(self, text: str | bytes, *, name: str = "", by: e.Who = "") -> Template:
        """Imports a template from a file, as the next version of its name.

        Args:
            text: The content of the file, JSON or YAML.
            name: Another name than the file has.
            by: Who imports it.

        Raises:
            PlanInvalid: The text cannot be read, or the template has errors.
            Refused: The text is no template.
        """
        value = dialect_text.read_text(text)
        if isinstance(value, Problem):
            raise PlanInvalid([value])
        if not isinstance(value, dict):
            raise Refused(
                Sentence("the file contains no template"),
                hint=Sentence("`templates export` writes one"),
            )
        fields = {key: each for key, each in value.items() if key != "version"}
        return await self._keep(make_template(fields | ({"name": name} if name else {})), by)

    async def _keep(self, template: Template, by: e.Who) -> Template:
        _require_no_errors(await self.problems(template))
        newest = (await self.all()).get(template.name)
        if newest is not None and newest.substance() == template.substance():
            return newest
        if newest is not None:
            _require_saved(newest)
        signed = template.replace(
            version=1, saved_by=e.actor(by).label, saved_at=self._registry.clock.now()
        )
        body = canonical_json(signed.to_json()).decode()
        name, store = template.name, self._registry.store
        while True:
            last = await store.documents(KIND, label=name, newest=True, limit=1)
            number = int(last[0].place) + 1 if last else 1
            new = Document(KIND, f"{name}@{number}", 1, body, name, f"{number:09}")
            if await store.put_documents([new]):
                return signed.replace(version=number)

    async def remove(self, name: str) -> int:
        """Removes a template or one version of it; returns how many versions were removed.

        Raises:
            NotFound: There is no such template.
            Refused: The program or Plansmith itself brings it.
        """
        template = await self.get(name)
        if template.name in self.shipped() and name not in await self.all():
            raise Refused(Sentence("the template '{name}' comes with Plansmith", name=name))
        _require_saved(template)
        store = self._registry.store
        while True:
            found = [
                each._replace(version=each.version + 1, state=REMOVED)
                for each in await store.documents(KIND, label=template.name, state="")
                if "@" not in name or int(each.place) == template.version
            ]
            if await store.put_documents(found):
                return len(found)

    async def problems(self, template: Template) -> list[Problem]:
        """Returns the problems of a template, given the present tools, agents and templates.

        Args:
            template: The template.
        """
        known = await self.all()
        names = [*template.properties, REQUEST]
        found = check_plan(
            template.plan,
            list((await self._registry.callees()).specs.values()),
            agents=self._registry.agents(),
            templates=known,
            parameters=names,
        )
        unused = sorted(template.properties.keys() - parameter_names(template.plan))
        for name in unused:
            message = Sentence("no step uses the parameter '{name}'", name=name)
            found.append(problem("PS302", message, hint=Sentence("take it out")))
        return [*found, *template_problems(template.plan, known | {template.name: template})]

    async def plan(
        self, name: str, inputs: Mapping[str, Json] | None = None, *, language: str = "en"
    ) -> Plan:
        """Returns the plan of a template with its parameters filled in, checked like any plan.

        Raises:
            PlanInvalid: A parameter is missing or wrong, or the plan has errors.
        """
        template = await self.get(name, language=language)
        given = dict(inputs or {})
        _require_no_errors([*input_problems(template, given), *await self.problems(template)])
        return bind(template.plan, with_defaults(template, given))

    async def use(
        self,
        name: str,
        inputs: Mapping[str, Json] | None = None,
        by: e.Who = "",
        *,
        language: str = "en",
    ) -> Run:
        """Creates a run of a template, reviewed like any other plan.

        Raises:
            PlanInvalid: A parameter is missing or wrong, or the plan has errors.
        """
        template = await self.get(name, language=language)
        plan = await self.plan(name, inputs, language=language)
        return await self._submit(
            plan,
            request=plan.goal or template.request,
            origin=Origin(kind="template", id=template.full_name),
            by=by,
        )


def _require_saved(template: Template) -> None:
    if template.saved_at is None:
        why = Sentence("the program passes in the template '{name}' itself", name=template.name)
        raise Refused(why)


def _require_no_errors(problems: Sequence[Problem]) -> None:
    if errors := [each for each in problems if each.severity is Severity.ERROR]:
        raise PlanInvalid(errors)
