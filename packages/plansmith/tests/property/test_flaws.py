"""Flaws of Python values: there is one exactly if JSON cannot hold the value."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.data import MAX_DEPTH, MAX_INTEGER_BITS, flaws

SOUND = st.none() | st.booleans() | st.integers() | st.text("aé查", max_size=3)
BROKEN = st.sampled_from([math.inf, math.nan, "x\ud800", b"bytes", (1, 2), {1}, object()])
HUGE = st.sampled_from([2**MAX_INTEGER_BITS, -(2**MAX_INTEGER_BITS)])
KEYS = st.text("aé查", max_size=3) | st.sampled_from(["\udfff", 1, None, ("a",)])
VALUES: st.SearchStrategy[object] = st.recursive(
    SOUND | st.floats() | BROKEN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
SOUND_VALUES: st.SearchStrategy[object] = st.recursive(
    SOUND | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("aé查"), inner),
    max_leaves=20,
)


def _survives_json(value: object) -> bool:
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return False
    return repr(json.loads(text)) == repr(value)


@given(VALUES | SOUND_VALUES)
def test_a_value_has_a_flaw_exactly_if_json_cannot_hold_it(value: object) -> None:
    assert (next(flaws(value), None) is None) == _survives_json(value)


@given(SOUND_VALUES, BROKEN | HUGE)
def test_a_flaw_in_a_sound_value_is_found_at_its_place(value: object, broken: object) -> None:
    (flaw,) = flaws({"sound": value, "list": [value, broken]})

    assert flaw.path == ("list", 1)


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1])
def test_a_value_has_a_flaw_exactly_if_it_is_nested_too_deeply(levels: int) -> None:
    value: object = []
    for _ in range(levels - 1):
        value = {"a": value}

    assert [flaw.kind for flaw in flaws(value)] == (["deep"] if levels > MAX_DEPTH else [])


def test_a_value_that_holds_itself_is_nested_too_deeply() -> None:
    value: list[object] = []
    value.extend([value, {"a": value}])

    assert [flaw.kind for flaw in flaws(value)] == ["deep"]
