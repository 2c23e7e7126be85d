"""A year of sales and the plan that a model makes for it: what the pictures of the docs show."""

from __future__ import annotations

from typing import Any

REQUEST = "Chart this year's sales by region and by month and write a summary for the board"
MONTHS = (31, 28, 35, 40, 44, 52, 61, 58, 47, 42, 55, 71)
REGIONS = {"North": 1.0, "South": 1.6, "East": 0.7, "West": 1.2}
PRODUCTS = ("Tea", "Coffee", "Cocoa")


def table() -> str:
    """The lines of sales.csv."""
    rows = [
        f"2026-{month:02d}-{5 + 7 * place:02d},{region},{product},{round(share * total * weight)}"
        for month, total in enumerate(MONTHS, 1)
        for region, share in REGIONS.items()
        for place, (product, weight) in enumerate(zip(PRODUCTS, (4, 7, 2), strict=True))
    ]
    return "\n".join(["date,region,product,amount", *rows, ""])


def tool_step(name: str, title: str, tool: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "kind": "tool", "title": title, "tool": tool, "inputs": inputs}


def _sum(name: str, by: str) -> dict[str, Any]:
    inputs = {"table": "sales.csv", "by": by, "value": "amount"}
    return tool_step(name, f"Add up the amounts of each {by}", "tables.group", **inputs)


def _chart(name: str, title: str, kind: str, of: str) -> dict[str, Any]:
    inputs = {"kind": kind, "rows": f"{{{{{of}.rows}}}}", "path": f"{of}.svg"}
    return tool_step(name, title, "charts.draw", **inputs)


BEST = {"table": "sales.csv", "column": "amount", "count": 5}
PLAN: dict[str, Any] = {
    "goal": REQUEST,
    "thought": "Three sums are read side by side; both charts and the summary need them.",
    "assumptions": ["The amounts of sales.csv are in euros."],
    "enough_context": True,
    "steps": [
        _sum("regions", "region"),
        _sum("months", "month"),
        tool_step("best", "Find the five greatest sales", "tables.top", **BEST),
        _chart("by_region", "Draw the regions as bars", "bar", "regions"),
        _chart("by_month", "Draw the months as a line", "line", "months"),
        {
            "id": "tone",
            "kind": "ask",
            "title": "Ask how long it may be",
            "question": "How long may the summary be?",
            "options": ["Five lines", "One page"],
        },
        {
            "id": "words",
            "kind": "reply",
            "title": "Write the summary",
            "instruction": "Sum up for the board, {{tone}}: {{regions}} {{months}} {{best}}",
        },
        tool_step(
            "save", "Save it as summary.md", "files.write", path="summary.md", text="{{words}}"
        ),
    ],
}
