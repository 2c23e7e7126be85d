"""Plans as values: their hash, their steps and rules, their differences, and how they are shown."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from tests.growth import is_linear

from plansmith import Plan, Plansmith, plan_hash, read_plan, tool
from plansmith.errors import PlansmithError
from plansmith.plan.conditions import rule_sentences
from plansmith.plan.data import FrozenDict, canonical_hash
from plansmith.plan.diff import apply_changes, apply_diff, diff_plans, rename_steps, undone_edits
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ToolStep

BASE: dict[str, Any] = {
    "steps": [{"id": "a", "tool": "t", "inputs": {"x": 1}}, {"id": "b", "tool": "u"}]
}


def plan_of(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps)} | fields)


def test_the_hash_of_a_plan_never_changes_between_releases() -> None:
    # Approvals are stored with this hash: if this fails, every stored approval is void.
    plan = Plan.model_validate(BASE | {"schedule": {"daily_at": "09:30"}})
    assert plan_hash(plan) == "80a40c4722dcdd0e4cf48e23718cbb05e4421b5c9a65d5fd43e48d115a3142dd"
    assert plan.hash == plan_hash(plan)


def test_the_hash_of_a_plan_is_the_one_of_its_content_as_an_object() -> None:
    timing = {"every_minutes": 5}
    for more in ({}, {"schedule": timing}, {"schedules": {"a": timing}, "schedule": timing}):
        plan = Plan.model_validate(BASE | more)
        steps = [
            {"id": "a", "kind": "tool", "tool": "t", "inputs": {"x": 1}, "needs": []},
            {"id": "b", "kind": "tool", "tool": "u", "needs": []},
        ]
        hashed: dict[str, Any] = {"plansmith": 1, "steps": steps} | more
        assert plan.hash == canonical_hash(hashed)


def test_order_switches_time_limits_and_schedules_count() -> None:
    plan = Plan.model_validate(BASE)
    variants = [
        BASE["steps"][1] | {"after": ["a"]},
        BASE["steps"][1] | {"disabled": True},
        BASE["steps"][1] | {"timeout_s": 5.0},
        BASE["steps"][1] | {"tool": "v"},
    ]
    hashes = {plan_of(BASE["steps"][0], each).hash for each in variants}
    hashes.add(Plan.model_validate(BASE | {"schedule": {"every_minutes": 5}}).hash)
    assert len(hashes) == 5
    assert plan.hash not in hashes


CHANGES: list[Callable[[Any], object]] = [
    lambda plan: plan.steps[0].inputs.update(x=2),
    lambda plan: plan.steps[0].inputs.setdefault("y", 2),
    lambda plan: plan.steps[0].inputs.pop("x"),
    lambda plan: plan.steps[0].inputs.clear(),
    lambda plan: plan.steps[2].over.append(2),
    lambda plan: plan.steps[2].over.sort(),
    lambda plan: plan.steps[2].each.inputs["x"]["y"].insert(0, 2),
    lambda plan: operator.setitem(plan.steps[0].inputs, "x", 2),
    lambda plan: plan.steps[0].inputs.__ior__({"x": 2}),
    lambda plan: operator.delitem(plan.steps[0].inputs, "x"),
    lambda plan: plan.steps[2].over.__iadd__([2]),
    lambda plan: operator.setitem(plan.steps[1].inputs, "new", 1),
    lambda plan: operator.setitem(plan.schedules, "a", plan.schedules["b"]),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_a_plan_refuses_to_be_changed_in_place(change: Callable[[Any], object]) -> None:
    inner = {"id": "m", "over": [1], "each": {"tool": "t", "inputs": {"x": {"y": [1]}}}}
    schedules = {"b": {"every_minutes": 5}}
    plan = plan_of(*BASE["steps"], inner, schedules=schedules)
    text = plan.stored_text
    for held in (plan, Plan.model_validate(plan.to_json()), copy.deepcopy(plan), plan.replace()):
        with pytest.raises(TypeError, match="a plan cannot be changed in place"):
            change(held)
        assert Plan.model_validate(held.to_json()).stored_text == text


def test_a_plan_made_without_validation_cannot_be_changed_either() -> None:
    mine: dict[str, Any] = {"to": "ada", "items": ["x"]}
    step = Plan.model_validate(BASE).steps[0]
    copied = Plan(steps=(step.model_copy(update={"inputs": mine}),))
    built = Plan(steps=(type(step).model_construct(**{**vars(step), "inputs": mine}),))
    given = plan_of({"id": "a", "tool": "t", "inputs": FrozenDict(mine)})
    mine["items"].append("y")
    mine["to"] = "mallory"
    for plan in (copied, built, given):
        plan.steps[0].inputs.__init__({"to": "mallory"})  # type: ignore[misc, union-attr]
        assert plan.to_json()["steps"][0]["inputs"] == {"to": "ada", "items": ["x"]}  # type: ignore[index, call-overload]
        assert plan.hash == plan_hash(Plan.model_validate(plan.to_json()))
    with pytest.raises(ValueError, match="nan is not a JSON number"):
        plan_of({"id": "a", "tool": "t", "inputs": FrozenDict({"x": math.nan})})


def test_a_copy_of_a_plan_has_the_hash_of_its_own_content() -> None:
    plan = Plan.model_validate(BASE)
    digest, known = plan.hash, plan.by_id
    changed = plan.model_copy(update={"steps": plan.steps[:1]})
    assert changed.hash == plan_hash(Plan.model_validate(changed.to_json())) != digest
    assert list(changed.by_id) == ["a"]
    step = plan.steps[1].model_copy(update={"inputs": {"y": "{{a}}"}})
    assert step.needed == {"a"}
    for same in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert same == plan
        assert same.hash == digest
        assert same.by_id == known


RULED: dict[str, Any] = {
    "id": "order",
    "tool": "order",
    "inputs": {"count": 10},
    "when": {"below": ["{{stock.count}}", 10]},
    "otherwise": {"value": None},
    "repeat": {"until": {"equals": ["{{order.state}}", "open"]}, "at_most": 5, "every": 60},
    "on_error": {"value": 0},
    "retry": {"at_most": 2},
    "undo_with": {"tool": "cancel", "inputs": {"id": "{{order.id}}", "shop": "{{shop}}"}},
}
RULES = ("when", "otherwise", "repeat", "on_error", "retry", "undo_with")


def stocked(*steps: dict[str, Any]) -> Plan:
    return plan_of({"id": "stock", "tool": "stock"}, {"id": "shop", "tool": "shop"}, *steps)


def test_each_rule_of_a_step_changes_the_hash_of_its_plan() -> None:
    plans = [stocked({k: v for k, v in RULED.items() if k != rule}) for rule in RULES]
    assert len({stocked(RULED).hash, *(each.hash for each in plans)}) == len(RULES) + 1


def test_a_renamed_step_is_renamed_in_its_own_rules_and_in_those_of_others() -> None:
    later = {"id": "b", "tool": "t", "when": {"empty": {"$from": "order", "$path": ["id"]}}}
    text = rename_steps(stocked(RULED, later), {"order": "buy", "stock": "store"}).stored_text
    assert b"{{order" not in text
    assert b'"$from":"order"' not in text
    assert b"{{store.count}}" in text
    assert b"{{buy.state}}" in text


def test_the_rules_of_a_step_read_as_sentences() -> None:
    assert [str(each) for each in rule_sentences(stocked(RULED).by_id["order"])] == [
        "only if stock.count is below 10",
        "if it is skipped, its result is null",
        'repeated every 60 s until order.state is "open", up to 5 times',
        "if the call fails, it is made again up to 2 times",
        "if it fails, its result is 0",
        "can be undone with cancel(id=order.id, shop=shop)",
    ]
    when = rule_sentences(stocked(RULED).by_id["order"])[0]
    assert in_language(when, "zh") == "仅当 stock.count 小于 10"


@pytest.mark.parametrize(
    "inputs",
    [{"x": math.nan}, {"x": math.inf}, {"x": "\ud800"}, {"x": (1,)}, {"x": {1: 2}}, {"x": b""}],
)
def test_what_json_cannot_hold_is_refused_from_python_too(inputs: Any) -> None:
    with pytest.raises(ValidationError):
        ToolStep(id="a", tool="t", inputs=inputs)


def test_replace_validates_like_a_new_one() -> None:
    plan = Plan(goal="a")
    assert plan.by_id == {}
    assert plan.replace(goal="b").goal == "b"
    with pytest.raises(ValidationError):
        plan.replace(revision=0)


def test_each_changed_field_is_named() -> None:
    after = plan_of(A | {"inputs": {"x": True, "l": [1, 3], "new": None}, "title": "T"})
    [change] = diff_plans(plan_of(A), after).changed
    found = {(".".join(map(str, each.path)), each.change.value) for each in change.fields}
    assert found == {
        ("title", "added"),
        ("inputs.x", "changed"),
        ("inputs.l.1", "changed"),
        ("inputs.new", "added"),
    }


A, B = ({"id": name, "tool": "t", "inputs": {"x": 1, "l": [1, 2]}} for name in "ab")


def test_plans_with_the_same_id_twice_cannot_be_compared() -> None:
    with pytest.raises(PlansmithError, match="same id"):
        diff_plans(plan_of(A, A), plan_of(A))


def test_a_diff_that_does_not_fit_is_refused() -> None:
    diff = diff_plans(plan_of(A), plan_of(A | {"inputs": {"x": 1, "l": [1, 9]}}))
    with pytest.raises(PlansmithError, match="no step 'a'"):
        apply_diff(plan_of(B), diff)
    with pytest.raises(PlansmithError, match=r"inputs\.l\.1 does not fit"):
        apply_changes({"id": "a", "inputs": {"l": "text"}}, diff.changed[0].fields)


def test_only_the_fewest_steps_are_said_to_have_moved() -> None:
    steps = [{"id": name, "tool": "t"} for name in "abcd"]
    after = plan_of(*(steps[place] for place in (1, 3, 2, 0)))
    assert len(diff_plans(plan_of(*steps), after).moved) == 2


def test_the_time_to_compare_plans_in_another_order_grows_with_their_steps() -> None:
    def compared(count: int) -> None:
        steps = [{"id": f"s{number}", "tool": "t"} for number in range(count)]
        assert diff_plans(plan_of(*steps), plan_of(*steps[::2], *steps[1::2])).moved

    assert is_linear(compared, 500)


NEW = A | {"id": "new"}


@pytest.mark.parametrize(
    ("base", "person", "replan", "undone"),
    [
        ([A], [A | {"inputs": {"x": 5}}], [A | {"inputs": {"x": 7}}], ["a"]),
        ([A], [A | {"inputs": {"x": 5}}], [A | {"inputs": {"x": 5, "new": 1}}], []),
        ([A, B], [A], [A, B | {"title": "better"}], ["b"]),
        ([A, B], [A, B | {"title": "mine"}], [A], ["b"]),
        ([A], [A, NEW | {"tool": "mine"}], [A, NEW | {"tool": "other"}], ["new"]),
        ([A | {"title": "old"}], [A], [A | {"title": "other"}], ["a"]),
        ([A | {"title": "old"}], [A], [A], []),
        ([A | {"title": "old"}], [A], [], ["a"]),
        ([A], [A | {"inputs": {"x": 1, "l": [9, 2]}}], [A | {"inputs": {"l": [9, 1, 2]}}], ["a"]),
    ],
)
def test_where_a_replan_differs_from_a_persons_edit_it_undoes_it(
    base: list[Any], person: list[Any], replan: list[Any], undone: list[str]
) -> None:
    assert undone_edits(plan_of(*base), plan_of(*person), plan_of(*replan)) == undone


EVIL = "<img src=x onerror=alert(1)> & </table><script>alert(2)</script>"


@tool(effect="read")
def look(q: str) -> str:
    return q


def worded(text: str) -> Plan:
    steps: list[dict[str, Any]] = [
        {"id": "a", "tool": "look", "inputs": {"q": text}},
        {"id": "m", "over": [1, text], "each": {"tool": "look", "inputs": {"q": "{{item}}"}}},
        {"id": "q", "question": text},
        {"id": "g", "agent": "x", "task": text},
        {"id": "p", "template": "t"},
        {"id": "r", "say": f"It is {{{{a}}}}: {text}"},
    ]
    return read_plan({"goal": text, "steps": steps})


def html_of(page: object) -> str:
    return str(getattr(page, "_repr_html_")())  # noqa: B009 - notebooks look it up by name


def test_a_plan_is_short_in_a_terminal_and_lists_its_steps_as_text() -> None:
    plan = worded("word " * 100)
    assert len(repr(plan)) < 120
    assert plan.hash[:12] in repr(plan)
    lines = str(worded("tea")).splitlines()
    assert lines[:4] == [
        "tea",
        "1. a: look(q=tea)",
        '2. m: for each of [1, "tea"]: look(q={{item}})',
        "3. q: asks: tea",
    ]


async def test_the_tables_of_a_plan_and_of_a_run_escape_every_text() -> None:
    steps = [{"id": "a", "tool": "look", "inputs": {"q": EVIL}}, {"id": "r", "say": "{{a}}"}]
    async with Plansmith(tools=[look]) as smith:
        waiting = await smith.submit(read_plan({"goal": EVIL, "steps": steps}), request=EVIL)
        run = await smith.run(waiting.id)
    for page in (html_of(worded(EVIL)), html_of(run)):
        assert "<script" not in page
        assert "<img" not in page
        assert "&lt;script&gt;" in page
        assert page.count("</table>") == 1
    assert repr(run).startswith(f"<Run {run.id} done, 2 of 2 steps done, ")
    assert len(repr(run)) < 160
    assert html_of(waiting).count("<tr>") == 3


def test_a_printed_plan_tells_the_rules_of_its_steps_however_long_their_values_are() -> None:
    order = {"id": "o", "tool": "look", "inputs": {"q": "x" * 1000}}
    rules = {"when": {"below": ["{{a.count}}", 10]}, "on_error": "skip"}
    inner = {"tool": "look", "inputs": {"q": "{{item}}"}, "retry": {"at_most": 3}}
    steps = [{"id": "a", "tool": "look", "inputs": {"q": "y"}}, order | rules]
    plan = read_plan({"goal": "g", "steps": [*steps, {"id": "m", "over": [1], "each": inner}]})
    for page in (str(plan), html_of(plan)):
        assert "a.count is below 10" in page
        assert "3 times" in page or "up to 3" in page


def test_no_value_of_a_printed_plan_looks_like_another_step_or_moves_the_cursor() -> None:
    plan = worded("tea\n7. pay: bank.pay(amount=1)\r\x1b[2J\u202e")
    assert len(str(plan).splitlines()) == 1 + len(plan.steps)
    assert str(plan).replace("\n", "").isprintable()
