"""Consent on the page: the whole value, the files before and after, values of one's own.

No plan can look like Plansmith, and nothing that a file holds runs.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect
from tests.web.browser import Stage, Watched
from tests.web.screens import NOTES, consent, look, made, run_until, until

LONG = "".join(f"{number:05d} " for number in range(2_000)) + "the end"
FAKE = "Plansmith asks for your consent"
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="alert(1)">
<script>alert(1)</script><image href="http://outside.invalid/x.png" width="9" height="9"/>
<rect width="40" height="40" fill="red"/></svg>"""
HOSTILE = """# Title <script>alert(1)</script>

<img src=x onerror=alert(1)> [link](javascript:alert(1)) ![p](http://outside.invalid/p.png)
<button>Allow once</button>
"""


def card(page: Page, button: str = "Allow once") -> Locator:
    """The consent card, once everything that it is about is there."""
    found = page.locator("article.consent").first
    expect(found.get_by_role("button", name=button)).to_be_enabled()
    return found


def asks(stage: Stage, path: str, text: str, **more: Any) -> str:
    """A run that asks for consent to write a text, which came out of a tool, into a file."""
    inputs = {"path": path, "text": "{{look.city}}", **more}
    write = {"id": "write", "tool": "files.write", "inputs": inputs}
    return run_until(stage, "asking", look(city=text), write)


def test_consent_and_a_question_of_the_plan_look_different_and_consent_is_whole(
    watched: Watched, stage: Stage
) -> None:
    inputs = {"path": "n.md", "text": "{{look.city}}"}
    write: dict[str, Any] = {"id": "write", "tool": "notes.write", "inputs": inputs}
    options = ["Allow once", "Refuse", "Change the value"]
    ask: dict[str, Any] = {"id": "q", "question": FAKE, "options": options}
    run = run_until(stage, "asking", look(city=LONG), write, ask)
    page = watched.tab(f"runs/{run}")
    found = card(page)
    expect(found.get_by_role("heading")).to_have_text("Call notes.write")
    text = found.locator(".values dd", has_text="00000 00001")
    text.get_by_role("button", name="Show all 12,007 characters").click()
    expect(text.locator("pre")).to_have_text(LONG)
    expect(found.locator(".values dt", has_text="text").locator("a.chip")).to_have_text(
        "look weather.forecast"
    )
    found.locator(".from a.chip").click()
    expect(page).to_have_url(f"{stage.url}#/runs/{run}/run/look")
    question = page.locator(".question[data-kind=step]")
    expect(question).to_have_class("question told")
    expect(question.locator(".asker")).to_have_text("The plan asks, in its step q")
    expect(question.locator(".button.primary, h3, .consent")).to_have_count(0)
    expect(page.locator(".own .asker", has_text=FAKE)).to_have_count(1)


def test_consent_shows_what_changes_in_the_file_as_it_is_now(
    watched: Watched, stage: Stage
) -> None:
    run = consent(stage)
    page = watched.tab(f"runs/{run}")
    found = card(page)
    expect(found.get_by_role("heading", level=3)).to_have_text(
        "Change summary.md (90 bytes now, 94 bytes afterwards)"
    )
    expect(found.locator(".diff-line.old").first).to_contain_text("Oslo sold most, Bergen least.")
    expect(found.locator(".diff-line.new").first).to_contain_text("Rome sold **most**")
    # The file changes between the look and the press: nothing is written, the card shows it anew.
    file = stage.folder / "work" / "summary.md"
    file.write_text("written by somebody else\n")
    found.get_by_role("button", name="Allow once").click()
    expect(found.get_by_role("alert")).to_contain_text("changed after you looked")
    expect(found.locator(".diff-line.old")).to_contain_text(["written by somebody else"])
    assert file.read_text() == "written by somebody else\n"
    card(page).get_by_role("button", name="Allow once").click()
    until(stage, run, "done")
    assert file.read_text() == NOTES


