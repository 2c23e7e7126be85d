"""The inputs of steps in a form that is quick to fill: what is constant, and what is looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

from plansmith.plan.data import Json, map_leaves
from plansmith.plan.refs import FROM, Ref, fill, find, lookup, pieces, ref_of, value_text
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
    if not isinstance(template, (str, list, dict)):
        return template, None
    if next(find(template), None) is None:
        return map_leaves(fill(template, {}), lambda leaf: leaf), None
    if isinstance(template, str):
        parts = pieces(template)
        return None, _lookup(parts[0]) if len(parts) == 1 else partial(_join, parts)
    if isinstance(template, list):
        return None, partial(_fill_list, [_form(each) for each in template])
    if FROM in template:
        ref = ref_of(template)
        return None, _lookup(ref) if ref else partial(fill, map_leaves(template, lambda leaf: leaf))
    return None, partial(_fill_object, {name: _form(each) for name, each in template.items()})


def _text_form(text: str) -> _Form:
    parts = pieces(text)
    if any(isinstance(part, Ref) for part in parts):
        return None, partial(_join, parts)
    return "".join(cast("list[str]", parts)), None


def _lookup(ref: str | Ref) -> Fill:
    if isinstance(ref, str):
        return lambda _: ref
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
