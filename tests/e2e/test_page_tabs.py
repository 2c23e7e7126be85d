"""Tabs, browsers and people side by side: runs, edits, conversations, a server that goes away."""

from __future__ import annotations

import os
from typing import Any

from playwright.sync_api import BrowserContext, Locator, Page, expect
from tests.web.browser import Stage, Watched
from tests.web.conversation import NOTE, TRIP
from tests.web.hostile import PAYLOADS
from tests.web.screens import event_types, look, press_approve, run_of, until

# More than the six connections that a browser opens to one host.
TABS = 20 if os.environ.get("PLANSMITH_LONG") else 7


def opened(context: BrowserContext, stage: Stage, address: str) -> Page:
    page = context.new_page()
    page.goto(f"{stage.url}#/{address}")
    return page


def test_all_tabs_of_a_browser_are_live_over_one_stream(watched: Watched, stage: Stage) -> None:
    run = stage.submit(look())
    context = watched.context()
    streams: list[str] = []
    context.on(
        "request", lambda each: streams.append(each.url) if "/v1/events" in each.url else None
    )
    tabs = [opened(context, stage, f"runs/{run}") for _ in range(TABS)]
    for tab in tabs:
        expect(tab.locator(".run-head .badge.s-reviewing")).to_be_visible()
    stage.hold("weather.forecast")
    press_approve(tabs[-1])
    for tab in tabs:
        expect(tab.locator(".run-head .badge.s-running")).to_be_visible()
    assert len(streams) == 1
    # The tab with the stream goes: another one takes over, and nothing is missed.
    tabs[0].close()
    stage.release("weather.forecast")
    for tab in tabs[1:]:
        expect(tab.locator(".run-head .badge.s-done")).to_be_visible()
        expect(tab.locator(".banner")).to_have_count(0)
    assert len(streams) == 2
    assert "after=" in streams[1]


def test_of_two_people_deciding_at_once_one_wins_and_the_other_is_told(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(look())
    first, second = watched.context(), watched.context()
    one, other = (opened(each, stage, f"runs/{run}") for each in (first, second))
    for tab in (one, other):
        expect(tab.get_by_role("button", name="Approve and run")).to_be_enabled()
    # The second one does not hear of the first in time.
    second.route("**/v1/events*", lambda route: route.abort())
    other.reload()
    expect(other.get_by_role("button", name="Approve and run")).to_be_enabled()
    stage.hold("weather.forecast")
    press_approve(one)
    expect(one.locator(".run-head .badge.s-running")).to_be_visible()
    press_approve(other)
    alert = other.get_by_role("alert").filter(has_text="Someone changed or decided this first")
    expect(alert).to_be_visible()
    expect(other.locator(".run-head .badge.s-running")).to_be_visible()
    stage.release("weather.forecast")
    expect(one.locator(".run-head .badge.s-done")).to_be_visible()
    assert event_types(stage, run).count("plan_approved") == 1


def test_edits_of_two_tabs_meet_in_one_plan_unless_they_are_of_the_same_step(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(look(), look("then"))
    context = watched.context()
    one, other = (opened(context, stage, f"runs/{run}/plan/{name}") for name in ("look", "then"))

    def cities() -> list[str]:
        steps = stage.api(f"/v1/runs/{run}")["plan"]["steps"]
        return [step["inputs"]["city"] for step in steps]

    def edit(page: Page, city: str) -> None:
        page.get_by_role("textbox", name="city").fill(city)
        expect(page.get_by_role("button", name="Save edits")).to_be_enabled()

    def save(page: Page) -> None:
        page.get_by_role("button", name="Save edits").click()
        expect(page.locator(".editbar.dirty")).to_have_count(0)

    edit(other, "Bergen")
    edit(one, "Tromsø")
    save(one)
    expect(other.get_by_text("both edits are in this plan")).to_be_visible()
    expect(other.locator(".steps")).to_contain_text("Tromsø")
    save(other)
    assert cities() == ["Tromsø", "Bergen"]

    expect(one.locator(".steps")).to_contain_text("Bergen")
    one.goto(f"{stage.url}#/runs/{run}/plan/then")
    edit(other, "Lima")
    edit(one, "Rome")
    save(one)
    expect(other.get_by_role("alert")).to_contain_text("has changed since you began")
    expect(other.get_by_role("button", name="Save edits")).to_be_disabled()
    assert cities() == ["Tromsø", "Rome"]
    other.get_by_role("button", name="Drop edits").click()
    expect(other.get_by_role("textbox", name="city")).to_have_value("Rome")


def test_a_restart_of_the_server_in_mid_run_is_told_and_survived(
    watched: Watched, stage: Stage
) -> None:
    stage.hold("weather.forecast")
    run = stage.submit(look(), look("then", after=["look"]))
    page = watched.tab(f"runs/{run}")
    press_approve(page)
    expect(page.locator(".mark.s-running")).to_have_count(1)
    stage.stop()
    expect(page.locator(".banner")).to_be_visible()
    expect(page.locator(".mark.s-running")).to_have_count(1)
    stage.release("weather.forecast")
    stage.start()
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    numbers = [each["number"] for each in stage.api(f"/v1/runs/{run}/events")["items"]]
    assert numbers == list(range(1, len(numbers) + 1))


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
