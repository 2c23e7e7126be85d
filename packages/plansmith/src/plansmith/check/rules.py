"""Checks the rules of steps: conditions, repeats, what a failure means, and calls that undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from plansmith.check.flow import Flow
from plansmith.check.placeholders import Placeholders
from plansmith.plan.conditions import (
    LENGTH,
    LISTS,
    ORDER,
    condition_flaws,
    condition_text,
    operand_text,
    refs_alone,
)
from plansmith.plan.data import Json, Path, kind_of_value
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.refs import LITERAL, find
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AnyStep, Instead, MapStep, ToolStep, has_rules

# The kinds of steps that may have a rule; the others may be on any step.
_ALLOWED: Final = {
    "repeat": frozenset({"tool", "agent", "plan", "map"}),
    "retry": frozenset({"tool", "agent", "reply"}),
    "undo_with": frozenset({"tool", "agent"}),
}
# What to write instead, where that is not simply to leave it out.
_INSTEAD: Final = {("repeat", "ask"): "hint.repeat_ask", ("repeat", "reply"): "hint.repeat_reply"}
_SIZED: Final = frozenset({"string", "array", "object"})
_CONDITION: Final = '{"below": [{"$from": "step"}, 10]}'
_EXAMPLE: Final = '{"$from": "step"}'
Types = frozenset[str] | None
CheckCall = Callable[[ToolStep, Placeholders], Iterable[Problem]]


def rule_problems(plan: Plan, flow: Flow, check_call: CheckCall) -> list[Problem]:
    """Returns the problems of the steps' rules; `check_call` checks the call of a tool."""
    if plan.features.isdisjoint(("rules", "map")):
        return []
    found: list[Problem] = []
    for step in plan.steps:
        if has_rules(step):
            found += _Rules(step, step, flow, ()).problems(check_call)
        if step.kind == "map" and has_rules(step.each):
            found += _Rules(step, step.each, flow, ("each",)).problems(check_call)
    return found


