"""The tree of a plan in the terminal."""

from __future__ import annotations

from plansmith import Plan
from plansmith_cli.ui.tree import tree

PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "oslo", "tool": "weather", "inputs": {"city": "Oslo"}},
            {"id": "q", "question": "Which?"},
            {"id": "m", "over": {"$from": "oslo"}, "each": {"tool": "mail"}},
            {"id": "say", "instruction": "Tell {{oslo.temp}} and {{m}}", "after": ["q"]},
        ]
    }
)


def test_the_tree_draws_each_step_once_with_its_other_needs_and_a_chain_in_one_column() -> None:
    drawn = tree(PLAN)
    assert drawn.count("●") + drawn.count("↓") == len(PLAN.steps)
    assert "↓ say  reply: Tell {{oslo.temp}} and {{m}}  ⇠ oslo, q" in drawn
    steps = [{"id": "s0", "tool": "t"}] + [
        {"id": f"s{number}", "tool": "t", "after": [f"s{number - 1}"]} for number in range(1, 500)
    ]
    drawn = tree(Plan.model_validate({"steps": steps}))
    assert drawn.startswith("● s")
    assert all(line.startswith("↓ s") for line in drawn.splitlines()[1:])


def test_the_tree_shows_no_control_characters() -> None:
    hostile = "a\x1b[31m\nb"
    drawn = tree(Plan.model_validate({"steps": [{"id": "a", "tool": hostile, "title": hostile}]}))
    assert all(line.isprintable() for line in drawn.splitlines())
