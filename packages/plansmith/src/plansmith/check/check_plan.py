"""Checks a plan against the available tools, agents and templates, and lists its problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.check.arguments import Placeholders, argument_problems, schema_problems
from plansmith.check.constraints import Constraint, constraint_problems
from plansmith.check.flow import Flow, rule_problems
from plansmith.check.names import Catalogue, KnownTool, Names
from plansmith.errors import JournalDamaged, Misconfigured
from plansmith.plan import refs
from plansmith.plan.capability import AgentSpec, Tools
from plansmith.plan.data import Json, Path
from plansmith.plan.earlier import NO_RESULTS, UsableResults, uses_of
from plansmith.plan.graph import cycle_problems
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_TIMEOUT_S, AnyStep, StepFields, ToolStep
from plansmith.plan.timed_plans import conflicting_times
from plansmith.plan.timing import Timing, require_valid_timing

if TYPE_CHECKING:
    from plansmith.ports import Secrets

_MAX_GUESSES: Final = 4
_TEXT_HINT: Final = Sentence(
    "braces that are meant as text are written {example}", example='{{"{{"}}'
)
_JSON_HINT: Final = Sentence(
    "write {example}; data goes into {literal}",
    example='{"$from": "step", "$path": ["key", 0]}',
    literal='{"$literal": …}',
)


def check_plan(
    plan: Plan,
    tools: Tools | Catalogue,
    *,
    agents: Iterable[str | AgentSpec] | None = None,
    templates: Iterable[str] | None = None,
    parameters: Collection[str] | None = None,
    max_steps: int | None = None,
    constraints: Iterable[Constraint] | None = None,
    usable: UsableResults = NO_RESULTS,
) -> list[Problem]:
    """Returns what is wrong with a plan: errors, warnings and notes.

    `Plansmith.check` adds what looks like a mistake, its templates and its secrets.
    `parameters` are what a template's plan may refer to, `usable` results of earlier runs that a
    plan of a conversation may use.
    """
    catalogue = Catalogue.of(tools)
    problems = [*_check_ids(plan, max_steps)]
    if plan.schedule or plan.schedules:
        problems += _check_schedule(plan)
    flow = Flow(plan, catalogue, usable.values)
    calls = _Calls(flow, agents, templates)
    for step in plan.steps:
        problems += _check_references(step, flow, parameters or (), usable)
        if step.timeout_s is not None or step.kind == "map":
            problems += _check_limits(step)
        problems += calls.check(step)
        if step.kind == "map":
            problems += flow.not_a_list(step)
    problems += rule_problems(plan, flow, calls.check_tool)
    if constraints:
        problems += constraint_problems(plan, catalogue, constraints, agents or (), templates or ())
    return problems + cycle_problems(plan.needs)


async def used_results(plan: Plan, usable: UsableResults) -> UsableResults:
    """Returns the results that a plan may use, with the values of those that it uses."""
    values: dict[str, Json] = {}
    for ref in uses_of(plan):
        if usable.load is not None and (known := usable.results.get(ref)):
            with suppress(JournalDamaged):  # the check says that it is gone
                values[ref] = await usable.load(known.hash)
    return replace(usable, values=values)


def _check_ids(plan: Plan, max_steps: int | None) -> Iterator[Problem]:
    if all(step.disabled for step in plan.steps):
        hint = Sentence("add a step, or switch one on") if plan.steps else Sentence("add a step")
        message = Sentence("the plan has no step that would run")
        yield problem("PS307", message, hint=hint, path=("steps",))
    seen: set[str] = set()
    for step in plan.steps:
        for name in (step.id, step.each.id) if step.kind == "map" else (step.id,):
            if name in refs.RESERVED:
                message = Sentence("'{id}' has a meaning of its own in references", id=name)
                hint = Sentence("choose another id")
                yield problem("PS306", message, hint=hint, step=name, path=("id",))
            elif name in seen:
                message = Sentence("two steps have the id '{id}'", id=name)
                hint = Sentence("rename one of them")
                yield problem("PS304", message, hint=hint, step=name, path=("id",))
            seen.add(name)
    if max_steps is None:
        return
    count = sum(not step.disabled and step.kind not in ("ask", "reply") for step in plan.steps)
    if count > max_steps:
        message = Sentence(
            "the plan has {count} steps, and {most} are allowed", count=count, most=max_steps
        )
        hint = Sentence("join steps, use a map step, or raise the limit; nothing was cut")
        yield problem("PS313", message, hint=hint, path=("steps",))


def _check_schedule(plan: Plan) -> Iterator[Problem]:
    """Reports a schedule that this machine cannot compute; the schedule is not changed."""
    times: dict[Path, Timing] = {("schedules", name): each for name, each in plan.schedules.items()}
    times |= {("schedule",): plan.schedule} if plan.schedule else {}
    for path, timing in times.items():
        try:
            require_valid_timing(timing)
        except Misconfigured as flaw:
            yield problem("PS314", flaw.message, hint=flaw.hint, path=path)
    for name in plan.schedules.keys() - plan.by_id.keys():
        message = Sentence("there is no step '{step}' that could have a schedule", step=name)
        hint = Sentence("name a step")
        yield problem("PS314", message, hint=hint, path=("schedules", name))
    for step, other in conflicting_times(plan):
        message = Sentence(
            "'{step}' needs '{other}', but they run at different times", step=step, other=other
        )
        hint = Sentence("give both the same schedule")
        yield problem("PS314", message, hint=hint, step=step, path=("after",))


def _check_references(
    step: AnyStep, flow: Flow, parameters: Collection[str], usable: UsableResults
) -> Iterator[Problem]:
    steps = flow.plan.by_id
    for found in step.references:
        name = found.ref.step if found.ref else ""
        runs = name in steps and not steps[name].disabled and name not in refs.RESERVED
        if found.ref is None:
            code, hint = ("PS311", _TEXT_HINT) if found.in_text else ("PS303", _JSON_HINT)
            yield problem(code, found.flaw, hint=hint, step=step.id, path=found.where)
        elif not (runs or step.is_own(found) or name in usable.values):
            if refs.is_earlier(name):
                yield _unusable(step.id, name, found.where, usable)
            else:
                yield from _check_source(step, found.ref, found.where, flow.plan, parameters)
        if found.ref is not None and found.ref.path:
            yield from flow.missing_key(found, step)
    for position, need in enumerate(step.after):
        if need not in steps:
            message = Sentence(
                "'{step}' comes after '{name}', which is not a step", step=step.id, name=need
            )
            near = Names(steps).hint(need)
            yield problem("PS302", message, hint=near, step=step.id, path=("after", position))


def _unusable(step: str, ref: str, where: Path, usable: UsableResults) -> Problem:
    """Returns the problem that this plan may not use an earlier result, or that it is gone."""
    run, name = refs.earlier_parts(ref)
    code = "ps.earlier_gone" if ref in usable.results else "ps.earlier_unusable"
    hint = Sentence(
        "only a plan of a conversation can use results, those of its earlier messages: "
        "give the value itself, or fetch it in the plan"
    )
    if listed := usable.listed():
        hint = Sentence("the results of earlier messages are {results}", results=listed)
    return problem("PS316", Sentence(code, run=run, step=name), hint=hint, step=step, path=where)


def _check_source(
    step: AnyStep, ref: refs.Ref, where: Path, plan: Plan, parameters: Collection[str]
) -> Iterator[Problem]:
    """Yields what is wrong with a reference that names no step which runs."""
    code = "PS302"
    hint: str
    if ref.step == refs.ITEM:
        if where[:1] == ("each",):
            return
        message = Sentence("{ref} has a meaning only inside a map step", ref=str(ref))
        hint = Sentence("name a step")
    elif ref.step == refs.PARAMS:
        if ref.path and ref.path[0] in parameters:
            return
        message = Sentence("{ref} names no parameter of this plan", ref=str(ref))
        hint = Names(parameters).hint(str(ref.path[0]) if ref.path else "")
    elif ref.step not in plan.by_id:
        message = Sentence("{ref} names no step", ref=str(ref))
        near = Names(plan.by_id).hint(ref.step)
        hint = Sentence("{near}; {text}", near=near, text=_TEXT_HINT)
    elif step.disabled:
        return
    else:
        code = "PS308"
        message = Sentence("{ref} is the output of a step that is switched off", ref=str(ref))
        hint = Sentence("switch '{step}' on, or take the reference out", step=ref.step)
    yield problem(code, message, hint=hint, step=step.id, path=where)


def _check_limits(step: AnyStep) -> Iterator[Problem]:
    for path, seconds in (
        ((), step.timeout_s),
        (("each",), step.each.timeout_s if step.kind == "map" else None),
    ):
        if seconds is not None and seconds > MAX_TIMEOUT_S:
            message = Sentence(
                "'{step}' may take {seconds} seconds, which is more than a year",
                step=step.id,
                seconds=f"{seconds:g}",
            )
            most = f"{MAX_TIMEOUT_S:.0f}"
            hint = Sentence("give at most {most} seconds, or leave it out", most=most)
            place = (*path, "timeout_s")
            yield problem("PS315", message, hint=hint, step=step.id, path=place)
    if step.kind != "map":
        return
    malformed = isinstance(step.over, dict) and refs.FROM in step.over  # which is told as such
    if not isinstance(step.over, list) and not malformed and refs.whole_ref(step.over) is None:
        message = Sentence("`over` is neither a list nor a reference to one")
        yield problem("PS309", message, hint=_JSON_HINT, step=step.id, path=("over",))
    for field in (name for name in ("after", "disabled") if getattr(step.each, name)):
        message = Sentence(
            "the inner step of a map step runs once an item and waits for nothing else"
        )
        hint = Sentence("put `{field}` on the map step", field=field)
        yield problem("PS310", message, hint=hint, step=step.id, path=("each", field))


def agent_names(agents: Iterable[str | AgentSpec]) -> Names:
    """Returns the agents that a plan may use."""
    usable = (each for each in agents if isinstance(each, str) or each.takes_steps)
    return Names({each if isinstance(each, str) else each.name for each in usable})


class _Calls:
    """Checks what steps call: names, with similar ones, and arguments of tools."""

    def __init__(
        self, flow: Flow, agents: Iterable[str | AgentSpec] | None, templates: Iterable[str] | None
    ) -> None:
        self.flow = flow
        cards = [*(agents or ())]
        self.agents = None if agents is None else agent_names(cards)
        self.carded = {each.name for each in cards if isinstance(each, AgentSpec)}
        self.templates = None if templates is None else Names(set(templates))
        self.reported_schemas: set[str] = set()
        self.guesses: dict[tuple[str, str], str] = {}

    def check(self, step: AnyStep) -> Iterator[Problem]:
        """Yields the problems of the call of a step, or of a map step's inner one."""
        inner = step.inner
        if inner.kind == "tool":
            tool, given = self.flow.tools.tool(inner.tool), Placeholders(inner.inputs)
            yield from self._check_arguments(inner, tool, given)
            if given.refs and tool is not None:
                within = step if step.kind == "map" else None
                yield from self.flow.misfits(inner, within, tool, given)
        elif inner.kind == "agent":
            yield from self._look_up(inner.id, "PS102", "agent", inner.agent, self.agents)
        elif inner.kind == "plan":
            yield from self._look_up(inner.id, "PS103", "template", inner.template, self.templates)

    def check_tool(self, step: ToolStep) -> Iterable[Problem]:
        """Returns the problems of the call of a tool."""
        tool = self.flow.tools.tool(step.tool)
        return self._check_arguments(step, tool, Placeholders(step.inputs))

    def _check_arguments(
        self, step: ToolStep, tool: KnownTool | None, inputs: Placeholders
    ) -> Iterable[Problem]:
        if tool is None:
            return self._look_up(step.id, "PS101", "tool", step.tool, self.flow.tools.names)
        found = argument_problems(step.id, tool, inputs)
        if step.tool in self.reported_schemas:
            return found
        self.reported_schemas.add(step.tool)  # an invalid schema is reported once
        return [*schema_problems(step.id, tool), *found]

    def _look_up(
        self, step: str, code: str, what: str, name: str, names: Names | None
    ) -> Iterator[Problem]:
        if names is None or name in names.known:
            return
        key = code, name
        # Limited, because every suggestion compares the name with similar ones.
        if key not in self.guesses:
            enough = len(self.guesses) >= _MAX_GUESSES
            self.guesses[key] = Sentence(f"hint.choose_{what}") if enough else names.hint(name)
        message = Sentence(f"unknown.{what}", name=name)
        if code == "PS102" and name in self.carded:
            message = Sentence(
                "the agent '{name}' takes no steps: it is switched off, hidden from planning, or "
                "takes whole requests only",
                name=name,
            )
        yield problem(code, message, hint=self.guesses[key], step=step, path=(what,))


