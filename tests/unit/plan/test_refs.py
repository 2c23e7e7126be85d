from __future__ import annotations

import pytest

from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json
from plansmith.plan.refs import Ref, fill, fill_text, find, lookup, pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{a}}", Ref("a")),
        ("{{ a.items[0].title }}", Ref("a", ("items", 0, "title"))),
        ('{{a["odd key"].b}}', Ref("a", ("odd key", "b"))),
        ("{{a.温度}}", Ref("a", ("温度",))),
        ("{{get-it_2.x}}", Ref("get-it_2", ("x",))),
    ],
)
def test_a_reference_in_text_is_read(text: str, expected: Ref) -> None:
    assert pieces(text) == [expected]
    assert pieces(str(expected)) == [expected]


@pytest.mark.parametrize(
    "text", ["{a}", "{{}}", "{{a b}}", "{{a..b}}", "{{a[x]}}", "{{a|first}}", "{ {a}}", "{{.a}}"]
)
def test_what_is_no_reference_stays_as_it_is(text: str) -> None:
    assert pieces(text) == [text]
    assert fill_text(text, {}) == text


@pytest.mark.parametrize("text", ["{{}}", "{{a b}}", "x {{a|first}} y"])
def test_braces_that_are_no_reference_are_told(text: str) -> None:
    [found] = find(text)
    assert found.ref is None
    assert "not a reference" in found.flaw


def test_a_text_that_is_one_reference_becomes_the_value_itself() -> None:
    values: dict[str, Json] = {"a": {"n": 5, "list": [1, 2]}}
    assert fill("{{a.n}}", values) == 5
    assert fill({"x": ["{{a.list}}"]}, values) == {"x": [[1, 2]]}


def test_a_reference_among_other_text_becomes_text() -> None:
    values: dict[str, Json] = {"a": {"n": 5, "s": "five", "l": ["é"], "no": None}}
    assert fill("{{a.n}} is {{a.s}} {{a.l}} {{a.no}}", values) == '5 is five ["é"] null'


def test_two_braces_are_written_as_a_quoted_text() -> None:
    assert fill_text('{{"{{"}}name}} and {{a}}', {"a": "b"}) == "{{name}} and b"


def test_a_digit_reaches_into_a_list_with_a_dot_too() -> None:
    assert lookup(Ref("a", ("items", "1")), {"a": {"items": ["x", "y"]}}) == "y"


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("{{b}}", "no result of 'b'"),
        ("{{a.nope}}", "the keys items, name"),
        ("{{a.items[7]}}", "2 items"),
        ("{{a.name.x}}", "no parts"),
        ("{{a.items[0].x}}", "no parts"),
    ],
)
def test_a_missing_value_is_told_with_what_there_is(reference: str, hint: str) -> None:
    values: dict[str, Json] = {"a": {"items": [1, 2], "name": "n"}}
    with pytest.raises(ReferenceFailed, match=r"nothing at|no result") as caught:
        fill(reference, values)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        {"$from": 5},
        {"$from": "a b"},
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
