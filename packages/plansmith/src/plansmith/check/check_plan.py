"""Checks a plan against the available tools, agents and templates, and lists its problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Final

from plansmith.check.arguments import argument_problems, schema_problems
from plansmith.check.constraints import Constraint, constraint_problems
from plansmith.check.flow import Flow
from plansmith.check.names import Catalogue, Names
from plansmith.check.placeholders import Placeholders
from plansmith.check.rules import rule_problems
from plansmith.errors import JournalDamaged, Misconfigured
from plansmith.plan.capability import AgentSpec, Tools
from plansmith.plan.data import Json, Path
from plansmith.plan.earlier import NOTHING_EARLIER, Earlier, UsableResults, uses_of
from plansmith.plan.graph import cycle_problems
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import (
    FROM,
    ITEM,
    PARAMS,
    RESERVED,
    Found,
    earlier_parts,
    is_earlier,
    whole_ref,
)
from plansmith.plan.schedules import apart
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    LONGEST_TIMEOUT_S,
    AgentStep,
    AnyStep,
    MapStep,
    PlanStep,
    StepFields,
    ToolStep,
)
from plansmith.plan.timing import Timing, check_timing

_MOST_GUESSES: Final = 50


def check_plan(
    plan: Plan,
    tools: Tools | Catalogue,
    *,
    agents: Iterable[str | AgentSpec] | None = None,
    templates: Iterable[str] | None = None,
    parameters: Collection[str] | None = None,
    max_steps: int | None = None,
    constraints: Iterable[Constraint] | None = None,
    earlier: Earlier = NOTHING_EARLIER,
) -> list[Problem]:
    """Returns all problems of a plan, errors as well as warnings and notes.

    `parameters` are what a template's plan may refer to, `earlier` results of earlier runs that a
    plan of a conversation may use.
    """
    catalogue = Catalogue.of(tools)
    calls = _Calls(catalogue, agents, templates)
    problems = [*_check_ids(plan), *_check_size(plan, max_steps), *_check_schedule(plan)]
    problems += _check_steps(plan, catalogue, calls, parameters, earlier)
    if constraints:
        problems += constraint_problems(plan, catalogue, constraints, agents or (), templates or ())
    return problems + cycle_problems(plan.needs)


def _check_steps(
    plan: Plan,
    catalogue: Catalogue,
    calls: _Calls,
    parameters: Collection[str] | None,
    earlier: Earlier,
) -> list[Problem]:
    flow = Flow(plan, catalogue, earlier.values)
    problems: list[Problem] = []
    for step in plan.steps:
        inner: AnyStep = step.each if step.kind == "map" else step
        problems += _check_references(step, plan, parameters, earlier)
        given = Placeholders(inner.inputs) if inner.kind == "tool" else None
        problems += [*_check_map(step), *_check_timeouts(step), *calls.check(inner, given)]
        problems += flow.problems(step, given)
    return [*problems, *rule_problems(plan, flow, calls.check)]


async def used_results(plan: Plan, usable: UsableResults) -> Earlier:
    """Returns the results that a plan may use, with the values of those that it uses."""
    values: dict[str, Json] = {}
    for ref in uses_of(plan):
        known = usable.results.get(ref)
        if known is None:
            continue
        try:
            values[ref] = await usable.load(known.hash)
        except JournalDamaged:
            continue  # the check says that it is gone
    return Earlier(usable.results, values)


class Way(StrEnum):
    """What comes next for a plan."""

    REPORT = "report"
    RUN = "run"
    REVIEW = "review"


def way_on(plan: Plan, *, done: Collection[str] = ()) -> Way:
    """Decides by `enough_context`: run open steps, or report if there are none; else review.

    `done` are the ids of finished steps.
    """
    if not plan.enough_context:
        return Way.REVIEW
    finished = set(done)
    is_open = any(not step.disabled and step.id not in finished for step in plan.steps)
    return Way.RUN if is_open else Way.REPORT


def _check_ids(plan: Plan) -> Iterator[Problem]:
    if not [step for step in plan.steps if not step.disabled]:
        hint = Sentence("add a step, or switch one on") if plan.steps else Sentence("add a step")
        yield problem(
            "PS307", Sentence("the plan has no step that would run"), hint=hint, path=("steps",)
        )
    seen: set[str] = set()
    for step in _all_steps(plan):
        if step.id in RESERVED:
            message = Sentence("'{id}' has a meaning of its own in references", id=step.id)
            hint = Sentence("choose another id")
            yield problem("PS306", message, hint=hint, step=step.id, path=("id",))
        elif step.id in seen:
            message = Sentence("two steps have the id '{id}'", id=step.id)
            hint = Sentence("rename one of them")
            yield problem("PS304", message, hint=hint, step=step.id, path=("id",))
        seen.add(step.id)


def _check_size(plan: Plan, max_steps: int | None) -> Iterator[Problem]:
    if max_steps is None:
        return
    counted = [
        step for step in plan.steps if not step.disabled and step.kind not in ("ask", "reply")
    ]
    if len(counted) > max_steps:
        message = Sentence(
            "the plan has {count} steps, and {most} are allowed", count=len(counted), most=max_steps
        )
        hint = Sentence("join steps, use a map step, or raise the limit; nothing was cut")
        yield problem("PS313", message, hint=hint, path=("steps",))


def _check_schedule(plan: Plan) -> Iterator[Problem]:
    """Reports a schedule that this machine cannot compute; the schedule is not changed."""
    times: dict[Path, Timing] = {("schedules", name): each for name, each in plan.schedules.items()}
    times |= {("schedule",): plan.schedule} if plan.schedule else {}
    for path, timing in times.items():
        try:
            check_timing(timing)
        except Misconfigured as flaw:
            yield problem("PS314", flaw.message, hint=flaw.hint, path=path)
    for name in plan.schedules.keys() - plan.by_id.keys():
        message = Sentence("there is no step '{step}' that could have a schedule", step=name)
        hint = Sentence("name a step")
        yield problem("PS314", message, hint=hint, path=("schedules", name))
    for step, other in apart(plan):
        message = Sentence(
            "'{step}' needs '{other}', but they run at different times", step=step, other=other
        )
        hint = Sentence("give both the same schedule")
        yield problem("PS314", message, hint=hint, step=step, path=("after",))


def _all_steps(plan: Plan) -> Iterator[StepFields]:
    for step in plan.steps:
        yield step
        if isinstance(step, MapStep):
            yield step.each


def _check_references(
    step: AnyStep, plan: Plan, parameters: Collection[str] | None, earlier: Earlier
) -> Iterator[Problem]:
    steps = plan.by_id
    for found in step.references:
        name = found.ref.step if found.ref else ""
        if step.is_own(found):
            continue
        if name not in steps and is_earlier(name):
            yield from _check_earlier(step, name, found.where, earlier)
        elif name not in steps or steps[name].disabled or name in RESERVED:
            yield from _check_reference(step, found, plan, parameters)
    for position, need in enumerate(step.after):
        if need not in plan.by_id:
            message = Sentence(
                "'{step}' comes after '{name}', which is not a step", step=step.id, name=need
            )
            hint = _near(need, plan.by_id)
            yield problem("PS302", message, hint=hint, step=step.id, path=("after", position))


def _check_earlier(step: AnyStep, ref: str, where: Path, earlier: Earlier) -> Iterator[Problem]:
    """Yields a result of an earlier run that is not this plan's to use, or that is gone."""
    if ref in earlier.values:
        return
    run, name = earlier_parts(ref)
    code = "ps.earlier_gone" if ref in earlier.results else "ps.earlier_unusable"
    listed = earlier.listed()
    hint = Sentence(
        "only a plan of a conversation can use results, those of its "
        "earlier messages: give the value itself, or fetch it in the "
        "plan"
    )
    if listed:
        hint = Sentence("the results of earlier messages are {results}", results=listed)
    message = Sentence(code, run=run, step=name)
    yield problem("PS316", message, hint=hint, step=step.id, path=where)


