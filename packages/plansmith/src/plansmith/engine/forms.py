"""The inputs of steps in a form that is quick to fill: what is constant, and what is looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeGuard, cast

from plansmith.plan.data import Content, Json, map_leaves
from plansmith.plan.refs import (
    FIRST,
    FROM,
    LITERAL,
    PLAIN,
    Ref,
    fill,
    lookup,
    pieces,
    ref_of,
    value_text,
    whole_output,
)
from plansmith.plan.steps import (
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    ReplyStep,
    ToolStep,
)

Values = Mapping[str, Json]
Fill = Callable[[Values], Json]
# A constant with None, or anything with the function that makes the value.
_Form = tuple[Json, Fill | None]


class StepForm:
    """The inputs of a step by name, as a snapshot: later changes of the step do not change it."""

    __slots__ = ("_fields",)

    def __init__(self, step: AnyStep) -> None:
        fields: list[tuple[str, Json, Fill | None]] = []
        match step:
            case ToolStep() | PlanStep():
                for name, template in step.inputs.items():
                    # Most inputs are constants, and a call for each would cost more than the rest.
                    if type(template) in PLAIN or (type(template) is str and "{{" not in template):
                        fields.append((name, template, None))
                    else:
                        made = _list_form(template) if type(template) is list else _form(template)
                        fields.append((name, *made))
            case _:
                fields += [(name, *made) for name, made in _forms(step).items()]
        self._fields = fields

    def fill(self, values: Values) -> dict[str, Json]:
        """Returns the inputs with every reference filled; may raise `ReferenceFailed`."""
        filled: dict[str, Json] = {}
        for name, constant, make in self._fields:
            filled[name] = constant if make is None else make(values)
        return filled


def _forms(step: AgentStep | AskStep | MapStep | ReplyStep) -> dict[str, _Form]:
    match step.kind:
        case "agent":
            return {"task": _text_form(step.task), "inputs": _form(step.inputs)}
        case "reply":
            return {"instruction": _text_form(step.instruction)}
        case "map":
            return {"over": _form(step.over)}
        case "ask":
            return {"question": _text_form(step.question)}


def _form(template: Json) -> _Form:
    """Returns the form of a template; fills like `refs.fill`, with the same errors."""
    match template:
        case str():
            return _string_form(template)
        case list():
            return _list_form(template)
        case dict() if FROM in template:
            ref = ref_of(template)
            return None, _lookup(ref) if ref else partial(fill, _copy(template))
        case dict() if LITERAL in template and len(template) == 1:
            return _copy(template[LITERAL]), None
        case dict() if FIRST in template:
            return None, partial(fill, _copy(template))
        case dict():
            return _object_form(template)
        case _:
            return template, None


def _list_form(template: list[Json]) -> _Form:
    items: list[_Form] = []
    is_constant = True
    for each in template:
        source = each[FROM] if type(each) is dict and FROM in each else None
        ref = whole_output(source) if type(source) is str and each == {FROM: source} else None
        if ref is not None:  # the result of a step, as most lists hold them
            made: _Form = None, _lookup(ref)
        else:
            made = (each, None) if type(each) in PLAIN else _form(each)
        items.append(made)
        is_constant = is_constant and made[1] is None
    if not is_constant:
        return None, partial(_fill_list, items)
    return [constant for constant, _ in items], None


def _object_form(template: dict[str, Json]) -> _Form:
    fields = {
        name: (each, None) if type(each) in PLAIN else _form(each)
        for name, each in template.items()
    }
    if [make for _, make in fields.values() if make]:
        return None, partial(_fill_object, fields)
    return {name: constant for name, (constant, _) in fields.items()}, None


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


_UNCHANGING: Final = frozenset({str, int, float, bool, type(None)})
_FAR: Final = 2**63


def is_plain(value: object) -> TypeGuard[str | int | float | bool | None]:
    """Tells whether a value is surely fit for JSON as it is; false if it must be looked at."""
    if type(value) is str:
        return value.isascii() or _is_text(value)
    if type(value) is int:
        return -_FAR < value < _FAR
    if type(value) is float:
        return value - value == 0.0  # neither infinite nor NaN
    return value is None or type(value) is bool


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, as undecodable file names bring it
        return False
    return True


def own_value(value: Json, content: Content) -> Json:
    """Returns a value for one user alone: itself if it cannot be changed, else a new copy."""
    if type(value) in _UNCHANGING:
        return value
    # Reading the text again would take much longer for the usual list of texts or numbers.
    return [*value] if _is_flat(value) else content.value()


def _is_flat(value: Json) -> TypeGuard[list[Json]]:
    return type(value) is list and _UNCHANGING.issuperset(map(type, value))


def own_inputs(inputs: dict[str, Json], content: Content) -> dict[str, Json]:
    """Returns these inputs, which nobody else may use, or a copy: the callee may change them."""
    for name, value in inputs.items():
        if type(value) in _UNCHANGING:
            continue
        if type(value) is not list or not _UNCHANGING.issuperset(map(type, value)):
            copy = content.value()
            assert isinstance(copy, dict)  # noqa: S101
            return copy
        inputs[name] = [*value]
    return inputs
