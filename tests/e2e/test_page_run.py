"""A run in the browser: the graph that lights up, the timeline, replay, and plans of many steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.web.browser import Stage, Watched
from tests.web.screens import look, run_until

NORTH = look("north", title="Weather in the far north")
HOTEL = look("hotel", title="Find a hotel", tool="hotels.search", after=["north"])
ASK: dict[str, Any] = {
    "id": "ask",
    "title": "Ask which one",
    "question": "Is {{north.high}}° warm enough?",
    "options": ["Yes", "No"],
    "after": ["hotel"],
}
MAX_TASK_MS = 100.0
DRAWN_MS = 1500.0
# One look a frame is cheap; a locator that waits makes the browser describe the whole page.
WAIT = """(wanted) => new Promise((done) => {
  const look = () => document.querySelector(wanted) ? done() : setTimeout(look, 50);
  look();
})"""


def test_a_live_run_opens_with_its_graph_and_lights_up_line_by_line(
    watched: Watched, stage: Stage
) -> None:
    stage.hold("weather.forecast", "hotels.search")
    page = watched.tab(f"runs/{stage.submit(NORTH, HOTEL)}")
    page.get_by_role("button", name="Approve and run").click()
    expect(page.locator(".node.s-running")).to_have_attribute("data-step", "north")
    expect(page.locator(".steps.live .says")).to_contain_text("asking weather.forecast")
    expect(page.locator(".edges path.flows")).to_have_count(0)
    stage.release("weather.forecast")
    expect(page.locator(".edges path.flows")).to_have_count(1)
    expect(page.locator(".node.s-done .took")).to_contain_text("s")
    expect(page.locator(".steps.live .result")).to_have_text(
        "city: Oslo, high: 14, low: 6, sky: clear"
    )
    stage.release("hotels.search")
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    page.goto(f"{page.url.split('?')[0]}/run")
    expect(page.locator(".edges path.lit")).to_have_count(1)
    expect(page.locator(".steps.live .result").nth(1)).to_have_text("1 row: name, price")


def test_a_finished_run_is_replayed_and_its_timeline_hides_waiting(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(NORTH, HOTEL, ASK, goal="A film")
    page = watched.tab(f"runs/{run}")
    page.get_by_role("button", name="Approve and run").click()
    page.get_by_role("button", name="Yes", exact=True).click()
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    events = stage.api(f"/v1/runs/{run}/events")["items"]
    types = [each["body"]["type"] for each in events]
    until = [each["at"][:23] for each in events[: types.index("question_asked") + 1]]
    page.goto(f"{stage.url}#/runs/{run}/run?view=replay")
    # It plays by itself, and ends where the run did.
    page.get_by_label("Speed").select_option("10")
    expect(page.locator(".replay .badge.s-done")).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    slider = page.get_by_role("slider", name="Position")
    slider.press("Home")
    expect(page.locator(".replay .facts")).to_contain_text("0 of")
    # Events of the same millisecond are one instant.
    for _ in range(len(set(until)) - 1):
        page.get_by_role("button", name="Next event").click()
    expect(page.locator(".replay .badge.s-asking")).to_be_visible()
    expect(page.locator(".replay .node.s-asking")).to_have_attribute("data-step", "ask")
    # No button of what is past does anything now.
    expect(page.get_by_role("button", name="Skip this step")).to_have_count(0)
    # The address leads to this instant.
    assert "view=replay&at=" in page.url
    clock = page.locator(".replay .clock").inner_text()
    page.reload()
    expect(page.locator(".replay .badge.s-asking")).to_be_visible()
    expect(page.locator(".replay .facts")).to_contain_text("2 of 3 steps")
    expect(page.locator(".replay .clock")).to_have_text(clock)

    page.goto(f"{stage.url}#/runs/{run}/run?view=timeline")
    person = page.locator(".gantt rect.person")
    wide = float(person.get_attribute("width") or 0)
    page.get_by_label("Hide my waiting").check()
    expect(page.locator(".gantt .cut").first).to_be_attached()
    assert float(person.get_attribute("width") or 0) < wide
    person.hover()
    expect(page.locator(".gantt .tip")).to_contain_text("Ask which one")
    page.get_by_role("button", name="Closer").click()
    expect(page.get_by_role("button", name="Fit")).to_be_enabled()
    assert stage.api(f"/v1/runs/{run}")["times"]["waiting"] > 0


def steps_of(count: int) -> list[dict[str, Any]]:
    return [
        look(
            f"s{number}",
            title=f"Look at city {number}",
            after=[f"s{number // 4}"] if number else [],
        )
        for number in range(count)
    ]


def test_a_large_graph_is_moved_zoomed_searched_and_walked_by_keys(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab(f"runs/{stage.submit(*steps_of(400))}/plan?view=graph")
    nodes = page.locator(".graph .node")
    expect(nodes.first).to_be_visible()
    assert nodes.count() < 170
    page.get_by_label("Find a step").fill("city 377")
    page.keyboard.press("Enter")
    expect(page.locator(".node.found")).to_have_attribute("data-step", "s377")
    page.locator(".graph .canvas").scroll_into_view_if_needed()
    box = page.locator(".graph .canvas").bounding_box()
    assert box
    frame = page.locator(".frame-of-view")
    before = frame.get_attribute("x")
    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 320, box["y"] + 150)
    page.mouse.up()
    assert frame.get_attribute("x") != before
    page.get_by_role("button", name="Fit").click()
    expect(page.get_by_text("400 steps are in view")).to_be_visible()
    assert nodes.count() == 0
    page.get_by_label("Find a step").fill("city 20")
    page.keyboard.press("Enter")
    page.locator('.node[data-step="s20"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator('.node[data-step="s80"]')).to_be_focused()


def tasks_of(chrome: Browser, page: Page, act: Callable[[], None]) -> list[float]:
    """The processor time of each task of the page's main thread, longest first.

    Not the time that the clock says: other programs of the machine would count too.
    """
    chrome.start_tracing(page=page, categories=["toplevel", "__metadata"])
    act()
    events = json.loads(chrome.stop_tracing())["traceEvents"]
    named = [each for each in events if each.get("name") == "thread_name"]
    main = {
        (each["pid"], each["tid"]) for each in named if each["args"]["name"] == "CrRendererMain"
    }
    found = [
        each["tdur"] / 1000
        for each in events
        if (each["pid"], each["tid"]) in main and "tdur" in each and "RunTask" in each["name"]
    ]
    assert found
    return sorted(found, reverse=True)


@pytest.mark.parametrize("count", [120, pytest.param(1000, marks=pytest.mark.long)])
def test_many_steps_are_reviewed_and_run_without_a_long_task(
    chrome: Browser, watched: Watched, stage: Stage, count: int
) -> None:
    run = stage.submit(*steps_of(count), goal="many steps")
    page = watched.tab("runs")
    expect(page.get_by_role("heading", level=1)).to_be_visible()

    def review() -> None:
        page.evaluate("(to) => { location.hash = to }", f"#/runs/{run}")
        page.evaluate(WAIT, ".decision .button.primary:not(:disabled)")
        page.mouse.move(600, 500)
        for _ in range(6):
            page.mouse.wheel(0, 2500)
            page.evaluate("new Promise((done) => requestAnimationFrame(done))")

    def execute() -> None:
        page.evaluate("document.querySelector('.decision .button.primary').click()")
        page.evaluate(WAIT, ".run-head .badge.s-done")

    assert tasks_of(chrome, page, review)[0] < MAX_TASK_MS
    assert tasks_of(chrome, page, execute)[0] < MAX_TASK_MS

    def draw() -> None:
        page.evaluate("(to) => { location.hash = to }", f"#/runs/{run}/run?view=graph")
        page.evaluate(WAIT, ".graph .node")

    assert sum(tasks_of(chrome, page, draw)) < DRAWN_MS
    page.evaluate("(to) => { location.hash = to }", f"#/runs/{run}/run")
    rows = page.locator(".steps > li")
    expect(rows.first).to_have_attribute("aria-setsize", str(count))
    assert rows.count() < 80
    rows.first.locator("a").focus()
    page.keyboard.press("End")
    expect(page.locator(f'.steps [data-key="s{count - 1}"] a')).to_be_focused()


def test_a_result_of_more_than_a_megabyte_tells_its_size_and_is_saved_whole(
    watched: Watched, stage: Stage
) -> None:
    city = "Oslo " * 220_000
    run = run_until(stage, "done", look("north", city))
    page = watched.tab(f"runs/{run}/run/north")
    expect(page.locator(".inspector")).to_contain_text("the whole result has 1.1 MB")
    expect(page.get_by_role("button", name="Show the first")).to_be_visible()
    with page.expect_download() as saved:
        page.locator(".inspector").get_by_role("link", name="Download").click()
    assert saved.value.suggested_filename == "north.json"
    assert json.loads(saved.value.path().read_text())["city"] == city
    # The same in the report; what is not there is told.
    page.goto(f"{stage.url}#/runs/{run}/report")
    page.locator(".evidence summary").first.click()
    expect(page.locator(".evidence").first).to_contain_text("the whole result has 1.1 MB")
    with pytest.raises(HTTPError, match="404"):
        stage.api(f"/v1/runs/{run}/steps/nobody?download=true")


def test_numbers_keep_their_digits_and_stand_on_the_right(watched: Watched, stage: Stage) -> None:
    rows = [{"id": 9007199254740993, "paid": 55.0, "who": "=1+1"}]
    inputs = {"path": "d.csv", "rows": rows}
    run = run_until(
        stage, "done", {"id": "save", "title": "Save", "tool": "tables.write", "inputs": inputs}
    )
    page = watched.tab(f"runs/{run}/run/save")
    table = page.locator(".inspector .table-view").first
    expect(table.locator("td.right")).to_have_text(["9007199254740993", "55.0"])
    with page.expect_download() as saved:
        table.get_by_role("button", name="CSV").click()
    assert saved.value.path().read_text() == "id,paid,who\n9007199254740993,55.0,'=1+1\n"
    # What could be another value next time is named as a person sees it.
    page.goto(f"{stage.url}#/runs/{run}/report")
    page.get_by_role("button", name="Save as template").click()
    expect(page.get_by_role("textbox", name="Save: path")).to_be_visible()
