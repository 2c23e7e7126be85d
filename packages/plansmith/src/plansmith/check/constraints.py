"""Rules that plans have to keep, and the problems of a plan that breaks one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from plansmith.check.names import Catalogue
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Flag, Path, Record, StrictInt
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep


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
    max_steps: StrictInt | None = Field(default=None, ge=0)
    max_calls: StrictInt | None = Field(default=None, ge=0)

    @property
    def is_prose(self) -> bool:
        """Whether only a person can check the rule."""
        return not (self.is_about_calls or self.require_tools or self.max_steps is not None)

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
    steps: list[AnyStep] = []
    for step in plan.steps:
        if not step.disabled:
            steps += [step, step.each] if step.kind == "map" else [step]
    kept = set(templates)
    runs_template = any(step.kind == "plan" and step.template in kept for step in steps)
    cards = {each.name: each for each in agents if isinstance(each, AgentSpec)}
    calls = [
        (step, tools.get(step.tool) if step.kind == "tool" else cards.get(step.callee))
        for step in steps
        if step.callee
    ]
    known = {name.lower() for name in (*tools.names.known, *(step.callee for step, _ in calls))}
    for rule in constraints:
        # "Only use …" that names no tool or agent is about something else.
        names_none = not any(_is_among(name, rule.only_tools) for name in known)
        is_prose = rule.is_prose or (rule.only_tools and names_none)
        for message, hint, name, path in () if is_prose else _breaks(rule, steps, calls):
            by_person = "PS502" if rule.hard else "PS503"
            code = "PS501" if rule.source == "policy" else by_person
            told = Sentence("ps.by_rule", problem=message, rule=rule.text) if rule.text else message
            severity = Severity.ERROR if rule.hard else Severity.WARNING
            yield problem(code, told, hint=hint, step=name, path=path, severity=severity)
        # What a template calls is not known here.
        if is_prose or (rule.is_about_calls and runs_template):
            message = Sentence(
                "a constraint that only a person can judge must be kept: {rule}"
                if rule.hard
                else "a constraint that only a person can judge should be kept: {rule}",
                rule=rule.text or Sentence("no text"),
            )
            yield problem("PS503", message, hint=Sentence("check that the plan keeps it"))


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


_Break = tuple[Sentence, Sentence, str | None, Path]  # what is wrong, what to do, and where


def _breaks(
    rule: Constraint, steps: list[AnyStep], calls: list[tuple[AnyStep, ToolSpec | AgentSpec | None]]
) -> Iterator[_Break]:
    for step, spec in calls:
        for message, hint in _of_call(rule, step.callee, spec):
            yield message, hint, step.id, (step.kind,)
    whole: Path = ("steps",)
    for pattern in rule.require_tools:
        if not any(_is_among(step.callee, [pattern]) for step, _ in calls):
            message = Sentence("the plan does not use '{tool}', which it has to", tool=pattern)
            yield message, Sentence("add a step with '{tool}'", tool=pattern), None, whole
    # Questions to the person do not count: they are added where a value is missing.
    count = sum(step.kind != "ask" for step in steps)
    if rule.max_steps is not None and count > rule.max_steps:
        message = Sentence("ps.many_steps", count=count, most=rule.max_steps)
        yield message, Sentence("use fewer steps"), None, whole
    # Each item of a list is a call; of a list that is not known yet, two are counted.
    lists = {step.each.id: step.over for step in steps if step.kind == "map"}
    sizes = {name: len(over) if isinstance(over, list) else 2 for name, over in lists.items()}
    times = sum(sizes.get(step.id, 1) for step, _ in calls)
    if rule.max_calls is not None and times > rule.max_calls:
        message = Sentence(
            "the plan makes {count} calls or more, and {most} are allowed",
            count=times,
            most=rule.max_calls,
        )
        yield message, Sentence("use fewer tools and agents"), None, whole


def _of_call(
    rule: Constraint, callee: str, spec: ToolSpec | AgentSpec | None
) -> Iterator[tuple[Sentence, Sentence]]:
    name = callee.lower()
    display_name = name if spec is None else spec.name
    if rule.only_tools and not _is_among(name, rule.only_tools):
        only = [*rule.only_tools]
        message = Sentence("'{tool}' is not among what may be used: {only}", tool=name, only=only)
        yield message, Sentence("use one of {tools}", tools=only)
    if _is_among(name, rule.forbid_tools):
        yield Sentence("'{tool}' is not allowed", tool=display_name), Sentence("use another tool")
    if spec is not None and spec.effect in rule.forbid_effects:
        effect = spec.effect.value
        message = Sentence(
            "'{tool}' has the effect '{effect}', not allowed", tool=display_name, effect=effect
        )
        yield message, Sentence("use a tool with less effect")