class _Rules:
    """The rules of one step, or of the inner step of a map, which problems name as the map."""

    def __init__(self, outer: AnyStep, step: AnyStep, flow: Flow, place: Path) -> None:
        self.outer, self.step, self.flow, self.place = outer, step, flow, place
        self.within = outer if isinstance(outer, MapStep) and step is not outer else None

    def problems(self, check_call: CheckCall) -> Iterator[Problem]:
        step = self.step
        for rule, kinds in _ALLOWED.items():
            if getattr(step, rule) is not None and step.kind not in kinds:
                message = Sentence("'{rule}' is not for a {kind} step", rule=rule, kind=step.kind)
                hint = _INSTEAD.get((rule, step.kind), "hint.rule_leave_out")
                yield self._wrong(message, Sentence(hint), (rule,))
        if step.when is not None:
            yield from self._condition(step.when, ("when",))
        if step.repeat is not None:
            yield from self._condition(step.repeat.until, ("repeat", "until"))
            yield from self._own(step.repeat.until)
        for rule in ("otherwise", "on_error"):
            given = getattr(step, rule)
            if isinstance(given, Instead) and any(find(given.value)):
                message = Sentence(
                    "'{rule}' is a plain value, which holds no references", rule=rule
                )
                hint = Sentence("join results with {example}", example='{"$first": […]}')
                yield self._wrong(message, hint, (rule, "value"))
        if step.undo_with is not None and step.kind in _ALLOWED["undo_with"]:
            given = step.undo_with.inputs
            call = ToolStep(id=step.id, tool=step.undo_with.tool, inputs=given)
            yield from map(self._of_undo, check_call(call, Placeholders(given)))

    def _of_undo(self, found: Problem) -> Problem:
        path = (*self.place, "undo_with", *found.path)
        return found.model_copy(update={"step": self.outer.id, "path": path})

    def _own(self, until: Json) -> Iterator[Problem]:
        """Yields a condition that no round can make true."""
        if condition_flaws(until):
            return
        names = {found.ref.step for found in find(until) if found.ref is not None}
        if self.step.id not in names:
            message = Sentence(
                "`until` does not look at the result of '{step}', so that no round can change it",
                step=self.step.id,
            )
            hint = Sentence(
                "refer to a result, such as {example}", example=f'{{"$from": "{self.step.id}"}}'
            )
            yield self._wrong(message, hint, ("repeat", "until"))

    def _condition(self, condition: Json, place: Path) -> Iterator[Problem]:
        flaws = condition_flaws(condition)
        for flaw in flaws:
            hint = Sentence("write for example {example}", example=_CONDITION)
            yield self._bad(flaw.why, hint, (*place, *flaw.where))
        if flaws:
            return
        if not any(find(condition)):
            message = Sentence("the condition is the same in every run: it refers to nothing")
            hint = Sentence("refer to a result, such as {example}", example=_EXAMPLE)
            found = self._bad(message, hint, place)
            yield found.model_copy(update={"severity": Severity.WARNING})
        yield from self._types(condition, place)

    def _types(self, condition: Json, place: Path) -> Iterator[Problem]:
        """Yields comparisons of which the schemas tell that they cannot be made."""
        assert isinstance(condition, dict)  # noqa: S101 - its form was checked
        name, given = next(iter(condition.items()))
        here = (*place, name)
        if name in LISTS and isinstance(given, list):
            for index, each in enumerate(given):
                yield from self._types(each, (*here, index))
        elif name == "not":
            yield from self._types(given, here)
        elif name == "empty":
            yield from self._sized(given, here)
        elif isinstance(given, list):
            yield from self._pair(condition, name, given, here)

    def _pair(self, condition: Json, name: str, given: list[Json], here: Path) -> Iterator[Problem]:
        for index, each in enumerate(given):
            if isinstance(each, dict) and each.keys() == {LENGTH}:
                yield from self._sized(each[LENGTH], (*here, index))
        left, right = map(self._types_of, given)
        if not _can_compare(name, left, right):
            shown = {"left": _shown(left), "right": _shown(right)}
            message = Sentence(
                "{condition}: {left} and {right} are never compared that way",
                condition=condition_text(condition),
                **shown,
            )
            yield self._bad(
                message, Sentence("compare numbers with numbers and texts with texts"), here
            )

    def _sized(self, operand: Json, place: Path) -> Iterator[Problem]:
        types = self._types_of(operand)
        if types is not None and not types & (_SIZED | {"null"}):
            kind = Sentence(f"type.{min(types)}")
            message = Sentence(
                "{operand} is {type}, which has no length", operand=operand_text(operand), type=kind
            )
            yield self._bad(
                message, Sentence("compare numbers with numbers and texts with texts"), place
            )

    def _types_of(self, operand: Json) -> Types:
        """Returns the JSON types that an operand may have; None if they are not known."""
        if isinstance(operand, dict) and operand.keys() == {LENGTH}:
            return frozenset({"number"})
        if isinstance(operand, dict) and operand.keys() == {LITERAL}:
            return frozenset({kind_of_value(operand[LITERAL])})
        refs = refs_alone(operand)
        if not refs:
            return frozenset({kind_of_value(operand)})
        shapes = [self.flow.output(ref, self.within) for ref in refs]
        if not all(shape.known for shape in shapes):
            return None
        kinds = {kind for shape in shapes for kind in shape.types}
        return frozenset("number" if kind == "integer" else kind for kind in kinds)

    def _bad(self, message: str, hint: str, path: Path, code: str = "PS318") -> Problem:
        where = (*self.place, *path)
        return problem(code, message, hint=hint, step=self.outer.id, path=where)

    def _wrong(self, message: str, hint: str, path: Path) -> Problem:
        return self._bad(message, hint, path, "PS319")


def _can_compare(name: str, left: Types, right: Types) -> bool:
    """Tells whether values of these types can be compared; yes if one is not known."""
    if name == "in":
        return right is None or "array" in right
    if name == "contains":
        in_text = right is None or "string" in right
        return left is None or "array" in left or bool(left & {"string", "object"} and in_text)
    if left is None or right is None:
        known = left or right
        return name not in ORDER or known is None or bool(known & {"number", "string"})
    if name in ORDER:
        return bool(left & right & {"number", "string"})
    return bool(left & right) or "null" in left | right


def _shown(types: Types) -> str:
    if types is None:
        return Sentence("a value")
    return joined([Sentence(f"type.{each}") for each in sorted(types)], "text.or")
