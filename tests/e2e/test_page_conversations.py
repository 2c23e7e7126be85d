"""Conversations in a real browser: follow up under a run, in two browsers, with hostile words."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect
from tests.web.browser import Stage, Watched
from tests.web.conversation import NOTE, TRIP
from tests.web.hostile import PAYLOADS
from tests.web.screens import event_types, run_of, until

BAD = PAYLOADS[0] + PAYLOADS[14] + "<img src=x onerror=window.pwned=1>"


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Follow up")


def say(page: Page, text: str) -> None:
    box(page).fill(text)
    box(page).press("Enter")
    expect(box(page)).to_have_value("")


def taken(page: Page) -> Locator:
    return page.locator(".taken").last


def test_a_conversation_clarifies_follows_up_changes_the_plan_and_tells_why(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab()
    page.get_by_label("Your request").fill(TRIP)
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Where to?")).to_be_visible()
    say(page, "Rome")
    expect(taken(page)).to_contain_text("Taken as the answer to: Where to?")
    expect(page.locator(".steps .said").first).to_contain_text("Rome")
    page.get_by_role("button", name="Approve and run").click()
    expect(page.locator(".prose")).to_be_visible()
    first = run_of(page)
    talk = stage.api(f"/v1/runs/{first}")["conversation"]
    other = watched.tab(f"conversations/{talk}")
    expect(other.locator(".message")).to_have_count(2)
    expect(other.locator(".card")).to_contain_text("Rome it is")

    send_again_what_was_not_received(page)
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()
    second = run_of(page)
    assert second != first
    expect(page.locator(".steps")).to_contain_text("from step look of an earlier run")
    expect(other.locator(".card")).to_have_count(2)
    expect(other.locator(".message", has_text=NOTE)).to_have_count(1)
    expect(page.locator(".recent a", has_text=TRIP).locator(".s-reviewing")).to_be_visible()

    say(page, "yes, go ahead")
    expect(taken(page)).to_contain_text("Nothing was decided by this message")
    expect(taken(page).get_by_role("link", name="Decide there")).to_be_visible()
    say(page, "use the file weather.md instead")
    expect(page.locator(".steps")).to_contain_text("weather.md")
    expect(taken(page)).to_contain_text("Taken as a change of the plan")
    change = other.locator(".message", has_text="weather.md")
    change.get_by_role("button", name="Undo").click()
    expect(change).to_contain_text("Taken back")
    expect(page.locator(".steps")).to_contain_text("trip.md")

    say(other, "why Rome?")
    expect(other.locator(".message").last).to_contain_text("You answered “Rome”")
    expect(taken(page)).to_contain_text("You answered “Rome”")
    assert "plan_approved" not in event_types(stage, second)


def send_again_what_was_not_received(page: Page) -> None:
    """A message whose answer is lost stays in its box, over a reload too, and counts once."""
    page.route("**/messages", lambda route: (route.fetch(), route.abort()))
    box(page).fill(NOTE)
    box(page).press("Shift+Enter")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".follow-up").get_by_role("alert")).to_be_visible()
    page.unroute("**/messages")
    page.reload()
    expect(box(page)).to_have_value(f"{NOTE}\n")
    box(page).press("Enter")


def test_hostile_words_of_a_conversation_do_nothing_and_it_is_deleted_only_when_meant(
    watched: Watched, stage: Stage
) -> None:
    request = {"request": f"hello there {BAD}", "conversation": "new"}
    begun: Any = stage.api("/v1/runs", request)
    talk = begun["conversation"]
    until(stage, begun["id"], "answered")
    page = watched.tab(f"runs/{begun['id']}")
    say(page, f"why {BAD}?")
    expect(taken(page)).to_contain_text("<script>")
    page.goto(f"{stage.url}#/conversations/{talk}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>")
    expect(page.locator(".message")).to_have_count(2)
    page.goto(f"{stage.url}#/conversations")
    row = page.locator(".rows a", has_text="hello there <script>")
    row.click()
    for name in ("Go back", "Delete"):
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Conversations")
    expect(row).to_have_count(0)
    page.goto(f"{stage.url}#/conversations/{talk}")
    expect(page.get_by_text("This conversation is not here any more.")).to_be_visible()
    assert page.evaluate("window.pwned") is None