class SecretUse(NamedTuple):
    """A secret that a step names; `tool` is empty if it is used outside of a tool's inputs."""

    step: str
    name: str
    tool: str


def secret_uses(plan: Plan) -> tuple[SecretUse, ...]:
    """Returns the secrets that a plan names."""
    if refs.SECRET_MARK not in plan.stored_text:
        return ()
    uses: list[SecretUse] = []
    for step in plan.steps:
        inner: StepFields = step.inner
        given = refs.secret_names(inner.inputs) if isinstance(inner, ToolStep) else []
        for name in refs.secret_names(step.to_json()):
            tool = inner.tool if isinstance(inner, ToolStep) and name in given else ""
            uses.append(SecretUse(step.id, name, tool))
    return tuple(uses)


def secret_problems(plan: Plan, secrets: Secrets | None) -> Iterator[Problem]:
    """Yields a problem for each secret that is unknown or used outside of a tool's inputs."""
    for step, name, tool in secret_uses(plan):
        flaw: str = Sentence("there is no secret '{name}'", name=name)
        if not tool:
            flaw = Sentence(
                "the secret '{name}' would be readable here: use secrets only in inputs", name=name
            )
        elif secrets is not None:
            flaw = secrets.flaw(name, tool)
        if flaw:
            hint = Sentence("set [secrets.{name}], and the tools it is for", name=name)
            yield problem("PS501", flaw, hint=hint, step=step, path=("inputs",))
