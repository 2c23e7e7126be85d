"""Built-in tools that compute exactly and convert units; expressions are parsed, never run."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, cast

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_desk.calculator.numbers import MAX_DIGITS, Num, bounded, decimal_text, too_large
from plansmith_desk.calculator.syntax import Value, amount, compute
from plansmith_desk.calculator.units import unit
from plansmith_desk.tool_specs import record, spec
from plansmith_desk.toolset import TEXT, Arguments, BuiltIn, Job, PureTools, items, string, whole

_DIGITS: Final = 15
_AMOUNT: Final[dict[str, Any]] = {
    "anyOf": [{"type": "number"}, {"type": "string", "maxLength": 400}],
    "description": "A number, or one written as text to keep all its digits.",
}
_ANSWER: Final[dict[str, Any]] = {
    "value": {"type": "number", "description": "The number, rounded only as far as JSON must."},
    "text": {"type": "string", "description": "The number in full, or to the digits asked for."},
    "exact": {"type": "boolean", "description": "Whether the text is the number itself."},
}
_PRECISION: Final = whole("Digits shown of a number that does not end; 15 if left out.", 1, 50)
_EXPRESSION: Final = string(
    "Such as (price * 3 + 4.50) * 1.25.", format="arithmetic", minLength=1, maxLength=4_000
)
COMPUTE: Final = spec(
    "calculator.compute",
    "Calculate exactly: + - * / ^ mod, percent (15% of 80), sqrt, round, min, max, "
    "sum, mean, log and more (计算、加减乘除、百分之).",
    record(
        {"expression": _EXPRESSION},
        values={
            "type": "object",
            "description": "Numbers and lists of numbers that the expression names.",
            "additionalProperties": {"anyOf": [*_AMOUNT["anyOf"], items(_AMOUNT, most=10_000)]},
            "maxProperties": 100,
        },
        digits=_PRECISION,
    ),
    record(_ANSWER, fraction=TEXT),
    timeout_s=10,
)
CONVERT: Final = spec(
    "calculator.convert",
    "Convert units: length, mass, time, data, area, volume, speed, temperature, "
    "energy, pressure, km/h (单位换算).",
    record(
        {
            "value": _AMOUNT,
            "from": string("The unit it is in, such as mile, kg, GiB, °F or m/s.", minLength=1),
            "to": string("The unit wanted.", minLength=1),
        },
        digits=_PRECISION,
    ),
    record({**_ANSWER, "unit": TEXT, "kind": TEXT}),
    timeout_s=10,
)


class CalculatorTools(PureTools):
    """Both tools; they have no state."""

    def __init__(self) -> None:
        super().__init__([BuiltIn(COMPUTE, _compute), BuiltIn(CONVERT, _convert)])


def _compute(given: Arguments, _: Job) -> Json:
    values: dict[str, Value] = {}
    for name, each in given.get("values", {}).items():
        if not name.isidentifier() or not name.isascii():
            raise ToolFailed(Sentence("'{name}' cannot name a value", name=name[:40]))
        is_list = isinstance(each, list)
        values[name] = [*map(amount, cast("list[Json]", each))] if is_list else amount(each)
    found = compute(given["expression"], values)
    answer = _answer(found, given.get("digits", _DIGITS))
    fraction = f"{found.value.numerator}/{found.value.denominator}"
    has_fraction = found.is_exact and not answer["exact"] and len(fraction) <= 40
    return answer | {"fraction": fraction} if has_fraction else answer


def _convert(given: Arguments, _: Job) -> Json:
    number, source, target = amount(given["value"]), unit(given["from"]), unit(given["to"])
    if source.dimension != target.dimension:
        message = f"{given['from']} is {source.kind} and {given['to']} is {target.kind}"
        raise ToolFailed(message, hint=Sentence("convert between units of one kind"))
    absolute = number.value * source.factor + source.offset
    if source.kind == "temperature" and absolute < 0:
        raise ToolFailed(Sentence("that is colder than absolute zero"))
    found = bounded((absolute - target.offset) / target.factor, number)
    answer = _answer(found, given.get("digits", _DIGITS))
    return answer | {"unit": given["to"], "kind": target.kind}


def _answer(found: Num, digits: int) -> dict[str, Json]:
    value = found.value
    if abs(value) >= Fraction(10) ** MAX_DIGITS:
        raise too_large()
    text, exact = decimal_text(found, digits)
    if value.denominator == 1 and (exact or abs(value) < 2**53):
        return {"value": value.numerator, "text": text, "exact": exact}
    near = float(text)
    if math.isinf(near):
        message = Sentence("{text} is too large for a number with decimals", text=text[:30])
        raise ToolFailed(message, hint=Sentence("round it, or compute its logarithm"))
    return {"value": near, "text": text, "exact": exact}
