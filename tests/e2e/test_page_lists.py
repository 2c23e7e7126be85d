"""Very many runs and very many things that wait, in a real browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests import forked
from tests.e2e.test_page_run import MAX_TASK_MS, WAIT, tasks_of
from tests.web.browser import ROOT, Stage, Watched
from tests.web.screens import run_until

SIZES = RUNS, WAITING = (5000, 500) if os.environ.get("PLANSMITH_LONG") else (330, 80)
SCROLLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, chrome: Browser) -> Iterator[Stage]:
    """A stage whose store has so many runs from the start."""
    many = Stage(tmp_path_factory.mktemp("many"))
    command = [sys.executable, "-m", "tests.web.many_runs", str(many.folder), *map(str, SIZES)]
    forked.run(command, cwd=many.work, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    many.start()
    yield many
    many.stop()


def scroll(page: Page, times: int) -> None:
    page.mouse.move(600, 500)
    for _ in range(times):
        page.mouse.wheel(0, 2500)
        page.evaluate(SCROLLED)


def to_the_end(page: Page, count: int) -> None:
    """Scroll until the oldest run is read and drawn."""
    page.evaluate(
        """async (wanted) => {
          const last = () => document.querySelector(`.rows > li[aria-setsize="${wanted}"]`);
          for (let turn = 0; turn < 2000 && !last(); turn++) {
            scrollTo(0, document.body.scrollHeight);
            await new Promise((done) => setTimeout(done, 20));
          }
        }""",
        count,
    )
    expect(page.locator(f'.rows > li[aria-setsize="{count}"]').first).to_be_attached()


def test_many_runs_and_waiting_things_are_scrolled_and_filtered_without_a_long_task(
    chrome: Browser, watched: Watched
) -> None:
    page = watched.tab("usage")
    page.get_by_role("heading", level=1).wait_for()

    def list_runs() -> None:
        page.evaluate("() => { location.hash = '#/runs' }")
        page.evaluate(WAIT, ".rows a[data-row]")
        scroll(page, 8)
        to_the_end(page, RUNS)

    def filter_runs() -> None:
        page.locator(".filters input[type=search]").press_sequentially("Lima")
        page.evaluate(WAIT, ".rows > li:nth-child(8)")
        page.locator(".filters select").first.select_option("done")
        page.evaluate(SCROLLED)

    def inbox() -> None:
        page.evaluate("() => { location.hash = '#/inbox' }")
        page.evaluate(WAIT, ".waiting a[data-row]")
        scroll(page, 8)

    for act in (list_runs, filter_runs, inbox):
        longest = tasks_of(chrome, page, act)[0]
        assert longest < MAX_TASK_MS, act.__name__
    assert page.locator(".waiting > li").count() < 80
    first = page.locator(".waiting > li").first
    expect(first).to_have_attribute("aria-setsize", str(WAITING))


def test_rows_that_are_not_drawn_are_reached_by_keys_chosen_and_kept_up_to_date(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab("runs?q=Oslo")
    rows = page.locator(".rows > li")
    expect(rows.first.get_by_role("link")).to_contain_text("to Oslo")
    to_the_end(page, RUNS // 5)
    page.locator(".rows a[data-row]").first.focus()
    page.keyboard.press("End")
    expect(page.locator(":focus")).to_contain_text("Trip 0 to Oslo")
    page.keyboard.press("Home")
    expect(page.locator(":focus")).to_contain_text(f"Trip {RUNS - 5} to Oslo")
    # From the newest to the oldest by the shift key, though most of them are not drawn.
    rows.first.get_by_role("checkbox").click()
    page.locator(".rows a[data-row]").first.focus()
    page.keyboard.press("End")
    page.get_by_role("checkbox", name="Select: Trip 0 to Oslo").click(modifiers=["Shift"])
    expect(page.locator(".chosen b")).to_have_text(f"{RUNS // 5:,} selected")
    page.get_by_role("button", name="Clear selection").click()

    # A run far down changes: its row says so, wherever it stands.
    page.goto(f"{stage.url}#/runs")
    to_the_end(page, RUNS)
    waiting = stage.api("/v1/runs?limit=100&status=reviewing")["items"]
    oldest = waiting[-1]["id"]
    stage.api(f"/v1/runs/{oldest}/decision", {"reject": True})
    row = page.locator(f'.rows [data-key="{oldest}"]')
    page.evaluate("rows => scrollTo(0, (rows - 6) * 44)", len(waiting))
    expect(row.locator(".badge")).to_have_text("Cancelled")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="Trip 0 to Oslo")).to_be_visible()
    page.get_by_role("checkbox", name="Select: Trip 0 to Oslo").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="Trip 0 to Oslo")).to_have_count(0)
    expect(page.get_by_role("link", name="Trip 1 to Rome")).to_be_visible()


def test_what_is_typed_into_an_open_row_of_the_inbox_stays_when_it_is_scrolled_away(
    watched: Watched, stage: Stage
) -> None:
    run = run_until(stage, "asking", {"id": "q", "question": "Where to?"}, goal="Ask for a place")
    page = watched.tab("inbox")
    row = page.get_by_role("listitem").filter(has=page.get_by_text("Ask for a place"))
    row.get_by_role("button", name="Answer here").click()
    page.get_by_role("textbox").fill("half an answer")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    # Somebody looks at something else meanwhile.
    page.locator(".waiting a[data-row]").last.focus()
    page.evaluate(SCROLLED)
    page.evaluate("scrollTo(0, 0)")
    expect(page.get_by_role("textbox")).to_have_value("half an answer")
    stage.api(f"/v1/runs/{run}/cancel", {})
