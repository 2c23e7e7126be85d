"""What a person reads at the end of a run: what failed first, then the answer, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith import Plan, Plansmith, tool
from plansmith.errors import ToolFailed
from plansmith.report.build import load_report
from plansmith.report.html import to_html
from plansmith.report.markdown import answer_markdown, to_markdown


@tool(effect="read")
def look(word: str) -> dict[str, Any]:
    """Look up a word."""
    if word == "missing":
        raise ToolFailed("there is no such page")
    return {"word": word, "size_bytes": 4711}


async def outcome(*words: str) -> tuple[str, str, str]:
    steps: list[dict[str, Any]] = [
        {"id": each, "tool": "look", "inputs": {"word": each}} for each in words
    ]
    says = f"The word is {{{{{words[0]}.word}}}}. [step:{words[0]}]"
    steps.append({"id": "say", "instruction": says, "style": "exact"})
    async with Plansmith(tools=[look]) as smith:
        run = await smith.submit(Plan.model_validate({"goal": "Look it up", "steps": steps}))
        run = await smith.run(run.id)
        report = await load_report(smith.store, run.id)
    return answer_markdown(report), to_markdown(report), to_html(report)


async def test_the_outcome_of_a_run_that_did_everything_is_its_answer_alone() -> None:
    short, whole, page = await outcome("tea")
    assert short == "The word is tea.\n"
    assert whole.index("The word is tea.") < whole.index("Everything was done.")
    assert whole.index("Everything was done.") < whole.index("4711")
    assert page.index("The word is tea.") < page.index("Everything was done.")


@pytest.mark.parametrize("words", [("tea", "missing"), ("missing", "tea")])
async def test_the_outcome_of_a_run_with_a_failed_step_begins_with_that(
    words: tuple[str, str],
) -> None:
    short, whole, page = await outcome(*words)
    first = short.splitlines()[0]
    assert first in ("Only part of it was done.", "It failed.") or "fail" in first.lower()
    assert "there is no such page" in short
    assert "4711" not in short
    assert "Everything was done." not in short + whole + page
    if "The word is tea." in whole:
        assert whole.index(first) < whole.index("The word is tea.")
