"""Rules that plans have to keep, and the problems of a plan that breaks one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from plansmith.check.names import Catalogue
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Flag, Json, Path, Record, Whole
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AskStep, MapStep, PlanStep, StepFields, ToolStep


class Constraint(Record):
    """A rule for plans: a hard one rejects a plan, a soft one warns.

    `text` is the rule in words. A rule without any other field cannot be checked here and is
    shown to the reviewer.
    """

    text: str = ""
    hard: Flag = True
    source: Literal["person", "policy"] = "person"
    forbid_tools: tuple[str, ...] = ()
    forbid_effects: tuple[Effect, ...] = ()
    require_tools: tuple[str, ...] = ()
    only_tools: tuple[str, ...] = ()
    max_steps: Whole | None = Field(default=None, ge=0)
    max_calls: Whole | None = Field(default=None, ge=0)
    forbid_words: tuple[str, ...] = ()

    @property
    def is_prose(self) -> bool:
        """Whether only a person can check the rule."""
        return not self.is_about_calls and not (
            self.require_tools or self.forbid_words or self.max_steps is not None
        )

    @property
    def is_about_calls(self) -> bool:
        names = self.forbid_tools or self.forbid_effects or self.only_tools
        return bool(names) or self.max_calls is not None


def step_limit(rules: Iterable[Constraint], most: int) -> int:
    """Returns how many steps a plan may have: the smallest number of the hard rules."""
    return min([most, *(r.max_steps for r in rules if r.hard and r.max_steps is not None)])


def constraint_problems(
    plan: Plan,
    tools: Catalogue,
    constraints: Iterable[Constraint],
    agents: Iterable[str | AgentSpec] = (),
    templates: Iterable[str] = (),
) -> Iterator[Problem]:
    """Returns violations of constraints, and the constraints that only a person can judge."""
    steps = [inner for step in plan.steps if not step.disabled for inner in _with_inner(step)]
    kept = set(templates)
    runs_template = any(isinstance(step, PlanStep) and step.template in kept for step in steps)
    cards = {each.name: each for each in agents if isinstance(each, AgentSpec)}
    for rule in constraints:
        if rule.is_prose or (rule.only_tools and not _names_a_tool(rule, steps, tools)):
            yield _to_judge(rule)
            continue
        for step in steps:
            yield from _of_step(rule, step, _spec(step, tools, cards))
        yield from _of_plan(rule, steps)
        if rule.is_about_calls and runs_template:
            yield _to_judge(rule)  # what a template calls is not known here


def _names_a_tool(rule: Constraint, steps: list[StepFields], tools: Catalogue) -> bool:
    """Whether "only use …" names a tool or agent; else it is about something else."""
    names = {*(name.lower() for name in tools.names.known), *map(_callee, steps)}
    return any(_is_among(name, rule.only_tools) for name in names)


def _callee(step: StepFields) -> str:
    """Returns the tool or agent that a step calls, in lower case; empty if it calls none."""
    match step:
        case ToolStep(tool=name) | AgentStep(agent=name):
            return name.lower()
        case _:
            return ""


def _with_inner(step: StepFields) -> list[StepFields]:
    return [step, step.each] if isinstance(step, MapStep) else [step]


def _to_judge(rule: Constraint) -> Problem:
    text = rule.text or Sentence("no text")
    message = Sentence(
        "a constraint that only a person can judge must be kept: {rule}"
        if rule.hard
        else "a constraint that only a person can judge should be kept: {rule}",
        rule=text,
    )
    return problem("PS503", message, hint=Sentence("check that the plan keeps it"))


def _spec(
    step: StepFields, tools: Catalogue, agents: Mapping[str, AgentSpec]
) -> ToolSpec | AgentSpec | None:
    match step:
        case ToolStep(tool=name):
            return tools.get(name)
        case AgentStep(agent=name):
            return agents.get(name)
        case _:
            return None


def _of_step(
    rule: Constraint, step: StepFields, spec: ToolSpec | AgentSpec | None
) -> Iterator[Problem]:
    name = _callee(step)
    if name:
        yield from _of_call(rule, step, name, spec)
    if rule.forbid_words and not isinstance(step, MapStep):
        banned = [word for word in rule.forbid_words if word]
        for path, text in _texts(step):
            for word in banned:
                if word.lower() in text.lower():
                    message = Sentence("the step must not contain '{word}'", word=word)
                    yield _broken(rule, message, Sentence("take it out"), step.id, path)


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


def _of_call(
    rule: Constraint, step: StepFields, name: str, spec: ToolSpec | AgentSpec | None
) -> Iterator[Problem]:
    place: Path = ("tool",) if isinstance(step, ToolStep) else ("agent",)
    shown = name if spec is None else spec.name
    if rule.only_tools and not _is_among(name, rule.only_tools):
        message = Sentence(
            "'{tool}' is not among what may be used: {only}", tool=name, only=[*rule.only_tools]
        )
        hint = Sentence("use one of {tools}", tools=[*rule.only_tools])
        yield _broken(rule, message, hint, step.id, place)
    if _is_among(name, rule.forbid_tools):
        message = Sentence("'{tool}' is not allowed", tool=shown)
        yield _broken(rule, message, Sentence("use another tool"), step.id, place)
    if spec is not None and spec.effect in rule.forbid_effects:
        message = Sentence(
            "'{tool}' has the effect '{effect}', not allowed", tool=shown, effect=spec.effect.value
        )
        yield _broken(rule, message, Sentence("use a tool with less effect"), step.id, place)


def _texts(step: StepFields) -> Iterator[tuple[Path, str]]:
    stack: list[tuple[Path, Json]] = list(step.templates())
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            stack.extend(((*path, key), each) for key, each in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, place), each) for place, each in enumerate(value))


def _of_plan(rule: Constraint, steps: list[StepFields]) -> Iterator[Problem]:
    used = [name for name in map(_callee, steps) if name]
    for pattern in rule.require_tools:
        if not any(_is_among(name, [pattern]) for name in used):
            message = Sentence("the plan does not use '{tool}', which it has to", tool=pattern)
            hint = Sentence("add a step with '{tool}'", tool=pattern)
            yield _broken(rule, message, hint, None, ("steps",))
    # Questions to the person do not count: they are added where a value is missing.
    count = sum(not isinstance(step, AskStep) for step in steps)
    if rule.max_steps is not None and count > rule.max_steps:
        message = Sentence("ps.many_steps", count=count, most=rule.max_steps)
        yield _broken(rule, message, Sentence("use fewer steps"), None, ("steps",))
    if rule.max_calls is not None and (calls := _calls(steps)) > rule.max_calls:
        message = Sentence(
            "the plan makes {count} calls or more, and {most} are allowed",
            count=calls,
            most=rule.max_calls,
        )
        yield _broken(rule, message, Sentence("use fewer tools and agents"), None, ("steps",))


def _calls(steps: list[StepFields]) -> int:
    """Counts the calls of a plan, as far as they are known: each item of a list is one."""
    inner = {step.each.id: step.over for step in steps if isinstance(step, MapStep)}
    sizes = {name: len(over) if isinstance(over, list) else 2 for name, over in inner.items()}
    return sum(sizes.get(step.id, 1) for step in steps if _callee(step))


def _broken(rule: Constraint, message: str, hint: str, step: str | None, path: Path) -> Problem:
    personal = "PS502" if rule.hard else "PS503"
    code = "PS501" if rule.source == "policy" else personal
    words = Sentence("ps.by_rule", problem=message, rule=rule.text) if rule.text else message
    found = problem(code, words, hint=hint, step=step, path=path)
    severity = Severity.ERROR if rule.hard else Severity.WARNING
    return found.model_copy(update={"severity": severity})
