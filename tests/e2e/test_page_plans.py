"""Plans in a real browser: at a glance, mended by a press, edited in two tabs, or not made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, FilePayload, Page, expect
from tests.web import screens
from tests.web.browser import Stage, Watched
from tests.web.screens import approve, run_until, until

SALES = "date,region,amount\n2026-01-02,North,120.5\n2026-01-03,South,80\n2026-01-04,North,7\n"

DROP = """(text) => {
  const dropped = new DataTransfer();
  dropped.items.add(new File([text], "sales.csv"));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true }));
}"""


def look(name: str, city: str = "Oslo") -> dict[str, Any]:
    return screens.look(name, title=f"Look {name}", inputs={"city": city, "days": 3})


def save(page: Page) -> None:
    page.get_by_role("button", name="Save edits").click()
    expect(page.locator(".editbar.dirty")).to_have_count(0)


def test_a_problem_stands_in_its_step_and_one_press_mends_it(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(look("a"), look("b", "Rome"), {"id": "tell", "instruction": "Say {{a.sky}}"})
    page = watched.tab(f"runs/{run}")
    row = page.locator(".steps > li", has_text="Look b")
    expect(row.locator(".problems .warning")).to_be_visible()
    row.get_by_role("button", name="Use it in the answer").click()
    expect(page.locator(".hero .good")).to_be_visible()
    expect(page.locator(".steps .fresh", has_text="{{b}}")).to_be_visible()
    page.get_by_role("button", name="Undo", exact=True).click()
    row.get_by_role("button", name="Remove step").click()
    expect(page.locator(".steps .removed")).to_contain_text("Look b")
    save(page)
    steps = stage.api(f"/v1/runs/{run}")["plan"]["steps"]
    assert [step["id"] for step in steps] == ["a", "tell"]


def test_a_value_is_picked_from_the_result_of_an_earlier_step(
    watched: Watched, stage: Stage
) -> None:
    run_until(stage, "done", look("a"))
    note: dict[str, Any] = {"id": "note", "tool": "notes.write", "inputs": {"path": "x.md"}}
    run = stage.submit(look("a"), {**note, "inputs": {**note["inputs"], "text": ""}})
    page = watched.tab(f"runs/{run}/plan/note")
    page.get_by_role("button", name="Use the result of a step for text").click()
    page.locator(".tree summary", has_text="Look a").click()
    page.locator(".tree .part", has_text="high").click()
    expect(page.get_by_role("textbox", name="text")).to_have_value("{{a.high}}")
    # Names of arguments come from the schema of the tool; the needed ones were there at once.
    page.goto(f"{stage.url}#/runs/{run}/plan/a")
    page.get_by_role("button", name="Remove days").click()
    page.get_by_role("button", name="+ days").click()
    expect(page.get_by_role("textbox", name="days")).to_be_visible()
    expect(page.get_by_label("Name of the argument")).to_have_count(0)


def test_where_no_plan_came_of_it_a_person_can_write_one(watched: Watched, stage: Stage) -> None:
    page = watched.tab()
    page.get_by_label("Your request").fill("nobody can plan this")
    page.keyboard.press("Enter")
    expect(page.locator(".run-head .badge.s-failed")).to_be_visible()
    expect(page.get_by_text("What the model wrote is not a plan.")).to_be_visible()
    first = page.url
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("This repeats an earlier run")).to_be_visible()
    assert page.url != first
    expect(page.get_by_role("heading", name="No plan could be made")).to_be_visible()
    expect(page.get_by_role("button", name="Approve and run")).to_have_count(0)
    expect(page.get_by_role("button", name="Use another model")).to_be_visible()
    page.get_by_role("button", name="Write the plan by hand").click()
    use = page.get_by_role("button", name="Use this plan")
    expect(use).to_be_disabled()
    expect(page.get_by_text("Add a step first.")).to_be_visible()
    kinds = page.get_by_label("Add a step").first
    kinds.focus()
    kinds.select_option("tool:weather.forecast")
    page.get_by_role("button", name="Add a step").click()
    page.get_by_role("textbox", name="city").fill("Oslo")
    expect(use).to_be_enabled()
    use.click()
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()


def test_the_first_minute_names_files_makes_examples_of_them_and_finds_a_model(
    watched: Watched, stage: Stage
) -> None:
    page = watched.tab()
    expect(page.get_by_text("This folder has no files yet.")).to_be_visible()
    page.evaluate(DROP, SALES)
    expect(page.locator(".files")).to_contain_text("sales.csv")
    page.get_by_role("button", name="Draw a bar chart of amount by region from sales.csv").click()
    expect(page.get_by_label("Your request")).to_have_value(
        "Draw a bar chart of amount by region from sales.csv and save it as chart.svg"
    )
    other = FilePayload(name="sales.csv", mimeType="text/csv", buffer=b"other")
    page.locator("input[type=file]").set_input_files([other])
    expect(page.locator(".outcomes")).to_contain_text("sales.csv is already there")
    assert (stage.work / "sales.csv").read_text() == SALES
    page.get_by_role("button", name="Replace it").click()
    expect(page.locator(".outcomes")).to_contain_text("sales.csv is in the folder")
    assert (stage.work / "sales.csv").read_bytes() == b"other"

    stage.hold("model-first")
    page.get_by_label("Your request").fill("weather forecast of the city Oslo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Approve and run")).to_have_count(0)
    stage.release()
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()

    page.goto(f"{stage.url}#/no/such/view")
    page.get_by_role("link", name="Start something new").click()
    # Last: from here on the rules plan in this server.
    page.get_by_role("button", name="Change").click()
    none = page.locator(".model", has=page.get_by_role("heading", name="No model", exact=True))
    none.get_by_role("button", name="Use it").click()
    expect(page.locator(".model-line")).to_contain_text("No language model is set up yet")


def test_a_plan_that_only_stands_in_is_nowhere_offered_with_a_blue_approve(
    chrome: Browser, tmp_path: Path
) -> None:
    own = Stage(tmp_path / "stage")
    (own.folder / "stand-in").touch()
    own.start()
    try:
        run = str(own.api("/v1/runs", {"request": "nobody can plan this at all"})["id"])
        state = until(own, run, "reviewing")
        assert state["stand_in"]
        assert [step["kind"] for step in state["plan"]["steps"]] == ["agent"] * 3
        watched = Watched(chrome, own)
        page = watched.tab(f"runs/{run}")
        expect(page.get_by_role("alert")).to_contain_text("This is not a plan for your request")
        # The blue button is what helps; the stand-in has a plain one that says what it is.
        expect(page.locator(".decision .button.primary")).to_have_text(["Try again"])
        anyway = page.get_by_role("button", name="Run the stand-in anyway")
        expect(anyway).to_have_class("button plain")
        expect(page.get_by_role("button", name="Approve and run")).to_have_count(0)
        page.goto(f"{own.url}#/inbox")
        page.get_by_role("button", name="Look and decide").click()
        expect(page.get_by_role("button", name="Approve and run")).to_be_disabled()
        expect(page.locator(".here .bad")).to_contain_text("this one stands in for it")
        assert own.api(f"/v1/runs/{run}")["status"] == "reviewing"
        assert not watched.close()
    finally:
        own.stop()


def test_a_time_in_the_plan_is_shown_in_words_and_becomes_a_schedule(
    watched: Watched, stage: Stage
) -> None:
    monday = {"cron": "0 8 * * MON", "timezone": "Europe/Oslo"}
    run = stage.submit(look("a"), goal="Sum up the week", schedule=monday)
    page = watched.tab(f"runs/{run}")
    words = "Every Monday at 08:00 Europe/Oslo"
    expect(page.locator(".hero")).to_contain_text(words)
    expect(page.get_by_role("button", name="Approve and run once now")).to_be_visible()
    page.get_by_role("link", name="Another time").click()
    expect(page.get_by_role("combobox", name="When")).to_have_value("cron")
    expect(page.get_by_label("Cron")).to_have_value("0 8 * * MON")
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Oslo")
    expect(page.locator(".fires li").first).to_contain_text("Monday")
    # What is approved for every week is on the screen that approves it.
    expect(page.locator(".brief li")).to_contain_text(["Look a"])
    expect(page.locator(".brief .inputs")).to_contain_text("Oslo")
    page.go_back()
    page.get_by_role("button", name="Approve and schedule").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".head")).to_contain_text(words)
    schedules = [each for each in stage.api("/v1/schedules")["items"] if each["timing"].get("cron")]
    assert [each["timing"]["cron"] for each in schedules] == ["0 8 * * MON"]
    assert schedules[0]["approved"] == stage.api(f"/v1/runs/{run}")["hash"]
    assert stage.api(f"/v1/runs/{run}")["running_hash"] == ""
    # Once, now: no schedule, and the run is done. From the inbox it is the same choice.
    other = stage.submit(look("b"), goal="Once only", schedule=monday)
    page = watched.tab("inbox")
    row = page.locator(".waiting li", has_text="Once only")
    row.get_by_role("button", name="Look and decide").click()
    expect(row.locator(".here")).to_contain_text(words)
    row.get_by_role("button", name="Approve and run once now").click()
    until(stage, other, "done")
    assert len(stage.api("/v1/schedules")["items"]) == len(schedules)


def test_a_new_step_begins_with_a_tool_that_is_there_and_stays_below_what_it_needs(
    watched: Watched, stage: Stage
) -> None:
    tell = {"id": "tell", "title": "Tell", "instruction": "Say {{a.sky}} {{b.sky}}"}
    run = stage.submit(look("a"), look("b", "Rome"), tell)
    page = watched.tab(f"runs/{run}/plan/tell")
    # Above what it needs it would look as if it ran first. A reference is called by the title.
    expect(page.get_by_role("button", name="Move up")).to_have_count(0)
    expect(page.locator(".after .chip")).to_have_text(["Look a", "Look b"])
    expect(page.locator(".steps > li", has_text="Tell")).to_contain_text("Say ‹Look a› ‹Look b›")
    page.goto(f"{stage.url}#/runs/{run}/plan/b")
    expect(page.get_by_role("button", name="Move up")).to_be_visible()
    expect(page.get_by_role("button", name="Move down")).to_have_count(0)
    page.get_by_role("combobox", name="Add a step").select_option(label="For each")
    expect(page.locator(".add optgroup")).to_have_count(1)
    page.get_by_role("button", name="Add a step").click()
    tools = [each["name"] for each in stage.api("/v1/tools")["items"]]
    expect(page.locator("fieldset").get_by_role("combobox", name="Tool")).to_have_value(tools[0])
    page.get_by_role("button", name="Drop edits").click()
    # Enter sends here, as everywhere.
    page.get_by_role("button", name="Request changes").click()
    page.get_by_label("What should be different?").fill("Bergen instead")
    page.keyboard.press("Enter")
    until(stage, run, "reviewing")
    expect(page.get_by_label("What should be different?")).to_have_count(0)


WRITE: dict[str, Any] = {
    "id": "write",
    "tool": "notes.write",
    "inputs": {"path": "n.md", "text": "hello"},
}


def test_the_call_that_takes_a_step_back_is_written_in_a_form_and_offered_after_the_run(
    watched: Watched, stage: Stage
) -> None:
    run = stage.submit(WRITE)
    page = watched.tab(f"runs/{run}/plan/write")
    page.locator("summary", has_text="Rules").click()
    rule = page.locator("fieldset.rule", has_text="A call takes it back")
    rule.get_by_role("checkbox").check()
    expect(rule).to_contain_text("{{write}} is the result of this step")
    rule.get_by_label("Tool").fill("notes.write")
    for name, value in (("path", "n.md"), ("text", "taken back")):
        rule.get_by_role("textbox", name="Name of the argument").fill(name)
        rule.get_by_role("button", name="Add").click()
        rule.get_by_role("textbox", name=name, exact=True).fill(value)
    save(page)
    saved = stage.api(f"/v1/runs/{run}")["plan"]["steps"][0]
    inputs = {"path": "n.md", "text": "taken back"}
    assert saved["undo_with"] == {"tool": "notes.write", "inputs": inputs}
    approve(stage, run)
    until(stage, run, "done")
    page.reload()
    page.get_by_role("button", name="Take back what it did").click()
    expect(page.get_by_role("button", name="Approve and run")).to_be_enabled()
    expect(page.get_by_text("taken back").first).to_be_visible()
