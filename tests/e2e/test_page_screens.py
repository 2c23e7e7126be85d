"""Every screen: usable for all, in both languages and colours, on a phone, with hostile content."""

from __future__ import annotations

import gzip
import os
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.web.browser import ROOT, Stage, Watched
from tests.web.hostile import PAYLOADS
from tests.web.screens import addresses, approve, settled, show, until

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
BAD_IMAGE = "<img src=x onerror=window.pwned=1>"
FIRST_LOAD = 60_000


@pytest.fixture(scope="module")
def screens(stage: Stage) -> dict[str, str]:
    return addresses(stage)


# In an ordinary run each screen is seen in one of two looks; LONG sees all screens in all looks.
LOOKS = [
    ("light", "en-US"),
    ("dark", "zh-CN"),
    pytest.param("light", "zh-CN", marks=pytest.mark.long),
    pytest.param("dark", "en-US", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("theme", "locale"), LOOKS)
def test_every_screen_reloads_to_the_same_fits_a_phone_and_axe_finds_nothing(
    watched: Watched, screens: dict[str, str], theme: str, locale: str
) -> None:
    page = watched.tab(color_scheme=theme, locale=locale)
    every = 1 if os.environ.get("PLANSMITH_LONG") else 2
    some = list(screens.items())[(theme == "dark") % every :: every]
    page.evaluate(AXE.read_text(encoding="utf-8"))
    headings: dict[str, str] = {}
    for name, address in some:
        show(page, address)
        headings[name] = page.get_by_role("heading").first.inner_text()
        found: Any = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        faults = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]
        assert not faults, name
    page.set_viewport_size({"width": 390, "height": 780})
    for name, address in some:
        page.evaluate("to => { location.hash = to }", f"#/{address}")
        page.reload()
        settled(page)
        assert page.get_by_role("heading").first.inner_text() == headings[name], name
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, name


def test_the_page_speaks_chinese_and_remembers_what_was_chosen(
    watched: Watched, screens: dict[str, str]
) -> None:
    page = watched.tab("settings")
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("heading", level=1)).to_have_text("设置")
    page.get_by_label("颜色").select_option("dark")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("设置")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.goto(f"{page.url.split('#')[0]}#/{screens['review']}")
    expect(page.get_by_role("button", name="批准并运行")).to_be_enabled()
    expect(page.locator(".badge")).to_have_text("等你批准")


def test_a_plan_is_asked_for_read_and_approved_by_keyboard_alone(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab()
    expect(page.get_by_label("Your request")).to_be_focused()
    page.keyboard.type("only the weather please")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()
    tab_to(page, "a[data-row]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator(".side")).to_be_visible()
    tab_to(page, ".side textarea")
    tab_to(page, ".decision .button.primary")
    page.keyboard.press("Enter")
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    page.locator("body").press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def tab_to(page: Page, selector: str) -> None:
    for _ in range(80):
        if page.evaluate("([s]) => document.activeElement.matches(s)", [selector]):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{selector} is not reached by the Tab key")


def test_hostile_content_does_nothing_in_any_field(watched: Watched, stage: Stage) -> None:
    assert len(PAYLOADS) > 100
    bad = PAYLOADS[0] + PAYLOADS[14] + BAD_IMAGE
    steps: list[dict[str, Any]] = [
        {
            "id": "look",
            "title": bad,
            "why": bad,
            "tool": "weather.forecast",
            "inputs": {"city": bad},
        },
        {"id": "q", "title": bad, "question": bad, "options": [bad, "b"], "after": ["look"]},
        {
            "id": "tell",
            "title": bad,
            "instruction": f"say every payload of {{{{look.city}}}} {bad}",
        },
    ]
    run = stage.submit(*steps, goal=bad, thought=bad, assumptions=[bad])
    page = watched.tab(f"runs/{run}/plan/look")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>")
    page.goto(f"{stage.url}#/inbox")
    settled(page)
    approve(stage, run)
    until(stage, run, "asking")
    page.goto(f"{stage.url}#/runs/{run}/run/look")
    page.get_by_role("button", name="b", exact=True).click()
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    for part in ("run/look", "run?view=graph", "run?view=timeline", "run?view=log", "versions"):
        page.goto(f"{stage.url}#/runs/{run}/{part}")
        settled(page)
    page.goto(f"{stage.url}#/runs/{run}/report")
    expect(page.locator(".prose")).to_be_visible()
    assert page.locator(".prose :is(script, img, iframe, svg, style, form, object)").count() == 0
    for anchor in page.locator(".prose a[href]").all():
        assert (anchor.get_attribute("href") or "").startswith(("http:", "https:", "mailto:"))
    assert page.evaluate("window.pwned") is None


def test_the_first_load_is_small_and_only_the_report_brings_a_markdown_reader(
    watched: Watched,
) -> None:
    context = watched.context()
    page = context.new_page()
    scripts: dict[str, int] = {}
    page.on(
        "response",
        lambda got: (
            scripts.update({got.url: len(gzip.compress(got.body()))})
            if got.url.endswith(".js")
            else None
        ),
    )
    page.goto(f"{watched.url}#/runs")
    settled(page)
    assert sum(scripts.values()) <= FIRST_LOAD, scripts
    assert not [url for url in scripts if "report" in url]
