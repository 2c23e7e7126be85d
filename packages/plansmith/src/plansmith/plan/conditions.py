"""Conditions of steps: a small expression over references and literals that always ends.

An operator has one key: `{"below": [{"$from": "stock", "$path": ["count"]}, 10]}`. An operand is a
literal, a reference, a `$first` or `{"length": reference}`; an object as such is a `$literal`.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pydantic import ValidationError

from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, Path, kind_of_value, same
from plansmith.plan.refs import FIRST, FROM, LITERAL, Ref, fill, first_refs, whole_ref
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import Instead, MapStep, Repeat, Retry, StepFields, ToolStep, has_rules
from plansmith.text import clip, safe

MAX_DEPTH: Final = 8
MAX_SIZE: Final = 64
LENGTH: Final = "length"
LISTS: Final = frozenset({"all", "any"})
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "below": operator.lt,
    "at_most": operator.le,
    "above": operator.gt,
    "at_least": operator.ge,
}
ORDER: Final = frozenset(_ORDERS)
PAIRS: Final = ORDER | {"equals", "not_equals", "in", "contains"}
OPERATORS: Final = (*sorted(PAIRS), "empty", *sorted(LISTS), "not")
Values = Mapping[str, Json]


class ConditionFlaw(NamedTuple):
    """Why a condition cannot be read, and where in it."""

    where: Path
    why: Sentence


def condition_flaws(condition: Json) -> list[ConditionFlaw]:
    """Returns what is wrong with the form of a condition; its references are not looked at."""
    found = [*_flaws(condition, (), 1)]
    if not found and _size(condition) > MAX_SIZE:
        why = Sentence("a condition has more than {most} parts", most=MAX_SIZE)
        return [ConditionFlaw((), why)]
    return found


def _flaws(condition: Json, where: Path, depth: int) -> Iterator[ConditionFlaw]:
    name, given = _operation(condition)
    here, items = (*where, name), given if isinstance(given, list) else []
    if depth > MAX_DEPTH:
        why = Sentence("conditions are nested deeper than {most} levels", most=MAX_DEPTH)
        yield ConditionFlaw(where, why)
    elif name == "not":
        yield from _flaws(given, here, depth + 1)
    elif name == "empty":
        yield from _operand_flaws(given, here)
    elif name in LISTS and items:
        for place, each in enumerate(items):
            yield from _flaws(each, (*here, place), depth + 1)
    elif name in PAIRS and len(items) == 2:
        for place, each in enumerate(items):
            yield from _operand_flaws(each, (*here, place))
    else:
        why = Sentence(
            "a condition is an object with one of the keys {names}; 'all' and 'any' take a list "
            "of conditions, comparisons a list of two values",
            names=[*OPERATORS],
        )
        yield ConditionFlaw(where, why)


def _operand_flaws(operand: Json, where: Path) -> Iterator[ConditionFlaw]:
    if isinstance(operand, dict) and operand.keys() == {LENGTH}:
        if not refs_alone(operand[LENGTH]):
            yield ConditionFlaw((*where, LENGTH), Sentence("'length' takes a reference"))
    elif isinstance(operand, dict) and not operand.keys() & {FROM, FIRST, LITERAL}:
        example = '{"$literal": {…}}'
        why = Sentence("an object to compare with is written {example}", example=example)
        yield ConditionFlaw(where, why)


def refs_alone(operand: Json) -> list[Ref]:
    """Returns the reference that an operand is, or those of its `$first`; none for a literal."""
    if isinstance(operand, dict) and FIRST in operand:
        return first_refs(operand)
    ref = whole_ref(operand)
    return [] if ref is None else [ref]


def _operation(condition: Json) -> tuple[str, Json]:
    """Returns the operator of a condition and what it is given; an empty name for no condition."""
    if not isinstance(condition, dict) or len(condition) != 1:
        return "", None
    return next(iter(condition.items()))


def _size(condition: Json) -> int:
    name, given = _operation(condition)
    inner = given if name in LISTS and isinstance(given, list) else [given] if name == "not" else []
    return 1 + sum(map(_size, inner))


def holds(condition: Json, values: Values) -> bool:
    """Tells whether a condition holds; raises `ReferenceFailed` if that cannot be said."""
    for flaw in condition_flaws(condition):
        raise ReferenceFailed(flaw.why)
    return _holds(condition, values)


def _holds(condition: Json, values: Values) -> bool:
    name, given = _operation(condition)
    items = given if isinstance(given, list) else [given]
    match name:
        case "all":
            return all(_holds(each, values) for each in items)
        case "any":
            return any(_holds(each, values) for each in items)
        case "not":
            return not _holds(given, values)
        case "empty":
            value = _value(given, values)
            return value is None or _length(value, given) == 0
        case _:
            left, right = (_value(each, values) for each in items)
            outcome = _compared(name, left, right)
    if outcome is None:
        first, second = (Sentence(f"type.{kind_of_value(each)}") for each in (left, right))
        why = Sentence(
            "it cannot be said whether {condition}: {left} and {right} are not compared that way",
            condition=condition_text(condition),
            left=first,
            right=second,
        )
        raise ReferenceFailed(why)
    return outcome


def _value(operand: Json, values: Values) -> Json:
    if isinstance(operand, dict) and operand.keys() == {LENGTH}:
        return _length(fill(operand[LENGTH], values), operand[LENGTH])
    return fill(operand, values)


def _length(value: Json, operand: Json) -> int:
    if isinstance(value, (str, list, dict)):
        return len(value)
    about = {"operand": operand_text(operand), "type": Sentence(f"type.{kind_of_value(value)}")}
    raise ReferenceFailed(Sentence("{operand} is {type}, which has no length", **about))


def _compared(name: str, left: Json, right: Json) -> bool | None:
    """Compares two values; None if values of these types are not compared that way."""
    match name:
        case "equals" | "not_equals":
            equal = _are_equal(left, right)
            return None if equal is None else equal is (name == "equals")
        case "in":
            return _is_member(left, right) if isinstance(right, list) else None
        case "contains" if isinstance(left, list):
            return _is_member(right, left)
        case "contains":
            texts = isinstance(left, (str, dict)) and isinstance(right, str)
            return cast("str", right) in cast("str", left) if texts else None
        case _:
            kind, two = kind_of_value(left), cast("tuple[Any, Any]", (left, right))
            ordered = kind in ("number", "string") and kind == kind_of_value(right)
            return _ORDERS[name](*two) if ordered else None


def _are_equal(left: Json, right: Json) -> bool | None:
    """Tells whether two values are equal, 1 and 1.0 too; None if they are of unlike types."""
    kind, other = kind_of_value(left), kind_of_value(right)
    if kind != other:
        return False if "null" in (kind, other) else None
    return left == right if kind == "number" else same(left, right)


def _is_member(value: Json, items: list[Json]) -> bool | None:
    """Tells whether a value is in a list; None if nothing in the list is like it."""
    found = [_are_equal(value, each) for each in items]
    return None if found and set(found) == {None} else True in found


def condition_text(condition: Json) -> str:
    """Returns a condition as part of a sentence; one that cannot be read as its JSON."""
    return _literal_text(condition) if condition_flaws(condition) else _text(condition)


def _text(condition: Json, around: str = "") -> str:
    name, given = _operation(condition)
    items = given if isinstance(given, list) else [given]
    match name:
        case "all" | "any":
            text = joined([_text(each, name) for each in items], f"cond.{name}")
            grouped = around not in ("", name) and len(items) > 1
            return Sentence("({inner})", inner=text) if grouped else text
        case "not":
            return Sentence("not ({inner})", inner=_text(given))
        case "empty":
            return Sentence("{left} is empty", left=operand_text(given))
        case _:
            left, right = map(operand_text, items)
            return Sentence(f"compare.{name}", left=left, right=right)


def operand_text(operand: Json) -> str:
    """Returns an operand as people read it: `stock.count`, `10`, `"low"`."""
    if isinstance(operand, dict) and operand.keys() == {LENGTH}:
        return Sentence("the length of {of}", of=operand_text(operand[LENGTH]))
    if isinstance(operand, dict) and operand.keys() == {LITERAL}:
        return _literal_text(operand[LITERAL])
    names = [_clipped(str(ref)[2:-2]) for ref in refs_alone(operand)]
    if not names:
        return _literal_text(operand)
    return names[0] if len(names) == 1 else Sentence("the first there is of {names}", names=names)


def _literal_text(value: Json) -> str:
    return _clipped(json.dumps(value, ensure_ascii=False))


def _clipped(text: str) -> str:
    return clip(safe(text), 60)


def rule_text(name: str, value: Json) -> str:
    """Says one rule of a step by its JSON form; one that cannot be read as its JSON."""
    try:
        step = ToolStep.model_validate({"id": "step", "tool": "tool", name: value})
    except ValidationError:
        return _literal_text(value)
    return joined(rule_sentences(step)) if has_rules(step) else _literal_text(value)


def when_sentence(condition: Json) -> Sentence:
    """Says under which condition a step runs."""
    return Sentence("rule.when", condition=condition_text(condition))


def rule_sentences(step: StepFields) -> list[Sentence]:
    """Returns the rules of a step, without those of the inner step of a map."""
    found = [when_sentence(step.when)] if step.when is not None else []
    if step.otherwise is not None:
        found += [Sentence("rule.otherwise", value=_literal_text(step.otherwise.value))]
    if (repeat := step.repeat) is not None:
        code = "rule.repeat_every" if repeat.every else "rule.repeat"
        until = condition_text(repeat.until)
        found += [Sentence(code, condition=until, most=repeat.at_most, **_every(repeat))]
    if (retry := step.retry) is not None:
        code = "rule.retry_every" if retry.every else "rule.retry"
        found += [Sentence(code, most=retry.at_most, **_every(retry))]
    if isinstance(step.on_error, Instead):
        found += [Sentence("rule.error_value", value=_literal_text(step.on_error.value))]
    elif step.on_error != "fail":
        items = step.on_error == "collect" and isinstance(step, MapStep)
        found += [Sentence("rule.collect_items" if items else f"rule.error_{step.on_error}")]
    if step.undo_with is not None:
        undo = step.undo_with
        given = [f"{safe(name)}={operand_text(value)}" for name, value in undo.inputs.items()]
        found += [Sentence("rule.undo_with", call=f"{safe(undo.tool)}({', '.join(given)})")]
    return found


def _every(rule: Repeat | Retry) -> dict[str, str]:
    return {"seconds": f"{rule.every:g}"} if rule.every else {}
