"""Rules that plans have to keep, and the problems of a plan that breaks one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from plansmith.check.names import Catalogue
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Flag, Json, Path, Record, Whole
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
    steps = [*_active(plan)]
    kept = set(templates)
    runs_template = any(step.kind == "plan" and step.template in kept for step in steps)
    cards = {each.name: each for each in agents if isinstance(each, AgentSpec)}
    known = {*(name.lower() for name in tools.names.known), *map(_callee, steps)}
    for rule in constraints:
        # "Only use …" that names no tool or agent is about something else.
        names_none = not any(_is_among(name, rule.only_tools) for name in known)
        if rule.is_prose or (rule.only_tools and names_none):
            yield _to_judge(rule)
            continue
        for step in steps:
            if step.kind == "tool":
                yield from _of_call(rule, step.id, step.tool, ("tool",), tools.get(step.tool))
            if step.kind == "agent":
                yield from _of_call(rule, step.id, step.agent, ("agent",), cards.get(step.agent))
            yield from _of_words(rule, step)
        yield from _of_plan(rule, steps)
        if rule.is_about_calls and runs_template:
            yield _to_judge(rule)  # what a template calls is not known here


def _active(plan: Plan) -> Iterator[AnyStep]:
    for step in plan.steps:
        if not step.disabled:
            yield step
            if step.kind == "map":
                yield step.each


def _callee(step: AnyStep) -> str:
    """Returns the tool or agent that a step calls, in lower case; empty if it calls none."""
    if step.kind == "tool":
        return step.tool.lower()
    return step.agent.lower() if step.kind == "agent" else ""


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


def _to_judge(rule: Constraint) -> Problem:
    message = Sentence(
        "a constraint that only a person can judge must be kept: {rule}"
        if rule.hard
        else "a constraint that only a person can judge should be kept: {rule}",
        rule=rule.text or Sentence("no text"),
    )
    return problem("PS503", message, hint=Sentence("check that the plan keeps it"))


def _of_call(
    rule: Constraint, step: str, callee: str, place: Path, spec: ToolSpec | AgentSpec | None
) -> Iterator[Problem]:
    name = callee.lower()
    shown = name if spec is None else spec.name
    if rule.only_tools and not _is_among(name, rule.only_tools):
        only = [*rule.only_tools]
        message = Sentence("'{tool}' is not among what may be used: {only}", tool=name, only=only)
        yield _broken(rule, message, Sentence("use one of {tools}", tools=only), step, place)
    if _is_among(name, rule.forbid_tools):
        message = Sentence("'{tool}' is not allowed", tool=shown)
        yield _broken(rule, message, Sentence("use another tool"), step, place)
    if spec is not None and spec.effect in rule.forbid_effects:
        message = Sentence(
            "'{tool}' has the effect '{effect}', not allowed", tool=shown, effect=spec.effect.value
        )
        yield _broken(rule, message, Sentence("use a tool with less effect"), step, place)


def _of_words(rule: Constraint, step: AnyStep) -> Iterator[Problem]:
    banned = [word for word in rule.forbid_words if word]
    stack: list[tuple[Path, Json]] = []
    if banned and step.kind != "map":  # whose inner step is looked at by itself
        stack += step.templates()
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), each) for key, each in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, place), each) for place, each in enumerate(value))
        for word in banned if isinstance(value, str) else ():
            if word.lower() in str(value).lower():
                message = Sentence("the step must not contain '{word}'", word=word)
                yield _broken(rule, message, Sentence("take it out"), step.id, path)


def _of_plan(rule: Constraint, steps: list[AnyStep]) -> Iterator[Problem]:
    used = [name for name in map(_callee, steps) if name]
    for pattern in rule.require_tools:
        if not any(_is_among(name, [pattern]) for name in used):
            message = Sentence("the plan does not use '{tool}', which it has to", tool=pattern)
            hint = Sentence("add a step with '{tool}'", tool=pattern)
            yield _broken(rule, message, hint, None, ("steps",))
    # Questions to the person do not count: they are added where a value is missing.
    count = sum(step.kind != "ask" for step in steps)
    if rule.max_steps is not None and count > rule.max_steps:
        message = Sentence("ps.many_steps", count=count, most=rule.max_steps)
        yield _broken(rule, message, Sentence("use fewer steps"), None, ("steps",))
    # Each item of a list is a call; of a list that is not known yet, two are counted.
    lists = {step.each.id: step.over for step in steps if step.kind == "map"}
    sizes = {name: len(over) if isinstance(over, list) else 2 for name, over in lists.items()}
    calls = sum(sizes.get(step.id, 1) for step in steps if _callee(step))
    if rule.max_calls is not None and calls > rule.max_calls:
        message = Sentence(
            "the plan makes {count} calls or more, and {most} are allowed",
            count=calls,
            most=rule.max_calls,
        )
        yield _broken(rule, message, Sentence("use fewer tools and agents"), None, ("steps",))


def _broken(rule: Constraint, message: str, hint: str, step: str | None, path: Path) -> Problem:
    personal = "PS502" if rule.hard else "PS503"
    code = "PS501" if rule.source == "policy" else personal
    words = Sentence("ps.by_rule", problem=message, rule=rule.text) if rule.text else message
    found = problem(code, words, hint=hint, step=step, path=path)
    severity = Severity.ERROR if rule.hard else Severity.WARNING
    return found.model_copy(update={"severity": severity})
