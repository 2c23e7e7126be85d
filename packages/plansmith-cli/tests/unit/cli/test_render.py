from __future__ import annotations

import pytest

from plansmith import Plan, diff_plans, read_plan
from plansmith.plan.data import Json, WrittenNumber
from plansmith.text import safe
from plansmith_cli.ui.render import diff_lines, named_lines, plan_lines

PLAN = Plan.model_validate(
    {
        "goal": "Compare\nthe weather",
        "assumptions": ["metric units"],
        "degraded": "no model",
        "steps": [
            {"id": "oslo", "tool": "weather", "inputs": {"city": "Oslo"}, "title": "Ask"},
            {"id": "rome", "tool": "weather", "disabled": True, "why": "for comparison"},
            {"id": "who", "agent": "desk", "task": "find out", "inputs": {"n": 1}},
            {"id": "q", "question": "Which?", "options": ["a", "b"]},
            {"id": "m", "over": {"$from": "who", "$path": ["all", 0]}, "each": {"tool": "mail"}},
            {"id": "w", "template": "weekly", "version": 2},
            {"id": "say", "instruction": "Tell {{oslo.temp}} and {{m}}", "after": ["q"]},
        ],
    }
)


SHOWN = [
    *("Compare the weather", "assumes: metric units", "note: no model", '       city = "Oslo"'),
    *("rome (switched off)", "because for comparison", "agent desk: find out"),
    *("ask: Which? [a / b]", "for each item of {{who.all[0]}}, 4 at a time:", "tool mail"),
    *("template weekly version 2", "reply: Tell {{oslo.temp}} and {{m}}", "after m, oslo, q"),
    PLAN.hash[:12],
]
IN_CHINESE = [
    *("计划：Compare the weather", "rome（已关闭）", '       city = "Oslo"', "在 m, oslo, q 之后"),
    "对 {{who.all[0]}} 的每一项，同时 4 项：",
]


@pytest.mark.parametrize(("locale", "parts"), [("en", SHOWN), ("zh-CN", IN_CHINESE)])
def test_a_plan_shows_all_a_person_needs_to_decide_in_either_language(
    locale: str, parts: list[str]
) -> None:
    lines = list(plan_lines(PLAN, locale=locale))
    assert len(lines) == len(list(plan_lines(PLAN)))
    for part in parts:
        assert part in "\n".join(lines)


def test_nothing_in_a_plan_can_steer_the_terminal_or_hide() -> None:
    hostile = "\x1b[2J\x07\u202e\u200b\r\n\u2028\x9b31m"
    plan = Plan.model_validate(
        {
            "goal": hostile,
            "steps": [
                {"id": "a", "tool": hostile, "inputs": {hostile: hostile}, "title": hostile},
                {"id": "b", "instruction": hostile, "after": [hostile]},
                {"id": "c", "question": hostile, "options": [hostile]},
            ],
        }
    )
    empty = Plan()
    lines = [*plan_lines(plan), *diff_lines(diff_plans(empty, plan))]
    for line in "\n".join(lines).split("\n"):
        assert line.isprintable()
    assert "\\u001b" in safe(hostile)


def test_a_value_is_shown_as_lines_and_tables_and_what_is_left_out_is_counted() -> None:
    """What a person sees of a value before approving: all of it, or how much more there is."""
    rows = [{"region": "北", "total": number} for number in (5, 1200)]
    values = {
        "long": "y" * 9999,
        "lines": "# Sales\n\n| Region | Total |\n|---|---|\n",
        "many": "\n".join(map(str, range(60))),
        "rows": rows,
        "flight": "{{look}}",
    }
    steps = [
        {"id": "look", "tool": "t", "title": "Look for flights to Rome"},
        {"id": "a", "tool": "t", "inputs": values},
    ]
    plan = Plan.model_validate({"steps": steps})
    lines = [line[7:] for line in plan_lines(plan)]
    assert "flight = {{look}}  ← Look for flights to Rome" in lines
    assert f"long = {'y' * 1000}" in lines
    assert lines[lines.index(f"long = {'y' * 1000}") + 1] == "… 8,999 more letters"
    at = lines.index("lines =")
    assert lines[at + 1 : at + 5] == ["│   # Sales", "│", "│   | Region | Total |", "│   |---|---|"]
    at = lines.index("many =")
    assert lines[at + 20 : at + 22] == ["│   19", "… 40 more lines"]
    at = lines.index("rows =")
    table = ["│   region  total", "│   ──────  ─────", "│   北          5", "│   北       1200"]
    assert lines[at + 1 : at + 5] == table


def test_a_diff_is_one_change_a_line() -> None:
    after = Plan.model_validate(
        {
            "goal": "Compare",
            "steps": [
                {"id": "new", "tool": "t", "inputs": {"x": 1}},
                {"id": "oslo", "tool": "weather", "inputs": {"city": "Bergen"}},
            ],
        }
    )
    before = Plan.model_validate(
        {
            "steps": [
                {"id": "oslo", "tool": "weather", "title": "Ask", "inputs": {"city": "Oslo"}},
                {"id": "gone", "question": "?"},
            ]
        }
    )
    assert list(diff_lines(diff_plans(before, after))) == [
        '~ plan goal: "" -> "Compare"',
        "- gone: ask: ?",
        "+ new: tool t",
        "+   x = 1",
        '~ oslo title: - "Ask"',
        '~ oslo inputs.city: "Oslo" -> "Bergen"',
    ]


def test_a_value_is_shown_with_the_digits_with_which_it_would_be_sent() -> None:
    rows: Json = [{"id": 1, "amount": WrittenNumber("80.00")}]
    assert "80.00" in "\n".join(named_lines("rows", rows, "en"))
    assert [*named_lines("price", WrittenNumber("1.50"), "en")] == ["│ price = 1.50"]


_FEW: Json = {"below": ["{{stock.count}}", 10]}
_FEWER: Json = {"below": ["{{stock.count}}", 5]}


def ordered(**rules: Json) -> Plan:
    order: dict[str, Json] = {"id": "order", "tool": "shop.order", **rules}
    return read_plan({"goal": "Order", "steps": [{"id": "stock", "tool": "shop.stock"}, order]})


def test_a_rule_that_came_went_or_changed_is_told_as_a_sentence() -> None:
    before, after = ordered(when=_FEW, on_error="skip"), ordered(when=_FEWER, retry={"at_most": 2})
    diff = diff_plans(before, after)
    assert list(diff_lines(diff)) == [
        "~ order when: only if stock.count is below 10 -> only if stock.count is below 5",
        "~ order on_error: - if it fails, it is skipped",
        "~ order retry: + if the call fails, it is made again up to 2 times",
    ]
    assert "     only if stock.count is below 10" in plan_lines(before)


def test_a_plan_tells_which_result_of_an_earlier_run_it_uses() -> None:
    rows = {"$from": "run:first/totals"}
    mail = {"id": "mail", "tool": "mail", "inputs": {"rows": rows}}
    assert "     uses step totals of the earlier run first" in plan_lines(
        Plan.model_validate({"steps": [mail]})
    )
