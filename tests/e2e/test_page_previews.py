"""Previews on the page: what would happen is seen, chosen from and approved in one look."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.web.browser import Stage, Watched
from tests.web.screens import event_types, look, press_approve, run_of, until

PHONE = {"width": 390, "height": 780}
# Change the value, Use these values, Approve and run.
ENGLISH = ("Change the value", "Use these values", "Approve and run")
CHINESE = ("修改值", "使用这些值", "批准并运行")


def ahead(page: Page) -> Locator:
    return page.locator(".ahead")


def mail(name: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "tool": "mail.send", "inputs": inputs}


def sent(stage: Stage) -> list[str]:
    found = (stage.folder / "sent").read_text().splitlines()
    (stage.folder / "sent").unlink()
    return sorted(found)


@pytest.mark.parametrize(("locale", "words"), [("en-US", ENGLISH), ("zh-CN", CHINESE)])
def test_a_request_is_previewed_chosen_from_approved_and_run_in_one_look(
    watched: Watched, stage: Stage, locale: str, words: tuple[str, str, str]
) -> None:
    change, use, approve = words
    page = watched.tab(locale=locale, viewport=PHONE)
    page.get_by_role("textbox").first.fill("write to all")
    page.keyboard.press("Enter")
    rows = ahead(page).locator("tbody tr")
    expect(rows).to_have_count(3)
    run = run_of(page)
    assert "run_started" not in event_types(stage, run)
    page.reload()
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("Hi bob")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    rows.nth(0).get_by_role("checkbox").uncheck()
    rows.nth(2).get_by_role("button").click()
    whole = ahead(page).locator("tr .ahead-call")
    expect(whole.locator(".sheet")).to_have_text("Hello Dear cid")
    whole.get_by_role("button", name=change).click()
    whole.get_by_role("textbox", name="text").fill("Good day")
    whole.get_by_role("button", name=use).click()
    expect(whole.locator(".values")).to_contain_text("Good day")
    page.get_by_role("button", name=approve).click()
    until(stage, run, "done")
    page.reload()
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    assert sent(stage) == ["bob Hi bob", "cid Good day"]


def test_a_person_asks_for_a_preview_and_for_what_would_follow_from_other_data(
    watched: Watched, stage: Stage
) -> None:
    note = {"id": "note", "tool": "notes.write", "inputs": {"path": "n", "text": "{{look.sky}}"}}
    later = mail("later", to="{{note.done}}")
    run = stage.submit(look(), note, later, mail("draw", to="ann", drawing=True))
    page = watched.tab(f"runs/{run}")
    stage.hold("weather.forecast")
    ahead(page).get_by_role("button", name="Show me with today's data").click()
    expect(ahead(page).get_by_role("status")).to_contain_text("Reading for the preview")
    page.reload()
    expect(ahead(page).get_by_role("status")).to_contain_text("Reading for the preview")
    expect(page.get_by_role("link", name="Run", exact=True)).to_have_count(0)
    expect(page.locator(".run-head .badge.s-reviewing")).to_be_visible()
    stage.release("weather.forecast")
    card = ahead(page).get_by_role("article", name="Notes write")
    expect(card).to_contain_text("clear")
    expect(ahead(page)).to_contain_text("waits for Notes write")
    expect(ahead(page).locator("img.picture")).to_have_js_property("naturalWidth", 9)
    ahead(page).get_by_text("What if").click()
    ahead(page).get_by_label("were").fill('{"sky": "dark"}')
    ahead(page).get_by_role("button", name="Show what would follow").click()
    expect(card).to_contain_text("dark")
    expect(ahead(page).locator(".note.change")).to_contain_text("given by ada")
    page.reload()
    ahead(page).get_by_role("button", name="Read it instead").click()
    expect(card).to_contain_text("clear")
    # What a tool would do now is not what was seen: that call alone is asked about.
    (stage.folder / "tone").write_text("Goodbye")
    press_approve(page)
    question = page.locator("article.consent", has_text="not what you approved")
    expect(question.locator(".diff-line.old")).to_have_text("−Hello")
    expect(question.locator(".diff-line.new")).to_have_text("+Goodbye")
    assert stage.api(f"/v1/runs/{run}")["steps"]["note"]["status"] == "done"
    (stage.folder / "tone").unlink()


def test_a_preview_of_a_thousand_items_is_shown_piece_by_piece(
    watched: Watched, stage: Stage
) -> None:
    people = [f"person {number}" for number in range(1_000)]
    each = {"id": "mails", "over": people, "each": mail("m", to="{{item}}")}
    run = stage.submit(each, look())
    stage.api(f"/v1/runs/{run}/preview?wait=60", {})
    page = watched.tab(f"runs/{run}")
    rows = ahead(page).locator("tbody tr")
    expect(rows).to_have_count(100)
    ahead(page).get_by_role("checkbox", name="All 1,000").uncheck()
    rows.nth(4).get_by_role("checkbox").check()
    expect(page.locator(".decision")).to_contain_text("1 of the 1000 changes")
    ahead(page).get_by_role("button", name="Show 900 more").click()
    expect(rows).to_have_count(1_000)
    press_approve(page)
    until(stage, run, "done")
    assert sent(stage) == ["person 4 "]
