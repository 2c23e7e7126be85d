"""Finds rules of steps that are allowed and change nothing, or not what they seem to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from plansmith.errors import ReferenceFailed
from plansmith.plan.conditions import LISTS, condition_flaws, condition_text, holds
from plansmith.plan.data import Json, Path
from plansmith.plan.graph import upstream
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import find
from plansmith.plan.rule_text import has_rules
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep

_OUT: Final = Sentence("leave it out")
IsRead = Callable[[str], bool]
Needs = Mapping[str, frozenset[str]]


def needless_rules(
    steps: Mapping[str, AnyStep], graph: Needs, *, is_read: IsRead
) -> Iterator[Problem]:
    """Yields the rules of a plan that say nothing; `is_read` tells whether a step only reads."""
    leaving = {name for name, step in steps.items() if step.when or step.on_error == "skip"}
    for step in steps.values():
        if has_rules(step):
            may_miss = bool(leaving & (upstream(graph, [step.id]) - {step.id}))
            yield from _of_step(step, step.id, (), may_miss=may_miss)
        if step.kind == "map" and has_rules(step.each):
            yield from _of_step(step.each, step.id, ("each",), may_miss=False)
        inner = step.each if step.kind == "map" else step
        if inner.undo_with is not None and is_read(step.id):
            place = ("each", "undo_with") if step.kind == "map" else ("undo_with",)
            message, hint = (
                Sentence("'{step}' only reads: there is nothing to undo", step=step.id),
                _OUT,
            )
            yield problem("PS409", message, hint=hint, step=step.id, path=place)


def _of_step(step: AnyStep, name: str, place: Path, *, may_miss: bool) -> Iterator[Problem]:
    def found(message: str, hint: str, *path: str) -> Problem:
        return problem("PS409", message, hint=hint, step=name, path=(*place, *path))

    if step.when is not None and (always := _constant(step.when)) is not None:
        code = "ps.cond_always" if always else "ps.cond_false"
        text = condition_text(step.when)
        yield found(
            Sentence(code, step=name, condition=text),
            Sentence("look at the literals in it"),
            "when",
        )
    if step.otherwise is not None and step.when is None and not may_miss:
        yield found(
            Sentence("nothing can skip '{step}': its 'otherwise' is never used", step=name),
            _OUT,
            "otherwise",
        )
    if step.repeat is not None and step.repeat.at_most == 1:
        message, hint = (
            Sentence(
                "'{step}' is repeated at most once: it fails if its condition does not hold then",
                step=name,
            ),
            Sentence("allow more rounds, or use 'when' on what follows"),
        )
        yield found(message, hint, "repeat", "at_most")
    if step.on_error == "collect" and step.kind != "map" and not place:
        message = Sentence(
            "if '{step}' fails, later steps get its error as if it were the result", step=name
        )
        yield found(
            message, Sentence("look at its 'error' before you use it, or write a value"), "on_error"
        )


def _constant(condition: Json) -> bool | None:
    """Returns what a condition is in every run, where its literals alone tell it.

    One without any reference is reported as such where conditions are checked.
    """
    if condition_flaws(condition) or not any(find(condition)):
        return None
    return _fixed(condition)


def _fixed(condition: Json) -> bool | None:
    assert isinstance(condition, dict)  # noqa: S101 - its form was checked
    name, given = next(iter(condition.items()))
    if name in LISTS and isinstance(given, list):
        inner = [_fixed(each) for each in given]
        decisive = name == "any"
        if decisive in inner:
            return decisive
        return None if None in inner else not decisive
    if name == "not":
        fixed = _fixed(given)
        return None if fixed is None else not fixed
    try:
        return None if any(find(condition)) else holds(condition, {})
    except ReferenceFailed:
        return None
