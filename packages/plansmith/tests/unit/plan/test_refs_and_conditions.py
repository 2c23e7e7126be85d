"""What a plan says of values that come later: references, and conditions on them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import ReferenceFailed
from plansmith.plan.conditions import MAX_DEPTH, MAX_SIZE, condition_flaws, condition_text, holds
from plansmith.plan.data import Json
from plansmith.plan.refs import (
    Ref,
    earlier_parts,
    earlier_source,
    fill,
    fill_text,
    find_refs,
    is_earlier,
    pieces,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{a}}", Ref("a")),
        ("{{ a.items[0].title }}", Ref("a", ("items", 0, "title"))),
        ('{{a["odd key"].b}}', Ref("a", ("odd key", "b"))),
        ("{{a.温度}}", Ref("a", ("温度",))),
        ("{{get-it_2.x}}", Ref("get-it_2", ("x",))),
        ("{{run:0198-ab/totals}}", Ref("run:0198-ab/totals")),
        ("{{ run:v1.2/totals.rows[0] }}", Ref("run:v1.2/totals", ("rows", 0))),
        ("{{run:一/a.b/c}}", Ref("run:一/a", ("b/c",))),
    ],
)
def test_a_reference_in_text_is_read(text: str, expected: Ref) -> None:
    assert pieces(text) == [expected]
    assert pieces(str(expected)) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        *("{a}", "{{}}", "{{a b}}", "{{a..b}}", "{{a[x]}}", "{{a|first}}", "{ {a}}", "{{.a}}"),
        *("{{run:/a}}", "{{run:x}}", "{{run:x/}}", "{{run:a b/c}}", "{{ran:a/b}}", "{{run:a/b/c}}"),
    ],
)
def test_what_is_no_reference_stays_as_it_is_and_double_braces_are_told(text: str) -> None:
    assert pieces(text) == [text]
    assert fill_text(text, {}) == text
    flaws = [found.flaw for found in find_refs(text) if found.ref is None]
    assert len(flaws) == text.count("{{")
    assert all("not a reference" in each for each in flaws)


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("{{b}}", "no result of 'b'"),
        ("{{a.nope}}", "the keys items, name"),
        ("{{a.items[7]}}", "2 items"),
        ("{{a.name.x}}", "no parts"),
        ("{{a.items[0].x}}", "no parts"),
        ("{{run:y/a}}", "of the earlier run y is not there"),
    ],
)
def test_a_missing_value_is_told_with_what_there_is(reference: str, hint: str) -> None:
    values: dict[str, Json] = {"a": {"items": [1, 2], "name": "n"}}
    with pytest.raises(ReferenceFailed, match=r"nothing at|no result|not there") as caught:
        fill(reference, values)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        *({"$from": 5}, {"$from": "a b"}, {"$from": "run:only"}, {"$from": "a", "$path": "items"}),
        *({"$from": "a", "$path": [-1]}, {"$from": "a", "$path": [True]}),
        *({"$from": "a", "$path": [1.5]}, {"$from": "a", "$Path": []}),
    ],
)
def test_a_malformed_reference_is_found_and_never_filled(broken: Json) -> None:
    [found] = find_refs({"x": broken})
    assert found.ref is None
    assert found.where == ("x",)
    assert found.flaw
    with pytest.raises(ReferenceFailed):
        fill({"x": broken}, {"a": {}})


def test_data_that_looks_like_a_reference_is_kept_apart() -> None:
    data: Json = {"$from": "a", "text": "{{a}}", "$literal": 1}
    assert fill({"x": {"$literal": data}}, {}) == {"x": data}
    assert list(find_refs({"x": {"$literal": data}})) == []


def test_a_result_of_an_earlier_run_is_named_by_run_and_step() -> None:
    assert earlier_source("0198", "totals") == "run:0198/totals"
    assert earlier_parts("run:0198/totals") == ("0198", "totals")
    assert is_earlier("run:0198/totals")
    assert not is_earlier("run")
    assert [earlier_source(*each) for each in (("a/b", "c"), ("a", "m/0"), ("a b", "c"))] == [
        ""
    ] * 3


COUNT: Any = {"$from": "stock", "$path": ["count"]}
VALUES: dict[str, Any] = {
    "stock": {"count": 7, "name": "bolt", "tags": ["a", "b"], "note": None, "open": True}
}


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ({"below": [COUNT, 10]}, True),
        ({"below": [COUNT, 7]}, False),
        ({"at_most": [COUNT, 7.0]}, True),
        ({"above": [10, COUNT]}, True),
        ({"at_least": [COUNT, 8]}, False),
        ({"equals": [COUNT, 7.0]}, True),
        ({"not_equals": [COUNT, 7]}, False),
        ({"equals": ["{{stock.name}}", "bolt"]}, True),
        ({"equals": ["{{stock.note}}", None]}, True),
        ({"equals": [COUNT, None]}, False),
        ({"equals": ["{{stock.open}}", True]}, True),
        ({"below": ["2026-01-31", "2026-02-01"]}, True),
        ({"in": ["{{stock.name}}", ["nut", "bolt"]]}, True),
        ({"in": [COUNT, []]}, False),
        ({"contains": ["{{stock.tags}}", "a"]}, True),
        ({"contains": ["{{stock.name}}", "ol"]}, True),
        ({"contains": ["{{stock}}", "count"]}, True),
        ({"empty": "{{stock.note}}"}, True),
        ({"empty": "{{stock.tags}}"}, False),
        ({"equals": [{"length": "{{stock.tags}}"}, 2]}, True),
        ({"equals": ["{{stock}}", {"$literal": {"count": 7}}]}, False),
        ({"equals": [{"$first": ["{{gone}}", COUNT]}, 7]}, True),
        ({"all": [{"below": [COUNT, 10]}, {"not": {"empty": "{{stock.name}}"}}]}, True),
        ({"any": [{"below": [COUNT, 1]}, {"above": [COUNT, 100]}]}, False),
    ],
)
def test_a_condition_holds_or_not_by_the_values_it_refers_to(condition: Any, outcome: bool) -> None:
    assert holds(condition, VALUES) is outcome


@pytest.mark.parametrize(
    "condition",
    [
        *({"below": [COUNT, "10"]}, {"below": ["{{stock.note}}", 1]}, {"equals": [COUNT, "7"]}),
        *({"equals": ["{{stock.open}}", 1]}, {"in": [COUNT, "7"]}, {"in": [COUNT, ["7"]]}),
        *({"contains": [COUNT, 7]}, {"empty": COUNT}, {"below": ["{{stock.missing}}", 1]}),
        *({"below": ["{{other}}", 1]}, {"equals": [{"length": COUNT}, 1]}),
        *({"equals": [{"$first": ["{{gone}}", "{{other}}"]}, 1]}, {"is_true": COUNT}),
    ],
)
def test_a_condition_that_cannot_be_decided_says_so_instead_of_choosing(condition: Any) -> None:
    with pytest.raises(ReferenceFailed) as failed:
        holds(condition, VALUES)
    assert str(failed.value)


@pytest.mark.parametrize(
    "condition",
    [
        *(None, "stock.count < 10", {}, {"below": 1}, {"below": [1]}),
        *({"below": [1, 2], "above": [1, 2]}, {"all": []}, {"all": {"below": [1, 2]}}),
        *({"not": [{"below": [1, 2]}]}, {"equals": [{"length": 5}, 5]}),
        {"equals": [{"call": "rm"}, 5]},
    ],
)
def test_a_condition_of_another_form_has_a_flaw(condition: Any) -> None:
    assert condition_flaws(condition)


def test_a_condition_that_is_too_deep_or_too_large_has_a_flaw() -> None:
    deep: Any = {"empty": COUNT}
    for _ in range(MAX_DEPTH):
        deep = {"not": deep}
    large: Any = {"all": [{"empty": COUNT}] * MAX_SIZE}
    assert "nested deeper" in condition_flaws(deep)[0].why
    assert "more than" in condition_flaws(large)[0].why
    large["all"].pop()
    assert not condition_flaws(large)


def test_a_condition_with_hidden_characters_shows_them_escaped() -> None:
    text = condition_text({"equals": ["{{stock.name}}", "a\u202eb\x1b[31m" + "x" * 500]})
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert len(text) < 120


NUMBERS = st.integers() | st.floats(allow_nan=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=3)
OPERANDS = SCALARS | st.lists(SCALARS, max_size=2) | st.sampled_from(["{{a}}", "{{a.b}}", COUNT])
LEAVES = st.builds(
    lambda name, left, right: {name: [left, right]},
    st.sampled_from(["equals", "not_equals", "below", "at_least", "in", "contains", "nonsense"]),
    OPERANDS,
    OPERANDS,
) | st.builds(lambda each: {"empty": each}, OPERANDS)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda each: {"not": each}, inner)
        | st.builds(
            lambda name, some: {name: some},
            st.sampled_from(["all", "any"]),
            st.lists(inner, max_size=3),
        )
    ),
    max_leaves=6,
)


@given(CONDITIONS, OPERANDS)
def test_any_condition_is_true_or_false_or_says_why_it_is_neither(
    condition: Any, value: Any
) -> None:
    condition_text(condition)
    with suppress(ReferenceFailed):
        assert holds(condition, {"a": value, **VALUES}) in (True, False)