def _check_reference(
    step: AnyStep, found: Found, plan: Plan, parameters: Collection[str] | None
) -> Iterator[Problem]:
    ref = found.ref
    if ref is None:
        code = "PS311" if found.flaw.startswith("{{") else "PS303"
        hint = _text_hint() if code == "PS311" else _json_hint()
        yield problem(code, found.flaw, hint=hint, step=step.id, path=found.where)
    elif ref.step == ITEM and found.where[:1] != ("each",):
        message = Sentence("{ref} has a meaning only inside a map step", ref=str(ref))
        hint = Sentence("name a step")
        yield problem("PS302", message, hint=hint, step=step.id, path=found.where)
    elif ref.step == PARAMS:
        known = parameters or ()
        if not ref.path or ref.path[0] not in known:
            near = _near(str(ref.path[0]) if ref.path else "", known)
            message = Sentence("{ref} names no parameter of this plan", ref=str(ref))
            yield problem("PS302", message, hint=near, step=step.id, path=found.where)
    elif ref.step not in plan.by_id and ref.step != ITEM:
        hint = Sentence("{near}; {text}", near=_near(ref.step, plan.by_id), text=_text_hint())
        message = Sentence("{ref} names no step", ref=str(ref))
        yield problem("PS302", message, hint=hint, step=step.id, path=found.where)
    elif ref.step in plan.by_id and plan.by_id[ref.step].disabled and not step.disabled:
        message = Sentence("{ref} is the output of a step that is switched off", ref=str(ref))
        hint = Sentence("switch '{step}' on, or take the reference out", step=ref.step)
        yield problem("PS308", message, hint=hint, step=step.id, path=found.where)


def _text_hint() -> Sentence:
    return Sentence("braces that are meant as text are written {example}", example='{{"{{"}}')


