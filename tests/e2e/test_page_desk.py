"""Inbox, list of runs, comparison and palette in a real browser."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect
from tests.web.browser import Stage, Watched
from tests.web.screens import approve, look, run_until, until

NOTE: dict[str, Any] = {
    "id": "note",
    "tool": "notes.write",
    "inputs": {"path": "trip.md", "text": "Rome, because it is warm"},
}


def row(page: Page, name: str) -> Any:
    return page.get_by_role("listitem").filter(has=page.get_by_role("link", name=name))


def test_the_inbox_is_titled_by_goal_and_decides_in_its_place(
    watched: Watched, stage: Stage
) -> None:
    old = stage.submit(NOTE, goal="Note the older one")
    question = {"id": "q", "question": "Which city?", "options": ["Oslo", "Rome"]}
    asking = run_until(stage, "asking", question, goal="Ask for a city")
    new = stage.submit(NOTE, goal="Note the newer one")
    page = watched.tab("inbox")
    titles = page.locator(".waiting a[data-row] b")
    expect(titles).to_have_text(["Note the newer one", "Ask for a city", "Note the older one"])
    expect(page).to_have_title("(3) Inbox · Plansmith")
    expect(page.locator(".rail nav .count")).to_contain_text("3 waiting for you")

    row(page, "Note the newer one").get_by_role("button", name="Look and decide").click()
    # What is approved stands there: every value of the call.
    expect(page.locator(".brief .inputs")).to_contain_text("Rome, because it is warm")
    page.get_by_role("button", name="Approve and run").click()
    expect(titles).to_have_text(["Ask for a city", "Note the older one"])
    until(stage, new, "done")
    expect(page.locator(":focus")).to_contain_text("Ask for a city")

    row(page, "Ask for a city").get_by_role("button", name="Answer here").click()
    page.get_by_role("button", name="Rome").click()
    expect(titles).to_have_text(["Note the older one"])
    until(stage, asking, "done")
    expect(page).to_have_title("(1) Inbox · Plansmith")

    page.get_by_role("checkbox", name="Select: Note the older one").check()
    page.get_by_role("button", name="Discard them").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard them").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    until(stage, old, "cancelled")


def test_a_plan_that_changes_while_it_is_looked_at_is_not_approved_in_the_inbox(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(NOTE, goal="Note this")
    page = watched.tab("inbox")
    row(page, "Note this").get_by_role("button", name="Look and decide").click()
    expect(page.locator(".brief .inputs")).to_contain_text("Rome, because it is warm")
    other = {**NOTE, "inputs": {"path": "trip.md", "text": "something else"}}
    changed = {"plan": {"goal": "Note this", "steps": [other]}}
    stage.api(f"/v1/runs/{run}/plan", changed, method="PUT", headers={"If-Match": "*"})
    page.get_by_role("button", name="Approve and run").click()
    expect(page.get_by_role("alert")).to_contain_text("Someone changed or decided this first")
    expect(page.locator(".brief .inputs")).to_contain_text("something else")
    assert stage.api(f"/v1/runs/{run}")["status"] == "reviewing"
    stage.api(f"/v1/runs/{run}/decision", {"reject": True})


def test_runs_are_filtered_kept_as_a_view_compared_cancelled_and_deleted(
    watched: Watched, stage: Stage
) -> None:
    first = stage.submit(look(), goal="Look at Oslo")
    second = stage.submit(look(city="Rome"), goal="Look at Rome")
    for run in (first, second):
        approve(stage, run)
        until(stage, run, "done")
    again = stage.api(f"/v1/runs/{first}/rerun", {})["id"]
    page = watched.tab("runs")
    names = page.locator(".rows a[data-row] b")
    page.get_by_label("Made from").select_option(label="An earlier run")
    expect(names).to_have_text(["Look at Oslo"])
    assert "origin=run" in page.url
    page.get_by_role("button", name="Save this view").click()
    page.get_by_label("Name of the view").fill("Repeated")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Clear filter").click()
    page.get_by_label("When it began").select_option(label="Today")
    expect(names.filter(has_text="Look at Rome")).to_have_count(1)
    page.reload()
    page.get_by_role("button", name="Repeated").click()
    expect(names).to_have_text(["Look at Oslo"])

    page.get_by_role("checkbox", name="Select: Look at Oslo").check()
    page.get_by_role("button", name="Cancel 1 open").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 1 open").click()
    until(stage, again, "cancelled")
    page.goto(f"{stage.url}#/runs?q=Look at&status=done")
    expect(names).to_have_text(["Look at Rome", "Look at Oslo"])
    for name in ("Look at Oslo", "Look at Rome"):
        page.get_by_role("checkbox", name=f"Select: {name}").check()
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("columnheader")).to_have_text(["Look at Oslo", "Look at Rome"])
    expect(page.get_by_role("row").filter(has_text="another result")).to_have_count(1)
    page.go_back()
    page.get_by_role("checkbox", name="Select: Look at Rome").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(names).to_have_text(["Look at Oslo"])
    assert second not in [each["id"] for each in stage.api("/v1/runs")["items"]]


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator(".palette input")).to_be_focused()


def test_ctrl_k_goes_anywhere_and_finds_runs_by_keyboard_alone(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(look(), goal="Watch the harbour")
    page = watched.tab("usage", locale="zh-CN")
    page.get_by_role("heading", level=1).wait_for()
    open_palette(page)
    page.keyboard.type("harbour")
    choice = page.get_by_role("option", name=re.compile("Watch the harbour"))
    expect(choice.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{stage.url}#/runs/{run}")
    open_palette(page)
    page.keyboard.type("收件")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{stage.url}#/inbox")
    open_palette(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    open_palette(page)
    page.keyboard.type("no such thing at all")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox")).to_have_value("no such thing at all")


def test_a_browser_that_may_notify_tells_what_waits_while_nobody_looks(
    watched: Watched, stage: Stage
) -> None:
    context = watched.context(permissions=["notifications"])
    context.add_init_script(
        """window.told = [];
        if (location.protocol === "http:") localStorage.setItem("plansmith-notify", "on");
        Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
        window.Notification = class { constructor(title, more) { told.push([title, more.body]); }
          static permission = "granted"; close() {} };"""
    )
    page = context.new_page()
    page.goto(f"{stage.url}#/usage")
    page.get_by_role("heading", level=1).wait_for()
    stage.submit(NOTE, goal="Note what waits")
    page.wait_for_function("() => told.length > 0")
    assert page.evaluate("told") == [["Plan to approve", "Note what waits"]]
