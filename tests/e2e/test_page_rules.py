"""Rules on the page: the call that takes a step back is written in a form, and then offered."""

# ruff: noqa: F401, F811 - fixtures are imported, and then are arguments of the same name

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect
from tests.web.browser import Stage, Watched, _watched, chrome, stage, watched
from tests.web.screens import approve, until

WRITE: dict[str, Any] = {
    "id": "write",
    "tool": "notes.write",
    "inputs": {"path": "n.md", "text": "hello"},
}


def test_the_call_that_takes_a_step_back_is_written_in_a_form_and_offered_after_the_run(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(WRITE)
    page = watched.tab(f"runs/{run}/plan/write")
    page.locator("summary", has_text="Rules").click()
    rule = page.locator("fieldset.rule", has_text="A call takes it back")
    rule.get_by_role("checkbox").check()
    expect(rule).to_contain_text("{{write}} is the result of this step")
    rule.get_by_label("Tool").fill("notes.write")
    for name, value in (("path", "n.md"), ("text", "taken back")):
        rule.get_by_role("textbox", name="Name of the argument").fill(name)
        rule.get_by_role("button", name="Add").click()
        rule.get_by_role("textbox", name=name, exact=True).fill(value)
    page.get_by_role("button", name="Save edits").click()
    expect(page.locator(".editbar.dirty")).to_have_count(0)
    saved = stage.api(f"/v1/runs/{run}")["plan"]["steps"][0]
    inputs = {"path": "n.md", "text": "taken back"}
    assert saved["undo_with"] == {"tool": "notes.write", "inputs": inputs}
    approve(stage, run)
    until(stage, run, "done")
    page.reload()
    page.get_by_role("button", name="Take back what it did").click()
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()
    expect(page.get_by_text("taken back").first).to_be_visible()
