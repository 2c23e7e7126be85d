"""What the judging of drafts gives, counted over rows."""

from __future__ import annotations

from typing import Any

from lab.training.ablation import Count, count, drafts
from lab.training.prompts import Renderer, compact

MAIL = {
    "name": "mail.send",
    "input_schema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "copies": {"type": "integer"}},
        "required": ["to"],
    },
}


def row(request: str, tool: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = {"calls": [{"tool": tool, "args": args}]}
    return {"family": "folder", "request": request, "tools": "builtin", "answer": answer, **more}


def test_the_ablation_counts_what_each_part_puts_right_and_what_it_changes() -> None:
    rows = [row("Mail Bo", "mail.send", {"to": "Bo"}, tools=[MAIL], family="tools")]
    written = row("", "mail.send", {"to": "Bo", "copies": 7})
    mails = list(drafts(rows, [{**rows[0], "written": compact(written["answer"])}], Renderer()))
    assert count(mails, "") == Count(1, 1, 1)
    assert count(mails, "grounding") == Count(1, 0, 0)
