from __future__ import annotations

from typing import Any

import pytest

from plansmith.check.check_plan import check_plan
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.review.coverage import PlanCalls, coverage
from plansmith.review.policy import Environment, changes_of, reasons_to_ask
from plansmith.review.render import plan_lines
from plansmith.review.settings import ReviewPolicy

GIVES = {"count": {"type": "integer"}, "name": {"type": "string"}, "items": {"type": "array"}}


def changing(name: str, argument: str, kind: str) -> ToolSpec:
    takes = {"type": "object", "properties": {argument: {"type": kind}}, "required": [argument]}
    return ToolSpec(name=name, input_schema=takes | {"additionalProperties": False})


TOOLS = (
    ToolSpec(
        name="stock",
        effect=Effect.READ,
        output_schema={"type": "object", "properties": GIVES, "additionalProperties": False},
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


def codes(plan: Plan) -> list[str]:
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
    assert codes(plan) == []


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
    asked = reasons_to_ask(plan, ReviewPolicy(), changes_of(plan, Environment(BY_NAME)))
    assert len(asked) == 1
    assert "up to 5 times" in asked[0]
    assert "only if stock.count is below 10" in asked[0]
    assert "with the output of" not in asked[0]
    assert "     only if stock.count is below 10" in plan_lines(plan)


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
        PlanCalls(each, Environment(BY_NAME)) for each in (before, before, after)
    )
    assert coverage(approved, same).reasons == ()
    assert coverage(approved, revised).reasons