def test_a_value_of_ones_own_is_written_and_approved(watched: Watched, stage: Stage) -> None:
    run = asks(stage, "own.md", "x. This comes from your own words.")
    page = watched.tab(f"runs/{run}")
    found = card(page)
    expect(found.get_by_role("heading", level=3)).to_have_text("Write own.md (new file, 34 bytes)")
    # What data says about its origin is not believed.
    expect(found.locator(".from a")).to_have_text(["look weather.forecast"])
    found.get_by_role("button", name="Change the value").click()
    expect(found.get_by_role("button", name="Use these values and allow")).to_be_disabled()
    box = found.get_by_role("textbox", name="text")
    expect(box).to_be_focused()
    box.fill("in {{look.city}} words of my own")
    expect(found.locator(".change-values figure")).to_contain_text("words of my own")
    found.get_by_role("textbox", name="path").fill("mine.md")
    expect(found.locator(".change-values figcaption")).to_contain_text("mine.md new file")
    found.get_by_role("textbox", name="path").fill("own.md")
    expect(found.locator(".change-values figcaption")).to_contain_text("own.md new file")
    found.get_by_role("button", name="Use these values and allow").click()
    until(stage, run, "done")
    work = stage.folder / "work"
    assert (work / "own.md").read_text() == "in {{look.city}} words of my own"


def test_nothing_in_a_file_runs_or_looks_like_plansmith(
    watched: Watched, stage: Stage, chrome: Browser
) -> None:
    picture = asks(stage, "evil.svg", SVG)
    page = watched.tab(f"runs/{picture}")
    expect(card(page).locator("img.picture")).to_have_js_property("complete", True)
    card(page).get_by_role("button", name="Allow once").click()
    until(stage, picture, "done")
    expect(page.locator(".figures img")).to_have_js_property("naturalWidth", 40)
    # Opened on its own, it is in a sandbox: no script, and nothing comes from outside.
    with chrome.new_context(storage_state=page.context.storage_state()) as alone:
        other, ran = alone.new_page(), list[object]()
        other.on("dialog", lambda each: ran.append(each.message))
        other.on(
            "requestfinished", lambda each: ran.append(each) if "outside" in each.url else None
        )
        address = page.locator(".figures img").get_attribute("src") or ""
        other.goto(stage.url + address.lstrip("/"))
        expect(other.locator("rect")).to_have_count(1)
        assert not ran
    text = asks(stage, "evil.md", HOSTILE)
    page = watched.tab(f"runs/{text}")
    sheet = card(page).locator(".sheet")
    expect(sheet.locator("h1")).to_contain_text("<script>alert(1)</script>")
    expect(sheet.locator("script, img, button, a[href^=javascript]")).to_have_count(0)
    expect(page.get_by_role("button", name="Allow once")).to_have_count(1)


def test_the_report_has_the_chart_and_the_table_that_the_run_made(
    watched: Watched, stage: Stage
) -> None:
    run = made(stage)
    page = watched.tab(f"runs/{run}/report")
    expect(page.locator(".answer-box img")).not_to_have_js_property("naturalWidth", 0)
    files = page.locator(".files")
    expect(files.locator("summary .name")).to_have_count(3)
    files.locator("summary", has_text="sales.csv").click()
    sales = files.locator(".table-view tbody td:last-child")
    files.get_by_role("button", name="sales").click()
    expect(sales.first).to_have_text("100")
    files.get_by_role("button", name="sales").click()
    expect(sales.first).to_have_text("285")
    with page.expect_download() as saved:
        files.get_by_role("button", name="CSV").click()
    assert saved.value.path().read_text().splitlines()[:2] == [
        "city,month,sales",
        "Bergen,June,285",
    ]
    (stage.folder / "work" / "notes.md").write_text("changed")
    (stage.folder / "work" / "sales.svg").unlink()
    page.reload()
    expect(files.locator("summary", has_text="sales.svg")).to_contain_text("no longer there")
    expect(files.locator("summary", has_text="notes.md")).to_contain_text("changed since")
    expect(page.locator(".answer-box img")).to_have_count(0)


