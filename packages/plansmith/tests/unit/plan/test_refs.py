from __future__ import annotations

import pytest

from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json
from plansmith.plan.refs import (
    Ref,
    earlier_parts,
    earlier_source,
    fill,
    fill_text,
    find,
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
        "{a}",
        "{{}}",
        "{{a b}}",
        "{{a..b}}",
        "{{a[x]}}",
        "{{a|first}}",
        "{ {a}}",
        "{{.a}}",
        "{{run:/a}}",
        "{{run:x}}",
        "{{run:x/}}",
        "{{run:a b/c}}",
        "{{ran:a/b}}",
        "{{run:a/b/c}}",
    ],
)
def test_what_is_no_reference_stays_as_it_is_and_double_braces_are_told(text: str) -> None:
    assert pieces(text) == [text]
    assert fill_text(text, {}) == text
    flaws = [found.flaw for found in find(text) if found.ref is None]
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
        {"$from": 5},
        {"$from": "a b"},
        {"$from": "run:only"},
        {"$from": "a", "$path": "items"},
        {"$from": "a", "$path": [-1]},
        {"$from": "a", "$path": [True]},
        {"$from": "a", "$path": [1.5]},
        {"$from": "a", "$Path": []},
    ],
)
def test_a_malformed_reference_is_found_and_never_filled(broken: Json) -> None:
    [found] = find({"x": broken})
    assert found.ref is None
    assert found.where == ("x",)
    assert found.flaw
    with pytest.raises(ReferenceFailed):
        fill({"x": broken}, {"a": {}})


def test_data_that_looks_like_a_reference_is_kept_apart() -> None:
    data: Json = {"$from": "a", "text": "{{a}}", "$literal": 1}
    assert fill({"x": {"$literal": data}}, {}) == {"x": data}
    assert list(find({"x": {"$literal": data}})) == []


def test_a_result_of_an_earlier_run_is_named_by_run_and_step() -> None:
    assert earlier_source("0198", "totals") == "run:0198/totals"
    assert earlier_parts("run:0198/totals") == ("0198", "totals")
    assert is_earlier("run:0198/totals")
    assert not is_earlier("run")
    assert [earlier_source(*each) for each in (("a/b", "c"), ("a", "m/0"), ("a b", "c"))] == [
        ""
    ] * 3