def _json_hint() -> Sentence:
    example = '{"$from": "step", "$path": ["key", 0]}'
    return Sentence(
        "write {example}; data goes into {literal}", example=example, literal='{"$literal": …}'
    )


def _near(name: str, known: Collection[str]) -> str:
    return Names(known).hint(name)


def _check_map(step: AnyStep) -> Iterator[Problem]:
    if step.kind != "map":
        return
    malformed = isinstance(step.over, dict) and FROM in step.over  # which is told as such
    if not isinstance(step.over, list) and not malformed and whole_ref(step.over) is None:
        message = Sentence("`over` is neither a list nor a reference to one")
        yield problem("PS309", message, hint=_json_hint(), step=step.id, path=("over",))
    if step.each.after:
        message = Sentence(
            "the inner step of a map step runs once an item and waits for nothing else"
        )
        hint = Sentence("put `after` on the map step")
        yield problem("PS310", message, hint=hint, step=step.id, path=("each", "after"))


def _check_timeouts(step: AnyStep) -> Iterator[Problem]:
    places: dict[Path, StepFields] = {("timeout_s",): step}
    if isinstance(step, MapStep):
        places["each", "timeout_s"] = step.each
    for path, each in places.items():
        if each.timeout_s is not None and each.timeout_s > LONGEST_TIMEOUT_S:
            seconds = f"{each.timeout_s:g}"
            message = Sentence(
                "'{step}' may take {seconds} seconds, which is more than a year",
                step=step.id,
                seconds=seconds,
            )
            hint = Sentence(
                "give at most {most} seconds, or leave it out", most=f"{LONGEST_TIMEOUT_S:.0f}"
            )
            yield problem("PS315", message, hint=hint, step=step.id, path=path)


def agent_names(agents: Iterable[str | AgentSpec]) -> tuple[set[str], dict[str, str]]:
    """Returns the agents a plan may use, and why it may not use the others."""
    known: set[str] = set()
    refused: dict[str, str] = {}
    for entry in agents:
        reason = "" if isinstance(entry, str) else _refusal(entry)
        if reason and isinstance(entry, AgentSpec):
            refused[entry.name] = reason
        else:
            known.add(entry if isinstance(entry, str) else entry.name)
    return known, {name: reason for name, reason in refused.items() if name not in known}


def _refusal(agent: AgentSpec) -> str:
    if not agent.enabled:
        return Sentence("the agent '{name}' is switched off", name=agent.name)
    if agent.hidden:
        return Sentence("the agent '{name}' is hidden from planning", name=agent.name)
    if not agent.passthrough:
        return ""
    return Sentence(
        "the agent '{name}' takes whole requests only, never a step of a plan", name=agent.name
    )


class _Calls:
    """Checks names of tools, agents and templates, with similar ones, and arguments of tools."""

    def __init__(
        self,
        tools: Catalogue,
        agents: Iterable[str | AgentSpec] | None,
        templates: Iterable[str] | None,
    ) -> None:
        known, self.refused = agent_names(agents or ())
        self.tools = tools
        self.told: set[str] = set()
        self.agents = None if agents is None else Names(known)
        self.templates = None if templates is None else Names(set(templates))
        self.guesses: dict[tuple[str, str], str] = {}

    def check(self, step: AnyStep, given: Placeholders | None = None) -> Iterable[Problem]:
        match step:
            case ToolStep() if step.tool not in self.tools.names:
                return self._look_up(step, "PS101", "tool", step.tool, self.tools.names)
            case ToolStep():
                return self._arguments(step, given or Placeholders(step.inputs))
            case AgentStep():
                return self._look_up(step, "PS102", "agent", step.agent, self.agents)
            case PlanStep():
                return self._look_up(step, "PS103", "template", step.template, self.templates)
            case _:
                return ()

    def _arguments(self, step: ToolStep, given: Placeholders) -> Iterator[Problem]:
        spec = self.tools.get(step.tool)
        if spec is None:
            return
        if spec.name not in self.told:  # an invalid schema is told once
            self.told.add(spec.name)
            yield from schema_problems(spec, step.id)
        yield from argument_problems(step, spec, takes=self.tools.takes(spec), arguments=given)

    def _look_up(
        self, step: StepFields, code: str, what: str, name: str, known: Names | None
    ) -> Iterator[Problem]:
        if known is None or name in known.known:
            return
        key = code, name
        # Limited, because every suggestion compares the name with similar ones.
        if key not in self.guesses:
            enough = len(self.guesses) >= _MOST_GUESSES
            self.guesses[key] = Sentence(f"hint.choose_{what}") if enough else known.hint(name)
        message: str = Sentence(f"unknown.{what}", name=name)
        if code == "PS102" and name in self.refused:
            message = self.refused[name]
        yield problem(code, message, hint=self.guesses[key], step=step.id, path=(what,))
