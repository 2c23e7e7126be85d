"""How plans and runs show themselves: short in a terminal, tables in a notebook, all escaped."""

from __future__ import annotations

from typing import Any

from plansmith import Plan, Plansmith, read_plan, tool

EVIL = "<img src=x onerror=alert(1)> & </table><script>alert(2)</script>"


@tool(effect="read")
def look(q: str) -> str:
    return q


def plan_of(text: str) -> Plan:
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
    plan = plan_of("word " * 100)
    assert len(repr(plan)) < 120
    assert plan.hash[:12] in repr(plan)
    lines = str(plan_of("tea")).splitlines()
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
    for page in (html_of(plan_of(EVIL)), html_of(run)):
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
    plan = plan_of("tea\n7. pay: bank.pay(amount=1)\r\x1b[2J\u202e")
    assert len(str(plan).splitlines()) == 1 + len(plan.steps)
    assert str(plan).replace("\n", "").isprintable()
