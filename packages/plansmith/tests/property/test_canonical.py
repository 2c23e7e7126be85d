from __future__ import annotations

import copy
import json
import math
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.data import canonical_json, content_hash, content_of, parse_json

# Where the shortest forms of different encoders part: around 1e16, below 1e-4, and everywhere else.
NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(min_value=1e14, max_value=1e18)
    | st.floats(min_value=1e-8, max_value=1e-2)
    | st.integers()
    | st.integers(-(10**18), 10**18).map(float)
)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from(["null", ":1e5"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4) | st.just(",1e5"), inner, max_size=4)
    ),
    max_leaves=12,
)


def slow(value: object, *, sort_keys: bool = True) -> bytes:
    """The canonical text by its rules alone, as a program in another language would write it."""
    return _written(value, sort_keys=sort_keys).encode()


def _written(value: Any, *, sort_keys: bool) -> str:
    match value:
        case dict():
            keys = sorted(value, key=str.encode) if sort_keys else value
            fields = (f"{_text(key)}:{_written(value[key], sort_keys=sort_keys)}" for key in keys)
            return "{" + ",".join(fields) + "}"
        case list():
            return "[" + ",".join(_written(each, sort_keys=sort_keys) for each in value) + "]"
        case float():
            return _number(value)
        case str():
            return _text(value)
        case _:
            return json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(number: float) -> str:
    """The shortest digits that read back as the number: plain from 1e-5 to below 1e16."""
    sign, found, exponent = Decimal(repr(number)).as_tuple()
    digits = "".join(map(str, found)).rstrip("0") or "0"
    point = len(found) + int(exponent)  # how many digits stand before the decimal point
    minus = "-" if sign else ""
    if not number:
        return f"{minus}0.0"
    if 0 < point <= 16:
        return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{minus}{digits[0]}{rest}e{point - 1}"


@given(VALUES)
def test_the_canonical_text_of_a_value_follows_from_its_rules(value: Any) -> None:
    assert canonical_json(value) == slow(value)
    assert slow(parse_json(canonical_json(value))) == slow(value)


def test_true_one_and_one_point_zero_are_three_values() -> None:
    assert canonical_json([True, 1, 1.0]) == b"[true,1,1.0]"
    value = {"é": [1e16, 1e-6, 0.00001, -0.0], "a": {"z": None, "b": 123456789.25}}
    text = '{"a":{"b":123456789.25,"z":null},"é":[1e16,1e-6,0.00001,-0.0]}'
    assert canonical_json(value).decode() == text
    assert content_hash(value) == sha256(text.encode()).hexdigest()


@given(VALUES)
def test_a_stored_value_keeps_its_keys_in_their_order(value: Any) -> None:
    content = content_of(value)
    assert content.text == slow(value, sort_keys=False)
    assert content_of(content.value()) == content
    assert content_hash(content.value()) == sha256(slow(value)).hexdigest()


WRITTEN = st.decimals(allow_nan=False, allow_infinity=False, places=2).map(lambda n: f"{n:f}")


@given(st.lists(st.dictionaries(st.text(), WRITTEN | st.just("1.50e3"), max_size=4)))
def test_a_stored_number_keeps_its_digits(rows: list[dict[str, str]]) -> None:
    text = "[" + ",".join(_object(row) for row in rows) + "]"
    assert content_of(parse_json(text)).text == text.encode()
    assert content_of([parse_json(text), None, 1e-7]).text == f"[{text},null,1e-7]".encode()
    assert copy.deepcopy(parse_json(text)) == parse_json(text)


def _object(row: dict[str, str]) -> str:
    return "{" + ",".join(f"{slow(key).decode()}:{number}" for key, number in row.items()) + "}"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_hold_never_becomes_text(number: float) -> None:
    for value in (number, [number], {"a": {"b": number}}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json(value)


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"], {"\ud800": 1}])
def test_half_a_letter_never_becomes_text(value: Any) -> None:
    with pytest.raises(UnicodeEncodeError):
        canonical_json(value)
