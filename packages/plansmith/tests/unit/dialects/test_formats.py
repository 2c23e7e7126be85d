"""What is read as a plan."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema_rs
import pytest

from plansmith import Plan, check_plan, try_read_plan
from plansmith.formats.native import schema

STEP: dict[str, Any] = {"id": "a", "kind": "tool", "tool": "t", "inputs": {"x": 1}}


def codes(source: object) -> list[str]:
    found = try_read_plan(source)
    assert isinstance(found, list), found
    assert all(each.hint for each in found)
    return [each.code for each in found]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("", "PS001"),
        ("just words", "PS001"),
        ("[]", "PS001"),
        ("--- {}\n--- {}", "PS001"),
        ('{"steps": [', "PS002"),
        ("a: b: c", "PS002"),
        ("\x00", "PS002"),
        ({"steps": [STEP], "stepz": 1}, "PS003"),
        ({"steps": [STEP | {"input": {}}]}, "PS003"),
        ({"goal": "no steps"}, "PS004"),
        ({"steps": [{"id": "a", "kind": "agent", "agent": "x"}]}, "PS004"),
        ({"steps": {}}, "PS005"),
        ({"steps": [7]}, "PS005"),
        ({"steps": [{"id": "a"}]}, "PS005"),
        ({"steps": [STEP | {"kind": "loop"}]}, "PS005"),
        ({"steps": [STEP | {"kind": 5}]}, "PS005"),
        ({"steps": [STEP | {"id": "two words"}]}, "PS005"),
        ({"steps": [STEP | {"id": 1}]}, "PS005"),
        ({"steps": [STEP | {"timeout_s": "5"}]}, "PS005"),
        ({"steps": [STEP | {"disabled": 1}]}, "PS005"),
        ({"steps": [], "schedule": {"daily_at": "25:00"}}, "PS005"),
        ({"steps": [{"id": "m", "over": [], "each": {"question": "?"}}]}, "PS005"),
        ({"steps": [STEP] * 10_001}, "PS006"),
        (" " * 20_000_001, "PS006"),
        ("[" * 100_000, "PS007"),
        ('{"a":' * 1_000, "PS007"),
        ("a: " + "[" * 1_000 + "]" * 1_000, "PS007"),
        ('{"goal": "\\ud800", "steps": []}', "PS008"),
        ("\ud800", "PS008"),
        (b"\xff\xfe{}", "PS008"),
        ({"steps": [STEP | {"inputs": {"\udfff": 1}}]}, "PS008"),
        ('{"steps": [], "x": NaN}', "PS009"),
        ("steps: [.inf]", "PS009"),
        ('{"x": ' + "9" * 5_000 + "}", "PS009"),
        ("x: " + "9" * 5_000, "PS009"),
        ({"steps": [STEP | {"inputs": {"x": math.inf}}]}, "PS009"),
        ({"steps": [STEP | {"inputs": {"x": 1 << 5_000}}]}, "PS009"),
        ('{"steps": [], "goal": "a", "goal": "b"}', "PS010"),
        ("goal: a\ngoal: b", "PS010"),
        ("a: &x 1\nb: *x", "PS011"),
        ("steps: !!python/object:os.system []", "PS011"),
        ("? [1]\n: 2", "PS005"),
        ({"schema_version": 2, "steps": []}, "PS012"),
        ({"steps": [STEP | {"inputs": {"x": {1, 2}}}]}, "PS005"),
        (None, "PS001"),
        (42, "PS001"),
    ],
)
def test_bad_input_gets_a_problem_with_a_code_and_a_hint(source: object, code: str) -> None:
    assert code in codes(source)


def test_a_value_that_is_very_deep_or_contains_itself_is_a_problem() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    for value in (deep, ring):
        assert codes({"steps": [STEP | {"inputs": {"x": value}}]}) == ["PS007"]


def test_thousands_of_problems_are_shortened_and_the_rest_is_counted() -> None:
    found = try_read_plan({"steps": [STEP | {"x": 1}] * 1_500})
    assert isinstance(found, list)
    assert len(found) == 101
    assert "1,400 more" in found[-1].message


def test_yaml_means_what_it_says() -> None:
    text = """
    goal: 比较天气   # a comment
    steps:
      - id: a
        tool: t
        inputs: {no: no, version: 1.10, zip: 01234, day: 2026-01-01, time: 12:30, n: 12, f: 1.5e3,
                 empty: , yes: true, quoted: "12", big: 12345678901234567890, neg: -0.5}
        why: |
          two
          lines
    """
    plan = try_read_plan(text)
    assert isinstance(plan, Plan)
    step = plan.steps[0].to_json()
    assert plan.goal == "比较天气"
    assert step["why"] == "two\nlines\n"
    assert step["inputs"] == {
        "no": "no",
        "version": 1.10,
        "zip": "01234",
        "day": "2026-01-01",
        "time": "12:30",
        "n": 12,
        "f": 1500.0,
        "empty": None,
        "yes": True,
        "quoted": "12",
        "big": 12345678901234567890,
        "neg": -0.5,
    }


def test_the_schema_is_flat_and_refuses_what_is_no_plan() -> None:
    text = json.dumps(schema())
    assert not any(word in text for word in ("$ref", "$defs", "anyOf", "oneOf", "allOf"))
    jsonschema_rs.meta.validate(schema())
    wrong: list[Any] = [
        {"steps": []},
        {"goal": 1, "steps": []},
        {"goal": "", "steps": [{"id": "a"}]},
        [],
    ]
    assert not any(map(jsonschema_rs.validator_for(schema()).is_valid, wrong))


def test_thousands_of_steps_are_read_and_checked() -> None:
    steps = [
        {"id": f"s{number}", "tool": "t", "inputs": {"x": f"{{{{s{number - 1}}}}}"}}
        for number in range(1, 3_000)
    ]
    plan = try_read_plan({"steps": [{"id": "s0", "tool": "t"}, *steps]})
    assert isinstance(plan, Plan)
    assert check_plan(plan, {"t": {}}) == []
