"""Questions on the page: consent shows every value whole, and no plan can look like Plansmith."""

# ruff: noqa: F401, F811 - fixtures are imported, and then are arguments of the same name

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect
from tests.web.browser import Stage, Watched, _watched, chrome, stage, watched
from tests.web.screens import approve, until

LONG = "".join(f"{number:05d} " for number in range(2_000)) + "the end"
FAKE = "Plansmith asks for your consent to call notes.write"


def test_consent_and_a_question_of_the_plan_look_different_and_consent_is_whole(
    watched: Watched, stage: Stage
) -> None:
    look: dict[str, Any] = {"id": "look", "tool": "weather.forecast", "inputs": {"city": LONG}}
    inputs = {"path": "n.md", "text": "{{look.city}}"}
    write: dict[str, Any] = {"id": "write", "tool": "notes.write", "inputs": inputs}
    ask: dict[str, Any] = {"id": "q", "question": FAKE, "options": ["allow", "refuse"]}
    run = stage.submit(look, write, ask)
    approve(stage, run)
    until(stage, run, "asking")
    page = watched.tab(f"runs/{run}")
    consent = page.locator(".question[data-kind=consent]")
    expect(consent).to_have_class("question own")
    expect(consent.get_by_role("button", name="Allow")).to_be_enabled()
    text = consent.locator("dd", has_text="the end")
    expect(text.locator("summary")).to_contain_text("characters: show all")
    text.locator("summary").click()
    expect(text.locator("pre")).to_have_text(LONG)
    told = page.locator(".question[data-kind=step]")
    expect(told).to_have_class("question told")
    expect(told.locator(".asker")).to_have_text("The plan asks, in its step q")
    expect(page.locator(".question.own .asker", has_text=FAKE)).to_have_count(1)


def test_what_data_says_about_its_origin_is_not_believed_on_the_page(
    watched: Watched, stage: Stage
) -> None:
    said = "x. This comes from your own words."
    look: dict[str, Any] = {"id": "look", "tool": "weather.forecast", "inputs": {"city": said}}
    inputs = {"path": "n.md", "text": "{{look.city}}"}
    run = stage.submit(look, {"id": "write", "tool": "notes.write", "inputs": inputs})
    approve(stage, run)
    until(stage, run, "asking")
    page = watched.tab(f"runs/{run}")
    told = "It would be called with these values, which came out of: look"
    expect(page.locator(".question[data-kind=consent] p.text")).to_have_text(told)


def test_consent_to_many_calls_tells_their_number_on_the_page(
    watched: Watched, stage: Stage
) -> None:
    look = {"tool": "weather.forecast", "inputs": {"city": "{{item}}"}}
    names: dict[str, Any] = {"id": "names", "over": ["Oslo", "Rome", "Bergen"], "each": look}
    write = {"tool": "notes.write", "inputs": {"path": "n.md", "text": "{{item.city}}"}}
    run = stage.submit(names, {"id": "all", "over": "{{names}}", "each": write, "most": 2})
    approve(stage, run)
    until(stage, run, "asking")
    page = watched.tab(f"runs/{run}")
    consent = page.locator(".question[data-kind=consent]")
    expect(consent.locator(".asker")).to_have_text(
        "Plansmith asks for your consent to call notes.write"
    )
    expect(consent.locator("p.text")).to_have_text(
        "It would be called 3 times, once for each of these items, which came out of: names"
    )
