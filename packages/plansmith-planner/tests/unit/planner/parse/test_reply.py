"""A plan, with the rules of its steps, out of a reply of a model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.flow.smiths import plan_of

from plansmith.plan.data import Json
from plansmith_planner.dialect import Reading
from plansmith_planner.parse.reply import parse, parse_answer, parse_value, plan_fit

PLAN: dict[str, Any] = {
    "goal": "g",
    "steps": [{"id": "a", "kind": "tool", "tool": "t", "inputs": {"x": 1}}],
}


def steps(parsed: Reading) -> list[dict[str, Any]]:
    assert parsed.plan is not None, parsed.problems
    return [step.to_json() for step in parsed.plan.steps]


def codes(parsed: Reading) -> set[str]:
    return {problem.code for problem in parsed.problems}


@pytest.mark.parametrize("key", ["steps", "plan", "tasks", "execution_plan", "calls"])
def test_every_usual_wrapper_is_opened(key: str) -> None:
    assert steps(parse(json.dumps({key: PLAN["steps"]}))) == PLAN["steps"]


def test_a_bare_list_takes_goal_and_locale_from_the_request() -> None:
    parsed = parse(json.dumps(PLAN["steps"]), goal="查天气", locale="zh-CN")
    assert (plan_of(parsed).goal, plan_of(parsed).locale) == ("查天气", "zh-CN")
    assert parsed.problems == ()


def test_other_words_are_understood() -> None:
    text = json.dumps(
        [
            {"id": "a", "type": "tool", "name": "t", "arguments": {"x": 1}},
            {"id": "b", "type": "agent", "name": "desk", "query": "look", "depends_on": ["a"]},
            {"id": "c", "type": "map", "items": "{{a.list}}", "step": {"tool": "u", "args": {}}},
            {"id": "d", "type": "reply", "text": "say {{b}}"},
        ]
    )
    parsed = parse(text)
    assert parsed.problems == ()
    assert [each["kind"] for each in steps(parsed)] == ["tool", "agent", "map", "reply"]
    assert steps(parsed)[0]["inputs"] == {"x": 1}
    assert steps(parsed)[1] == {
        "id": "b",
        "kind": "agent",
        "agent": "desk",
        "task": "look",
        "after": ["a"],
    }


def test_missing_ids_are_given_and_numbers_are_ids() -> None:
    parsed = parse(json.dumps([{"tool": "t"}, {"id": 2, "tool": "t", "after": [1], "depends": 1}]))
    assert [each["id"] for each in steps(parsed)] == ["s1", "2"]
    assert steps(parsed)[1]["after"] == ["1"]
    assert codes(parsed) == {"PS013"}


def test_an_unusable_id_is_rewritten_and_so_is_every_reference_to_it() -> None:
    parsed = parse(
        json.dumps(
            [
                {"id": "get weather", "tool": "t"},
                {
                    "id": "b",
                    "tool": "t",
                    "after": ["get weather"],
                    "inputs": {"x": {"$from": "get weather"}},
                },
            ]
        )
    )
    assert [each["id"] for each in steps(parsed)] == ["get_weather", "b"]
    assert steps(parsed)[1]["after"] == ["get_weather"]
    assert steps(parsed)[1]["inputs"] == {"x": {"$from": "get_weather"}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"$from": "a", "$path": "items[0].title"}, {"$from": "a", "$path": ["items", 0, "title"]}),
        ({"$from": "a.items[0]"}, {"$from": "a", "$path": ["items", 0]}),
        ({"$from": "a", "$path": 0}, {"$from": "a", "$path": [0]}),
        ("${a.items[0].title}", "{{a.items[0].title}}"),
        ("costs ${PRICE} and ${a.x}", "costs ${PRICE} and {{a.x}}"),
        ({"$literal": "${a.x}"}, {"$literal": "${a.x}"}),
    ],
)
def test_references_in_other_notations_are_understood(written: Any, expected: Any) -> None:
    parsed = parse(
        json.dumps([{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "inputs": {"v": written}}])
    )
    assert steps(parsed)[1]["inputs"] == {"v": expected}
    assert codes(parsed) == (set() if written == expected else {"PS013"})


def test_nothing_is_dropped_without_a_problem() -> None:
    parsed = parse(
        json.dumps(
            {
                "goal": ["not", "text"],
                "mood": "good",
                "steps": [
                    {"id": "a", "tool": "t", "colour": "red"},
                    "do it",
                    {"id": "c", "tool": 5},
                ],
            }
        )
    )
    assert [each["id"] for each in steps(parsed)] == ["a"]
    messages = " ".join(problem.message for problem in parsed.problems)
    for part in ("goal", "mood", "colour", "do it", "'c'"):
        assert part in messages
    assert {"PS013", "PS014"} <= codes(parsed)


@pytest.mark.parametrize(
    "text", ["", "I cannot help with that.", "42", '{"answer": "yes"}', "[]x["]
)
def test_a_text_without_a_plan_is_one_problem_with_an_excerpt(text: str) -> None:
    parsed = parse(text)
    if parsed.plan is None:
        [problem] = parsed.problems
        assert problem.code == "PS001"
        assert "steps" in problem.hint
    else:
        assert parsed.plan.steps == ()


def test_of_several_candidates_the_one_that_fits_a_plan_is_taken() -> None:
    schema = json.dumps({"type": "object", "properties": {}})
    text = f"The schema is {schema}. The plan: {json.dumps(PLAN)} Sources: [1, 2, 3]"
    assert steps(parse(text)) == PLAN["steps"]
    assert plan_fit([1, 2, 3]) < plan_fit(PLAN["steps"])


def test_a_style_that_is_none_of_a_reply_costs_no_step() -> None:
    tool = PLAN["steps"][0] | {"style": "brief"}
    reply = {"id": "r", "kind": "reply", "instruction": "say {{a}}"}
    parsed = parse(json.dumps({"goal": "g", "steps": [tool, reply | {"style": "formal"}]}))
    assert steps(parsed) == [PLAN["steps"][0], reply]
    assert codes(parsed) == {"PS013"}
    exact = reply | {"style": "exact"}
    parsed = parse(json.dumps({"goal": "g", "steps": [PLAN["steps"][0], exact]}))
    assert steps(parsed)[1] == exact
    assert not parsed.problems


def test_a_refusal_in_words_of_a_thought_is_none_and_one_in_another_object_is() -> None:
    work = {"title": "t", "description": "d", "step_type": "research", "need_web_search": True}
    plan = {"has_enough_context": True, "thought": "", "title": "g", "steps": [work]}
    document = plan | {"thought": "first 'has_enough_context': false, then \"adequate\": false"}
    assert codes(parse(json.dumps(document), shape="deerflow")) == set()
    apart = f'{{"has_enough_context": false}}\n\nOr rather: {json.dumps(plan)}'
    errors = [each for each in parse(apart, shape="deerflow").problems if each.code == "PS005"]
    assert [each.path for each in errors] == [("has_enough_context",)]


def test_a_plan_that_its_dialect_recognises_and_cannot_read_is_read_by_no_other() -> None:
    document = {"has_enough_context": False, "title": "g", "steps": {"first": {"tool": "pay"}}}
    parsed = parse(json.dumps(document), shape="deerflow")
    assert parsed.plan is None
    assert codes(parsed) == {"PS001"}


def test_a_wrapped_plan_keeps_the_refusal_around_it() -> None:
    task = {"title": "t", "query": "pay", "agent_name": "desk"}
    for document in (
        {"plan": {"tasks": [task], "adequate": False, "reason": "r"}},
        {"adequate": False, "reason": "r", "plan": {"tasks": [task], "adequate": True}},
        [{"tasks": [task], "adequate": False, "reason": "r"}],
        {"PlannerResponse": {"tasks": [task], "adequate": False, "reason": "r"}},
    ):
        parsed = parse(json.dumps(document), shape="valuecell")
        assert [each["kind"] for each in steps(parsed)] == ["agent", "ask"]
        assert steps(parsed)[0]["after"] == ["guidance"]


@pytest.mark.parametrize(
    "field", [{"adequate": False}, {"guidance_message": "Which?"}, {"schedule": {"daily_at": "9"}}]
)
def test_a_field_that_decides_is_not_left_out_of_a_plan_with_a_note_alone(
    field: dict[str, Any],
) -> None:
    parsed = parse(json.dumps(PLAN | field))
    assert [each.severity for each in parsed.problems] == ["error"]


async def test_a_long_answer_is_read_while_the_event_loop_goes_on() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    parsed = await parse_answer('"' * 60_000, goal="g", locale="en", shape="")
    counting.cancel()
    assert parsed.plan is None
    assert turns > 10


def test_an_unknown_kind_is_read_by_its_fields() -> None:
    parsed = parse('[{"id": "a", "kind": "function_call", "tool": "t"}]')
    assert steps(parsed)[0]["kind"] == "tool"
    assert codes(parsed) == {"PS013"}


def test_a_plan_that_was_cut_off_keeps_its_whole_steps() -> None:
    text = json.dumps({"goal": "g", "steps": [*PLAN["steps"], {"id": "b", "tool": "u"}]})
    parsed = parse(text[: text.index('"u"')])
    assert steps(parsed)[0] == PLAN["steps"][0]


_STOCK: dict[str, Json] = {"id": "stock", "kind": "tool", "tool": "shop.stock"}
_COUNT = "{{stock.count}}"


def _parsed(**rules: Json) -> Reading:
    step: dict[str, Json] = {"id": "order", "kind": "tool", "tool": "shop.order", **rules}
    return parse_value({"goal": "Order", "steps": [_STOCK, step]})


def _rules(parsed: Reading) -> dict[str, Json]:
    stored = plan_of(parsed).by_id["order"].to_json()
    return {name: each for name, each in stored.items() if name not in ("id", "kind", "tool")}


def test_rules_in_the_form_of_the_plan_language_are_read() -> None:
    rules: dict[str, Json] = {
        "when": {"below": [_COUNT, 10]},
        "repeat": {"until": {"empty": "{{order.left}}"}, "at_most": 5},
        "on_error": "skip",
    }
    parsed = _parsed(**rules)
    assert parsed.problems == ()
    assert _rules(parsed) == rules


@pytest.mark.parametrize("name", ["condition", "if", "only_if", "run_if"])
def test_a_rule_under_another_name_is_read_and_told(name: str) -> None:
    written: dict[str, Json] = {name: {"below": [_COUNT, 10]}, "retries": {"at_most": 2}}
    parsed = _parsed(**written)
    assert _rules(parsed) == {"when": {"below": [_COUNT, 10]}, "retry": {"at_most": 2}}
    assert {each.code for each in parsed.problems} == {"PS013"}


@pytest.mark.parametrize(
    "written",
    [
        {"when": "stock is low"},
        {"if": "stock.count < 10"},
        {"loop": 3},
        {"loop": {"until": "order.state == 'sent'"}},
        {"on_failure": "continue"},
        {"retry": {"max_attempts": 3}},
        {"otherwise": {"tool": "shop.tell"}},
    ],
)
def test_a_rule_in_other_words_is_an_error_and_no_guess(written: dict[str, Json]) -> None:
    parsed = _parsed(**written)
    assert parsed.plan is None or "order" not in parsed.plan.by_id
    assert {"PS003", "PS004", "PS005"} & {each.code for each in parsed.problems}


@pytest.mark.parametrize("name", ["condition", "unless", "then", "else", "until", "while"])
def test_a_condition_that_finds_no_place_is_never_left_out_silently(name: str) -> None:
    written: dict[str, Json] = {"when": {"empty": _COUNT}, name: "stock is low"}
    parsed = _parsed(**written)
    assert "PS003" in {each.code for each in parsed.problems}


def test_the_rules_of_the_inner_step_of_a_map_are_read_too() -> None:
    open_: Json = {"equals": ["{{item.open}}", True]}
    inner: Json = {"kind": "tool", "tool": "mail.send", "if": open_}
    step: Json = {"id": "send", "kind": "map", "over": "{{stock.found}}", "each": inner}
    plan = parse_value({"goal": "Send", "steps": [_STOCK, step]}).plan
    assert plan is not None
    (each,) = [step.each for step in plan.steps if step.kind == "map"]
    assert each.when == open_
