"""Problems of a plan: its arguments against schemas, and the rules of its steps."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith import Plan, Problem
from plansmith.check.check_plan import check_plan
from plansmith.check.schemas import validator
from plansmith.plan.capability import Capabilities, Effect, ToolSpec
from plansmith.review.coverage import PlanCalls, compare_with_approved
from plansmith.review.policy import acting_calls, reasons_to_ask
from plansmith.review.settings import ReviewPolicy

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def schema(properties: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | rest


def check(
    inputs: dict[str, Any], takes: dict[str, Any], gives: dict[str, Any] | None = None
) -> list[Problem]:
    source = {"id": "s", "tool": "source"}
    tools: dict[str, dict[str, object]] = {
        "source": {"output_schema": gives} if gives else {},
        "t": {"input_schema": takes},
    }
    steps = [source, {"id": "a", "tool": "t", "inputs": inputs}]
    return check_plan(Plan.model_validate({"steps": steps}), tools)


def fields(found: list[Problem]) -> list[tuple[str, str, tuple[str | int, ...]]]:
    return [(each.code, str(each.severity), each.path) for each in found]


@pytest.mark.parametrize(
    ("takes", "inputs", "code", "path"),
    [
        (schema({"n": WHOLE}), {"n": "x"}, "PS201", ("n",)),
        (schema({"n": WHOLE}), {"n": "{{s}} degrees"}, "PS201", ("n",)),
        (schema({"n": WHOLE}), {"n": {"$literal": "x"}}, "PS201", ("n", "$literal")),
        (schema({"o": schema({"n": WHOLE})}), {"o": {"n": []}}, "PS201", ("o", "n")),
        (schema({"l": {"items": WHOLE}}), {"l": [1, "x"]}, "PS201", ("l", 1)),
        (schema({"n": {"anyOf": [WHOLE, {"type": "null"}]}}), {"n": "x"}, "PS201", ("n",)),
        (schema({"n": TEXT}, required=["n"]), {}, "PS202", ("n",)),
        (schema({"o": schema({"n": TEXT}, required=["n"])}), {"o": {}}, "PS202", ("o", "n")),
        (
            schema({"a": TEXT, "b": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
            {},
            "PS204",
            (),
        ),
        (schema({"n": TEXT}, additionalProperties=False), {"m": 1}, "PS203", ("m",)),
        (schema({"n": {"enum": ["a", "b"]}}), {"n": "c"}, "PS204", ("n",)),
        (schema({"n": {"const": 3}}), {"n": 4}, "PS204", ("n",)),
        (schema({"n": {"minimum": 3}}), {"n": 2}, "PS204", ("n",)),
        (schema({"n": {"pattern": "^a"}}), {"n": "b"}, "PS204", ("n",)),
        (schema({"n": {"format": "email"}}), {"n": "b"}, "PS204", ("n",)),
        (schema({"n": {"uniqueItems": True}}), {"n": [1, 1]}, "PS204", ("n",)),
        (schema({"n": {"not": {"type": "null"}}}), {"n": None}, "PS204", ("n",)),
        (schema({"n": {"maxItems": 1}}), {"n": ["{{s}}", "{{s}}"]}, "PS204", ("n",)),
    ],
)
def test_a_wrong_argument_is_told_at_its_place(
    takes: dict[str, Any], inputs: dict[str, Any], code: str, path: tuple[str | int, ...]
) -> None:
    [found] = check(inputs, takes)
    assert fields([found]) == [(code, "error", ("inputs", *path))]
    assert found.step == "a"
    assert found.hint


def test_an_argument_the_schema_does_not_speak_of_is_a_warning_with_the_nearest_name() -> None:
    [found] = check({"citty": "Oslo"}, schema({"city": TEXT}))
    assert fields([found]) == [("PS203", "warning", ("inputs", "citty"))]
    assert "'city'" in found.hint
    assert check({"x": 1}, schema({"city": TEXT}, additionalProperties=True)) == []
    assert check({"x": 1}, {"type": "object"}) == []


def test_a_broken_schema_is_told_once() -> None:
    takes = schema({"n": {"type": "integer", "enum": "1-100"}}, required=["n"])
    tools: dict[str, dict[str, object]] = {"t": {"input_schema": takes}}
    steps = [{"id": "a", "tool": "t", "inputs": {"n": "x"}}, {"id": "b", "tool": "t"}]
    found = check_plan(Plan.model_validate({"steps": steps}), tools)
    assert [each.code for each in found] == ["PS209"]


@pytest.mark.parametrize(
    "takes",
    [{"$ref": "#/nowhere"}, {"$ref": "https://example.org/schema"}, {"$schema": 5, "type": 7}],
)
def test_a_schema_that_cannot_be_saved_leaves_the_arguments_unchecked(takes: Any) -> None:
    assert [each.code for each in check({"x": 1}, takes)] == ["PS209"]


def nested_choices(link: str, names: list[dict[str, Any]]) -> dict[str, Any]:
    """Many choices inside of one another, each between two links to the next one."""
    parts: dict[str, Any] = {
        f"c{level}": {"anyOf": [{"$ref": link.format(level + 1)}] * 2} | names[level]
        for level in range(26)
    }
    parts["c26"] = WHOLE | names[26]
    return schema({"n": {"$ref": link.format(0)}}) | {"$defs": parts}


def nested(depth: int, inmost: Any = 1) -> Any:
    for _ in range(depth):
        inmost = {"a": inmost}
    return inmost


@pytest.mark.parametrize("depth", range(4))
def test_the_surface_of_arguments_is_checked_whatever_is_below(depth: int) -> None:
    blocks: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/block"}}
    kinds = [
        schema({"type": {"const": each}, "children": blocks}, required=["type"])
        for each in range(20)
    ]
    takes = schema(
        {"page": TEXT, "n": WHOLE, "children": blocks},
        required=["page"],
        additionalProperties=False,
    )
    takes["$defs"] = {"block": {"anyOf": kinds}}
    children: list[Any] = []
    for _ in range(depth + 1):
        children = [{"type": 3, "children": children}]
    assert check({"page": "p", "children": children}, takes) == []
    found = check({"pagee": 5, "n": "x", "children": children}, takes)
    assert {each.code for each in found} - {"PS209"} == {"PS201", "PS202", "PS203"}


def doubled(link: str, at: str = "$defs", **names: str) -> dict[str, Any]:
    """Links to links, two at each of many places: too much work for any value."""
    parts: dict[str, Any] = {}
    for each in range(26):
        to = {"$ref": link.format(each + 1)}
        parts[f"a{each}"] = {"allOf": [to], "dependencies": {"x": to}, "anyOf": [to]}
    parts["a26"] = {"type": "object"}
    for each, part in enumerate(parts.values()):
        part |= {key: name.format(each) for key, name in names.items()}
    return {"allOf": [{"$ref": link.format(0)}], at: parts}


def unevaluated() -> dict[str, Any]:
    takes: dict[str, Any] = schema({"x": WHOLE})
    for _ in range(24):
        takes = {"allOf": [takes], "unevaluatedProperties": False}
    return takes


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
INNER = {"$id": "http://r/", "$ref": "n"} | {
    "$defs": {"n": doubled("#/$defs/a{}") | {"$id": "http://r/n"}}
}
ANCHORS = nested_choices("#a{}", [{"$anchor": f"a{level}"} for level in range(27)])
IDS = nested_choices("x:a{}", [{"$id": f"x:a{level}"} for level in range(27)])
CHOICES = nested_choices("#/$defs/c{}", [{}] * 27)


@pytest.mark.parametrize(
    ("takes", "value"),
    [
        *((takes, {"n": n}) for takes in (CHOICES, ANCHORS, IDS) for n in ("text", "{{s}}", 5)),
        (doubled("#/$defs/a{}", "$defs"), {"x": 1}),
        (doubled("#/definitions/a{}", "definitions") | DRAFT_7, {"x": 1}),
        (doubled("http://r/k{}/", **{"$id": "http://r/k{}/"}), {"x": 1}),
        (INNER, {"x": 1}),
        ({"patternProperties": {"a": {"$ref": "#"}, ".": {"$ref": "#"}}}, nested(30)),
        ({"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2}, nested(30)),
        (unevaluated(), {"x": 1}),
    ],
)
def test_work_that_would_take_a_minute_is_not_begun_and_left_to_the_call(
    takes: dict[str, Any], value: Any
) -> None:
    [found] = check(value, takes)
    assert fields([found]) == [("PS209", "warning", ("tool",))]
    assert "at the call" in found.message
    validator(takes).validate(value)
    assert next(validator(takes).iter_errors(value), None) is None


def test_choices_of_a_recursive_schema_are_checked_as_deep_as_that_is_quick() -> None:
    link = {"$ref": "#/$defs/f"}
    takes = schema({"f": link}) | {
        "$defs": {"f": {"anyOf": [WHOLE, schema({"a": link}), schema({"a": link, "b": link})]}}
    }
    value: Any = "x"
    codes: list[set[str]] = []
    for _ in range(20):
        codes.append({each.code for each in check({"f": value}, takes)})
        value = {"a": value}
    assert "PS209" not in set.union(*codes[:5])
    assert codes[-1] == {"PS209"}


GIVES = schema(
    {"n": WHOLE, "text": TEXT, "list": {"type": "array", "items": schema({"k": TEXT})}},
    additionalProperties=False,
)


@pytest.mark.parametrize(
    ("value", "takes", "severity"),
    [
        ("{{s.nope}}", {}, "error"),
        ("see {{s.nope}}", {}, "error"),
        ("{{s.n.deeper}}", {}, "error"),
        ("{{s.list.first}}", {}, "error"),
        ("{{s.list[0].other}}", {}, "warning"),
        ("{{s.list}}", TEXT, "error"),
        ("{{s.text}}", WHOLE, "warning"),
        ("{{s}}", {"type": "array"}, "error"),
        ("{{s.n}}", {"type": "number"}, None),
        ("{{s.text}}", {"type": ["string", "null"]}, None),
        ("{{s.list[3].k}}", TEXT, None),
        ("{{s.list}}", {"type": "array", "items": WHOLE}, None),
        ("see {{s.list}}", TEXT, None),
        ("{{s}}", {}, None),
    ],
)
def test_a_reference_that_cannot_fit_is_told_and_one_that_may_is_not(
    value: str, takes: dict[str, Any], severity: str | None
) -> None:
    found = fields(check({"x": value}, schema({"x": takes}), GIVES))
    assert found == ([("PS208", severity, ("inputs", "x"))] if severity else [])


def test_types_are_followed_through_links_choices_questions_and_maps() -> None:
    gives = {
        "$ref": "#/$defs/o",
        "$defs": {
            "o": {"anyOf": [schema({"a": WHOLE}), schema({"b": TEXT}, additionalProperties=False)]}
        },
    }
    assert check({"x": "{{s.a}}"}, schema({"x": WHOLE}), gives) == []
    assert [
        each.code for each in check({"x": "{{s.a}}"}, schema({"x": {"type": "array"}}), gives)
    ] == ["PS208"]
    tools: dict[str, dict[str, object]] = {
        "get": {"output_schema": GIVES},
        "t": {"input_schema": schema({"x": WHOLE})},
    }
    steps = [
        {"id": "q", "question": "?", "answer_schema": {"type": "array"}},
        {"id": "g", "tool": "get"},
        {"id": "r", "instruction": "say"},
        {"id": "m", "over": "{{g.list}}", "each": {"tool": "t", "inputs": {"x": "{{item.k}}"}}},
        {"id": "n", "over": "{{g.n}}", "each": {"tool": "t", "inputs": {"x": "{{item}}"}}},
        {"id": "a", "tool": "t", "inputs": {"x": "{{q}}"}},
        {"id": "b", "tool": "t", "inputs": {"x": "{{m}}"}},
        {"id": "c", "tool": "t", "inputs": {"x": "{{r}}"}},
    ]
    found = check_plan(Plan.model_validate({"steps": steps}), tools)
    assert [(each.step, each.code, str(each.severity)) for each in found] == [
        ("m_each", "PS208", "warning"),
        ("n", "PS309", "error"),
        ("a", "PS208", "error"),
        ("b", "PS208", "error"),
        ("c", "PS208", "warning"),
    ]


STOCK_GIVES = {"count": {"type": "integer"}, "name": {"type": "string"}, "items": {"type": "array"}}


def changing(name: str, argument: str, kind: str) -> ToolSpec:
    takes = {"type": "object", "properties": {argument: {"type": kind}}, "required": [argument]}
    return ToolSpec(name=name, input_schema=takes | {"additionalProperties": False})


TOOLS = (
    ToolSpec(
        name="stock",
        effect=Effect.READ,
        output_schema={"type": "object", "properties": STOCK_GIVES, "additionalProperties": False},
    ),
    changing("order", "count", "integer"),
    changing("cancel", "id", "string"),
)
BY_NAME = {each.name: each for each in TOOLS}
LOW = {"below": ["{{stock.count}}", 10]}


def plan_of(*steps: dict[str, Any], **order: Any) -> Plan:
    first = [{"id": "stock", "tool": "stock"}]
    ordered = [{"id": "order", "tool": "order", "inputs": {"count": 10}, **order}]
    return Plan.model_validate({"steps": [*first, *(ordered if order else []), *steps]})


def codes_of(plan: Plan) -> list[str]:
    return [each.code for each in check_plan(plan, TOOLS)]


def test_a_plan_with_all_rules_has_no_problems() -> None:
    plan = plan_of(
        {"id": "told", "instruction": "{{order}}"},
        when=LOW,
        otherwise={"value": {"id": "none"}},
        repeat={"until": {"equals": ["{{order.state}}", "open"]}, "at_most": 3},
        on_error="collect",
        retry={"at_most": 2, "every": 5},
        undo_with={"tool": "cancel", "inputs": {"id": "{{order.id}}"}},
    )
    assert codes_of(plan) == []


@pytest.mark.parametrize(
    ("rules", "code", "path"),
    [
        ({"when": {"smaller": [1, 2]}}, "PS318", ("when",)),
        ({"when": {"below": ["{{stock.name}}", 10]}}, "PS318", ("when", "below")),
        ({"when": {"not": {"below": [1, "{{stock.items}}"]}}}, "PS318", ("when", "not", "below")),
        ({"when": {"equals": [1, 1]}}, "PS318", ("when",)),
        ({"when": {"below": ["{{stock.cuont}}", 10]}}, "PS208", ("when", "below", 0)),
        ({"when": {"below": ["{{shop.count}}", 10]}}, "PS302", ("when", "below", 0)),
        ({"when": {"below": ["{{order.count}}", 10]}}, "PS305", ()),
        ({"repeat": {"until": LOW, "at_most": 3}}, "PS319", ("repeat", "until")),
        ({"otherwise": {"value": "{{stock}}"}}, "PS319", ("otherwise", "value")),
        ({"on_error": {"value": {"$from": "stock"}}}, "PS319", ("on_error", "value")),
        ({"undo_with": {"tool": "cancle"}}, "PS101", ("undo_with", "tool")),
        ({"undo_with": {"tool": "cancel"}}, "PS202", ("undo_with", "inputs", "id")),
        (
            {"undo_with": {"tool": "cancel", "inputs": {"id": "{{order.id}}", "x": 1}}},
            "PS203",
            ("undo_with", "inputs", "x"),
        ),
        ({"inputs": {"count": {"$first": [1, "{{stock}}"]}}}, "PS303", ("inputs", "count")),
    ],
)
def test_a_wrong_rule_is_a_problem_at_its_place(
    rules: dict[str, Any], code: str, path: tuple[Any, ...]
) -> None:
    found = check_plan(plan_of(**rules), TOOLS)
    assert [(each.code, each.path) for each in found] == [(code, path)]
    assert found[0].hint


REPEAT = {"until": {"empty": "{{a}}"}, "at_most": 2}


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ({"instruction": "Hi", "repeat": REPEAT}, "repeat an agent or tool"),
        ({"question": "When?", "repeat": REPEAT}, "answer_schema"),
        ({"question": "Why?", "retry": {"at_most": 2}}, "leave it out"),
        ({"over": [1], "each": {"tool": "stock"}, "undo_with": {"tool": "cancel"}}, "leave it out"),
    ],
)
def test_a_rule_that_a_kind_of_step_cannot_keep_is_a_problem_with_what_to_write_instead(
    step: dict[str, Any], hint: str
) -> None:
    [found] = check_plan(plan_of({"id": "a", **step}), TOOLS)
    assert found.code == "PS319"
    assert hint in str(found.hint)


def test_a_review_tells_under_which_condition_and_how_often_a_change_is_made() -> None:
    until = {"equals": ["{{order.state}}", "open"]}
    plan = plan_of(when=LOW, repeat={"until": until, "at_most": 5})
    asked = reasons_to_ask(plan, ReviewPolicy(), acting_calls(plan, Capabilities(BY_NAME)))
    assert len(asked) == 1
    assert "up to 5 times" in asked[0]
    assert "only if stock.count is below 10" in asked[0]
    assert "with the output of" not in asked[0]


RULED: dict[str, Any] = {"when": LOW, "repeat": {"until": {"empty": "{{order.x}}"}, "at_most": 3}}
ASK = {"id": "sure", "question": "Sure?"}
EACH = {"id": "all", "over": [1], "each": {"tool": "order", "inputs": {"count": 1}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(
            (plan_of(**RULED), plan_of(**RULED | wider))
            for wider in (
                {"when": {"below": ["{{stock.count}}", 99]}},
                {"when": None},
                {"repeat": {"until": {"empty": "{{order.x}}"}, "at_most": 9}},
                {"otherwise": {"value": 1}},
                {"on_error": "skip"},
            )
        ),
        (
            plan_of(ASK, after=["sure"]),
            plan_of(ASK | {"when": LOW, "otherwise": {"value": "yes"}}, after=["sure"]),
        ),
        (plan_of(EACH | {"when": LOW}), plan_of(EACH)),
    ],
)
def test_a_revision_with_another_rule_on_a_change_a_question_or_a_map_needs_a_review(
    before: Plan, after: Plan
) -> None:
    approved, same, revised = (
        PlanCalls(each, Capabilities(BY_NAME)) for each in (before, before, after)
    )
    assert compare_with_approved(approved, same).reasons == ()
    assert compare_with_approved(approved, revised).reasons
