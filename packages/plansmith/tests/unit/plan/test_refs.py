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
    lookup,
    pieces,
)
from plansmith.plan.steps import ToolStep


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


def test_a_result_of_an_earlier_run_is_named_by_run_and_step() -> None:
    assert earlier_source("0198", "totals") == "run:0198/totals"
    assert earlier_parts("run:0198/totals") == ("0198", "totals")
    assert is_earlier("run:0198/totals")
    assert not is_earlier("run")
    assert [earlier_source(*each) for each in (("a/b", "c"), ("a", "m/0"), ("a b", "c"))] == [
        ""
    ] * 3


def test_a_result_of_an_earlier_run_is_filled_in_beside_a_step_of_that_name() -> None:
    values: dict[str, Json] = {"a": 1, "run:x/a": {"b": [2]}}
    template: Json = {
        "m": {"$from": "a"},
        "n": {"$from": "run:x/a", "$path": ["b", 0]},
        "o": "{{run:x/a.b}}",
    }
    assert fill(template, values) == {"m": 1, "n": 2, "o": [2]}
    with pytest.raises(ReferenceFailed, match="of the earlier run y is not there"):
        lookup(Ref("run:y/a"), values)


def test_a_malformed_name_of_an_earlier_run_says_how_it_is_written() -> None:
    [found] = find({"$from": "run:only"})
    assert "run:<run id>/<step id>" in found.flaw


def test_a_step_waits_for_no_result_of_an_earlier_run() -> None:
    step = ToolStep(id="a", tool="t", inputs={"x": {"$from": "run:y/b"}, "z": "{{b}}"})
    assert step.needs() == {"b"}
