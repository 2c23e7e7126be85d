"""The inputs of steps in a form that is quick to fill: what is constant, and what is looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

from plansmith.plan.data import Json, map_leaves
from plansmith.plan.refs import (
    FROM,
    LITERAL,
    PLAIN,
    Ref,
    fill,
    lookup,
    pieces,
    ref_of,
    value_text,
)
from plansmith.plan.steps import AnyStep

Values = Mapping[str, Json]
Fill = Callable[[Values], Json]
# A constant with None, or anything with the function that makes the value.
_Form = tuple[Json, Fill | None]


class StepForm:
    """The inputs of a step by name, as a snapshot: later changes of the step do not change it."""

    __slots__ = ("_fields",)

    def __init__(self, step: AnyStep) -> None:
        self._fields = [(name, *made) for name, made in _forms(step).items()]

    def fill(self, values: Values) -> dict[str, Json]:
        """Returns the inputs with every reference filled; may raise `ReferenceFailed`."""
        filled: dict[str, Json] = {}
        for name, constant, make in self._fields:
            filled[name] = constant if make is None else make(values)
        return filled


def _forms(step: AnyStep) -> dict[str, _Form]:
    match step.kind:
        case "tool" | "plan":
            return {name: _form(template) for name, template in step.inputs.items()}
        case "agent":
            return {"task": _text_form(step.task), "inputs": _form(step.inputs)}
        case "reply":
            return {"instruction": _text_form(step.instruction)}
        case "map":
            return {"over": _form(step.over)}
        case _:
            return {"question": _text_form(step.question)}


def _form(template: Json) -> _Form:
    """Returns the form of a template; fills like `refs.fill`, with the same errors."""
    if isinstance(template, str):
        return _string_form(template)
    if isinstance(template, list):
        items = [_part(each) for each in template]
        if any(make for _, make in items):
            return None, partial(_fill_list, items)
        return [constant for constant, _ in items], None
    if not isinstance(template, dict):
        return template, None
    if FROM in template:
        ref = ref_of(template)
        return None, _lookup(ref) if ref else partial(fill, _copy(template))
    if len(template) == 1 and LITERAL in template:
        return _copy(template[LITERAL]), None
    fields = {name: _part(each) for name, each in template.items()}
    if any(make for _, make in fields.values()):
        return None, partial(_fill_object, fields)
    return {name: constant for name, (constant, _) in fields.items()}, None


def _part(template: Json) -> _Form:
    return (template, None) if type(template) in PLAIN else _form(template)


def _copy(value: Json) -> Json:
    return map_leaves(value, lambda leaf: leaf)


def _string_form(text: str) -> _Form:
    if "{{" not in text:
        return text, None
    parts = pieces(text)
    only = parts[0]
    return (None, _lookup(only)) if len(parts) == 1 and isinstance(only, Ref) else _text_form(text)


def _text_form(text: str) -> _Form:
    parts = pieces(text)
    if any(isinstance(part, Ref) for part in parts):
        return None, partial(_join, parts)
    return "".join(cast("list[str]", parts)), None


def _lookup(ref: Ref) -> Fill:
    if ref.path:
        return partial(lookup, ref)
    step: Final = ref.step

    def whole(values: Values) -> Json:
        try:
            return values[step]
        except KeyError:
            return lookup(ref, values)  # raises the error, with its text

    return whole


def _join(parts: list[str | Ref], values: Values) -> str:
    return "".join(
        part if isinstance(part, str) else value_text(lookup(part, values)) for part in parts
    )


def _fill_list(forms: list[_Form], values: Values) -> list[Json]:
    return [constant if make is None else make(values) for constant, make in forms]


def _fill_object(forms: dict[str, _Form], values: Values) -> dict[str, Json]:
    return {
        name: constant if make is None else make(values) for name, (constant, make) in forms.items()
    }
