"""The whole story in a real browser: ask, watch, change, approve, answer, read, repeat."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.web.browser import Stage, Watched
from tests.web.screens import event_types, look, press_approve, run_of

ASK = "Plan my trip: compare Oslo and Rome"


def ask(page: Page, text: str) -> None:
    page.get_by_label("Your request").fill(text)
    page.keyboard.press("Enter")


def test_from_a_request_to_its_report_with_a_reload_at_every_stage(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab()
    expect(page.get_by_text("You see the plan before anything runs.")).to_be_visible()
    stage.hold("model", "weather.forecast")
    ask(page, ASK)
    written = page.locator(".written li")
    expect(written.first).to_contain_text("Weather in Oslo")
    page.reload()
    expect(written.first).to_contain_text("Weather in Oslo")
    expect(page.get_by_text("Writing the plan")).to_be_visible()
    stage.release("model")
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()
    expect(page.get_by_text("reads 3 · changes 1")).to_be_visible()
    expect(page.locator(".run-head .badge.s-reviewing")).to_be_visible()
    run = run_of(page)
    assert "step_started" not in event_types(stage, run)

    change_an_argument(page)
    assert stage.api(f"/v1/runs/{run}")["plan"]["steps"][0]["inputs"]["days"] == 5

    page.get_by_role("button", name="Request changes").click()
    page.get_by_label("What should be different?").fill("Take Bergen instead of Oslo")
    page.get_by_role("button", name="Ask for another plan").click()
    change = page.locator(".note.change")
    expect(change).to_contain_text("Take Bergen instead of Oslo")
    expect(page.locator(".steps .fresh", has_text="Bergen").first).to_be_visible()
    page.reload()
    expect(change).to_contain_text("Take Bergen instead of Oslo")

    run_with_a_question_and_a_failure(page, stage)
    read_the_report(page)


def change_an_argument(page: Page) -> None:
    page.locator(".steps a", has_text="Weather in Oslo").first.click()
    days = page.get_by_role("textbox", name="days")
    days.fill("99")
    expect(page.locator(".form .problems")).to_contain_text("at most 14")
    expect(page.get_by_role("button", name="Save edits")).to_be_disabled()
    page.reload()
    expect(days).to_have_value("99")
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(days).to_have_value("3")
    days.fill("5")
    expect(page.get_by_text("No problems found.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve and run")).to_be_disabled()
    page.get_by_role("button", name="Save edits").click()
    expect(page.locator(".editbar.dirty")).to_have_count(0)


def run_with_a_question_and_a_failure(page: Page, stage: Stage) -> None:
    press_approve(page)
    expect(page.locator(".mark.s-running")).to_have_count(2)
    page.reload()
    expect(page.locator(".mark.s-running")).to_have_count(2)
    page.get_by_role("link", name="Timeline").click()
    expect(page.locator(".gantt rect.running")).to_have_count(2)
    stage.release("weather.forecast")
    question = page.get_by_role("group", name="Which?")
    expect(question).to_contain_text("14° in Bergen")
    page.reload()
    stage.hold("hotels.find")
    page.get_by_role("button", name="Rome", exact=True).click()
    page.get_by_role("link", name="List", exact=True).click()
    hotel = page.locator(".steps li[data-key=hotel]")
    expect(hotel).to_contain_text("Running")
    stage.hold("notes.write")
    stage.release("hotels.find")
    change = page.locator(".note.change")
    expect(change).to_contain_text("failed: hotel")
    expect(change).to_contain_text("Find a hotel: the old catalogue is closed: HTTP 410")
    expect(change.locator(".removed")).to_contain_text("Find a hotel")
    page.reload()
    expect(change).to_contain_text("failed: hotel")
    # The model has read the error of a tool, so a person sees what it planned then.
    page.get_by_role("link", name="Plan", exact=True).click()
    press_approve(page)
    stage.release("notes.write")


def read_the_report(page: Page) -> None:
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    page.get_by_role("link", name="Report").click()
    expect(page.locator(".prose")).to_contain_text("Rome it is")
    expect(page.locator(".prose table")).to_be_visible()
    page.reload()
    expect(page.locator(".prose")).to_contain_text("Rome it is")
    expect(page.get_by_text("another plan was looked for")).to_be_visible()
    page.get_by_text("Weather in Rome").click()
    expect(page.locator(".evidence[open] dl")).to_contain_text("skyclear")
    page.locator(".evidence[open] a").click()
    expect(page.locator(".side")).to_contain_text("As called")
    page.get_by_role("link", name="Log").click()
    expect(page.locator(".log")).to_contain_text("hotel failed: the old catalogue is closed")


def test_a_plan_that_only_reads_runs_at_once_and_is_repeated_by_a_schedule(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab()
    page.get_by_text("Run if it only reads").click()
    ask(page, "only the weather please")
    expect(page.locator(".prose")).to_be_visible()
    page.get_by_role("link", name="Schedule it").click()
    expect(page.get_by_text("Look at the weather in Oslo")).to_be_visible()
    page.get_by_label("Every day at").fill("07:15")
    expect(page.locator(".fires li")).to_have_count(5)
    page.get_by_label("Name").fill("Every morning")
    page.get_by_role("button", name="Approve and create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Every morning")
    expect(page.locator(".fires li").first).to_contain_text("7:15")
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("holidays")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".badge.s-paused")).to_be_visible()
    page.reload()
    expect(page.get_by_text("holidays")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".badge.s-ready")).to_be_visible()
    page.get_by_role("button", name="Run now").click()
    page.locator(".rows a[href*='runs/']").click()
    expect(page.locator(".prose")).to_be_visible()


def test_an_unclear_request_asks_and_the_choice_may_be_left_to_the_planner(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab()
    ask(page, "plan something nice")
    question = page.get_by_role("group", name="Where do you want to go?")
    expect(question).to_be_visible()
    page.reload()
    question.get_by_role("button", name="You decide").click()
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()


def test_a_finished_run_becomes_a_template_that_is_used_with_other_values(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(look(), goal="Look")
    page = watched.tab(f"runs/{run}")
    press_approve(page)
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()
    expect(page.get_by_role("button", name="Run again", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Continue from what is done")).to_have_count(0)
    page.get_by_role("button", name="Save as template").click()
    page.get_by_label("Name of the template").fill("weather")
    page.get_by_label("Weather forecast: Oslo: city").fill("city")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").get_by_role("link", name="Templates").click()
    page.get_by_role("textbox", name="city").fill("Bergen")
    page.get_by_role("button", name="Use this template").click()
    expect(page.locator(".steps")).to_contain_text("Bergen")
    press_approve(page)
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()


def test_a_run_is_paused_goes_on_and_is_cancelled(watched: Watched, stage: Stage) -> None:
    stage.hold("weather.forecast")
    page = watched.tab(f"runs/{stage.submit(look('a'), look('b', 'Rome', after=['a']))}")
    press_approve(page)
    expect(page.locator(".mark.s-running")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".badge.s-paused")).to_be_visible()
    stage.release("weather.forecast")
    expect(page.locator(".mark.s-done")).to_have_count(1)
    stage.hold("weather.forecast")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".mark.s-running")).to_have_count(1)
    page.get_by_role("button", name="Cancel run").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    expect(page.locator(".run-head .badge.s-cancelled")).to_be_visible()


def test_a_new_plan_that_touches_more_is_shown_as_a_difference_and_approved_again(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit({"id": "old", "tool": "hotels.find", "inputs": {"city": "Rome"}})
    page = watched.tab(f"runs/{run}")
    press_approve(page)
    steps = page.locator(".steps")
    expect(steps.locator(".added")).to_contain_text("hotels.search")
    expect(steps.locator(".removed")).to_contain_text("hotels.find")
    expect(page.get_by_text("hotels.search was not in the plan before")).to_be_visible()
    press_approve(page)
    expect(page.locator(".run-head .badge.s-done")).to_be_visible()


BAD = {"id": "bad", "tool": "hotels.find", "inputs": {"city": "Rome"}, "after": ["look"]}


def test_run_again_and_continue_are_two_buttons_that_do_what_they_say(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(look(city="Rome"), BAD)
    page = watched.tab(f"runs/{run}")
    press_approve(page)
    expect(page.locator(".run-head .badge.s-partly_done")).to_be_visible()
    page.get_by_role("button", name="Continue from what is done (1 of 2)").click()
    expect(page.get_by_text("1 of 2 steps are done and will not run again.")).to_be_visible()
    continued = stage.api(f"/v1/runs/{run_of(page)}")
    assert continued["id"] != run
    assert continued["steps"]["look"]["reused_from"] == run
    page.goto(page.url.replace(continued["id"], run))
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()
    again = stage.api(f"/v1/runs/{run_of(page)}")
    assert again["id"] not in (run, continued["id"])
    assert {step["status"] for step in again["steps"].values()} == {"waiting"}
    press_approve(page)
    expect(page.locator(".run-head .badge.s-partly_done")).to_be_visible()
    assert "step_reused" not in event_types(stage, again["id"])


def test_typing_never_approves(watched: Watched, stage: Stage) -> None:
    step = {"id": "m", "tool": "mail.send", "inputs": {"to": "bob"}}
    run = stage.submit(step)
    page = watched.tab(f"runs/{run}/plan/m")
    changes = page.get_by_label("What should be different?")
    names = ("Title", "to", "Why", "Follow up")
    boxes = [page.get_by_role("textbox", name=name, exact=True) for name in names]
    # The last one sends what was typed: another plan is asked for, none is approved.
    for box in (*boxes, changes):
        if box is changes:
            page.get_by_role("button", name="Request changes").click()
        box.focus()
        for key in ("y", "Enter", "Control+Enter", "Meta+Enter", "Alt+a"):
            page.keyboard.press(key)
    page.locator("body").press("Enter")
    expect(page.get_by_role("button", name="Approve and run")).to_be_visible()
    assert "plan_approved" not in event_types(stage, run)
    assert stage.api(f"/v1/runs/{run}")["status"] in ("planning", "reviewing")


def test_a_composition_is_not_sent(watched: Watched, stage: Stage) -> None:
    page = watched.tab()
    box = page.get_by_label("Your request")
    box.fill("ni hao")
    for init in ({"isComposing": True}, {"keyCode": 229}):
        box.dispatch_event("keydown", {"key": "Enter", "bubbles": True, **init})
    assert page.url.endswith("#/")
    expect(box).to_have_value("ni hao")