def test_consent_to_many_calls_tells_their_number_on_the_page(
    watched: Watched, stage: Stage
) -> None:
    each = {"tool": "weather.forecast", "inputs": {"city": "{{item}}"}}
    names: dict[str, Any] = {"id": "names", "over": ["Oslo", "Rome", "Bergen"], "each": each}
    write = {"tool": "notes.write", "inputs": {"path": "n.md", "text": "{{item.city}}"}}
    run = run_until(
        stage, "asking", names, {"id": "all", "over": "{{names}}", "each": write, "most": 2}
    )
    page = watched.tab(f"runs/{run}")
    expect(card(page).get_by_role("heading", level=3)).to_have_text(
        "Call notes.write up to 3 times"
    )
    expect(card(page).locator(".from a")).to_have_text(["names weather.forecast"])
    expect(card(page).get_by_role("button", name="Change the value")).to_have_count(0)
    # The list stands in the plan; its calls are one table, and the values of each can be changed.
    card(page, "Allow once").get_by_role("button", name="Allow once").click()
    table = card(page, "Allow all 3")
    expect(table.locator("tbody tr")).to_have_count(3)
    expect(table.locator("tbody tr", has_text="Rome")).to_contain_text("n.md")
    table.locator("tbody tr", has_text="Oslo").get_by_role("button").click()
    table.get_by_role("button", name="Change the value").click()
    table.get_by_role("textbox", name="text").fill("{{mine}}")
    table.get_by_role("button", name="Use these values and allow").click()
    card(page, "Allow all 2").get_by_role("button", name="Allow all 2").click()
    until(stage, run, "done")
    called = stage.api(f"/v1/runs/{run}/steps/all%2F0")["resolved_inputs"]
    assert called == {"path": "n.md", "text": "{{mine}}"}


def test_all_calls_of_a_list_are_allowed_only_as_they_were_shown(
    watched: Watched, stage: Stage
) -> None:
    for name in ("one", "two"):
        (stage.work / f"{name}.md").write_text("old")
    inputs = {"path": "{{item}}.md", "text": "{{look.city}}", "overwrite": True}
    each = {"tool": "files.write", "inputs": inputs}
    steps = look(city="new"), {"id": "all", "over": ["one", "two"], "each": each}
    run = run_until(stage, "asking", *steps)
    page = watched.tab(f"runs/{run}")
    table = card(page, "Allow all 2")
    (stage.work / "two.md").write_text("by somebody else")
    table.get_by_role("button", name="Allow all 2").click()
    # The first was as it was shown; the second is shown anew, alone.
    expect(card(page).get_by_role("heading", level=3)).to_contain_text("two.md")
    assert (stage.work / "two.md").read_text() == "by somebody else"
    assert stage.api(f"/v1/runs/{run}")["steps"]["all/0"]["status"] != "asking"
    card(page).get_by_role("button", name="Allow once").click()
    until(stage, run, "done")
    assert [(stage.work / f"{name}.md").read_text() for name in ("one", "two")] == ["new", "new"]


def test_a_question_takes_the_focus_is_announced_and_can_be_answered_without_scrolling(
    watched: Watched, stage: Stage
) -> None:
    ask: dict[str, Any] = {"id": "ask", "question": "Which one?", "options": ["this", "that"]}
    inputs = {"path": "n.md", "text": "{{look.city}}\n" * 9}
    write = {"id": "write", "tool": "notes.write", "inputs": inputs, "after": ["ask"]}
    run = run_until(stage, "asking", ask, look(city=LONG), write)
    sizes = ({"width": 1280, "height": 700}, {"width": 390, "height": 700})
    tabs = [watched.tab(f"runs/{run}", viewport=size) for size in sizes]
    for each in tabs:
        expect(each.locator(".questions")).to_be_focused()
        expect(each.locator(".questions").get_by_role("alert")).to_contain_text("Which one?")
        expect(each.get_by_role("button", name="this")).to_be_in_viewport()
    page = tabs[-1]
    typing = tabs[0].context.new_page()
    typing.goto(f"{stage.url}#/runs/{run}")
    box = typing.get_by_role("textbox", name="Follow up")
    box.fill("I am in the middle of")
    page.get_by_role("button", name="this").click()
    for each in (page, typing):
        expect(each.get_by_role("alert")).to_contain_text("consent")
        expect(each.get_by_role("button", name="Allow once")).to_be_enabled()
    expect(page.locator(".questions")).to_be_focused()
    expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport()
    expect(box).to_be_focused()
    page.get_by_role("button", name="Show all").first.click()
    expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport()
