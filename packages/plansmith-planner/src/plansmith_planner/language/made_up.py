"""Warns of values that a drafted plan seems to make up.

They are found by names of arguments and by digits, which can mislead: a person is told of them in
the review, and nothing else depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from plansmith.check.names import seems_to_read, words
from plansmith.plan.capability import Tools, ToolSpec, tool_specs
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import find_refs
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import StepFields, ToolStep
from plansmith_planner.language import word_list
from plansmith_planner.language.numbers import FIGURE, readings
from plansmith_planner.language.words import letters

MADE_UP: Final = "PS505"
_COUNTED: Final = 12  # counts such as "two people" and "once" may be given in words
# Names of arguments whose value says whom or what a call acts on, or how much of it.
_NAMING: Final = word_list("naming")
_TIMES: Final = word_list("times")
_MARKED: Final = re.compile(r"\S*[\d@]\S*")
_MOMENT: Final = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T ].*)?$|\d{1,2}:\d\d")
_FILE_PATH: Final = re.compile(r"[^\s@]*\.[A-Za-z][A-Za-z0-9]{0,5}")


def made_up_values(plan: Plan, tools: Tools, given: str) -> list[Problem]:
    """Returns a problem for each value of a changing step that is not in the given text."""
    specs = {spec.name: spec for spec in tool_specs(tools)}
    known, numbers = letters(given), {_number(each) for each in FIGURE.findall(given)}
    return [
        problem(
            MADE_UP,
            Sentence(
                "{place} = {value} is in nothing you wrote or that was looked up",
                place=".".join(map(str, path)),
                value=repr(value),
            ),
            hint=Sentence("check it: the model may have made it up"),
            step=name,
            path=("inputs", *path),
        )
        for name, step in _acting(plan, specs)
        for path, value in _values(step.inputs, specs[step.tool].input_schema)
        if not _is_given(value, known, numbers)
    ]


def _acting(plan: Plan, specs: Mapping[str, ToolSpec]) -> Iterator[tuple[str, ToolStep]]:
    for step in plan.steps:
        inner: StepFields = step.inner
        if step.disabled or not isinstance(inner, ToolStep):
            continue
        spec = specs.get(inner.tool)
        if spec is not None and not seems_to_read(spec):
            yield step.id, inner


def _values(
    inputs: Mapping[str, Json], schema: Mapping[str, Any]
) -> Iterator[tuple[tuple[str | int, ...], str | int | float]]:
    """Yields arguments that identify something, by the argument's name or digits in the value."""
    fields = cast("Mapping[str, Any]", schema.get("properties") or {})
    for name, value in inputs.items():
        form = fields.get(name)  # a schema may be just `true`
        known = cast("Mapping[str, Any]", form if isinstance(form, dict) else {})
        fixed = "enum" in known or "const" in known or value == known.get("default")
        if fixed or any(True for _ in find_refs(value)):
            continue
        name_words = set(words(name))
        for place, each in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(each, bool) or not isinstance(each, str | int | float):
                continue
            if _names_something(each, name_words):
                yield (name,) if place is None else (name, place), each


def _names_something(value: str | float, name_words: set[str]) -> bool:
    """Whether a value says whom, what or how much; small counts and times do not."""
    is_naming = bool(name_words & _NAMING)
    if not isinstance(value, str):
        return is_naming and abs(value) > _COUNTED
    text = value.strip()
    if not text or len(text) > 100 or (name_words & _TIMES and not is_naming):
        return False
    if name_words & _TIMES and _MOMENT.match(text):
        return False
    if FIGURE.fullmatch(text) and _number(text) <= _COUNTED:
        return False
    if is_naming:
        return True
    return (
        bool(_MARKED.fullmatch(text)) and not _MOMENT.match(text) and not _FILE_PATH.fullmatch(text)
    )


def _is_given(value: str | float, known: str, numbers: set[float]) -> bool:
    """Whether a text that a person gave or that was looked up has a value."""
    if not isinstance(value, str):
        return float(value) in numbers
    return _number(value.strip()) in numbers or letters(value) in known


def _number(figure: str) -> float:
    return next(map(float, readings(figure)), float("nan"))
