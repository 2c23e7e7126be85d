"""Addresses of all screens of the page, over runs that stand in different places."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.web.browser import Stage
from tests.web.conversation import TRIP
from tests.web.stage import MAILS, trip

OVER = ("done", "partly_done", "failed", "cancelled", "answered")


def addresses(stage: Stage) -> dict[str, str]:
    """Addresses of all screens, over runs in different states."""
    plan = trip()
    reviewing = stage.submit(*plan["steps"], goal=plan["goal"], assumptions=plan["assumptions"])
    asking = stage.submit(look(), {"id": "q", "question": "Which?", "options": ["this", "that"]})
    failed = stage.submit(look(), {"id": "bad", "tool": "hotels.find", "inputs": {"city": "Rome"}})
    done = stage.submit(look(), {"id": "tell", "instruction": "Say {{look.sky}}"})
    for run in (asking, failed, done):
        approve(stage, run)
    for run, status in ((asking, "asking"), (failed, "partly_done"), (done, "done")):
        until(stage, run, status)
    stage.api(f"/v1/runs/{done}/template", {"name": "t", "parameters": {"c": ["look.inputs.city"]}})
    schedule = stage.api(
        "/v1/schedules", {"request": "look", "timing": {"daily_at": "07:15"}, "name": "s"}
    )
    talk = conversation(stage)
    files = made(stage)
    return {
        "new": "",
        "inbox": "inbox",
        "conversations": "conversations",
        "conversation": f"conversations/{talk}",
        "runs": "runs",
        "no runs": "runs?q=nothing",
        "review": f"runs/{reviewing}",
        "preview": f"runs/{previewed(stage)}",
        "editor": f"runs/{reviewing}/plan/north",
        "plan graph": f"runs/{reviewing}/plan?view=graph",
        "questions": f"runs/{asking}",
        "run": f"runs/{failed}/run/bad",
        "run graph": f"runs/{failed}/run?view=graph",
        "timeline": f"runs/{failed}/run?view=timeline",
        "log": f"runs/{failed}/run?view=log",
        "report": f"runs/{done}/report",
        "consent": f"runs/{consent(stage)}",
        "files": f"runs/{files}/report",
        "table": f"runs/{files}/run/rows",
        "compare": f"compare/{done}/{failed}",
        "templates": "templates",
        "ready template": "templates/csv-chart",
        "template": "templates/t",
        "schedules": "schedules",
        "schedule": f"schedules/{schedule['id']}",
        "new schedule": f"schedules/new?run={done}",
        "tools": "tools",
        "agents": "tools/agents",
        "usage": "usage",
        "settings": "settings",
        "nowhere": "nowhere",
    }


SALES = [
    {"city": city, "month": month, "sales": 100 + 37 * number % 211}
    for number, (month, city) in enumerate(
        (month, city) for month in ("May", "June", "July") for city in ("Oslo", "Rome", "Bergen")
    )
]
NOTES = """# Sales of the summer

Rome sold **most**, Bergen least.

- Oslo: steady
- Rome: best in July
"""


def consent(stage: Stage) -> str:
    """A run that asks before it writes what it read over a file that is there."""
    work = stage.folder / "work"
    (work / "draft.md").write_text(NOTES)
    (work / "summary.md").write_text(NOTES.replace("Rome", "Oslo").replace("**most**", "most"))
    read = {"id": "read", "tool": "files.read", "inputs": {"path": "draft.md"}}
    inputs = {"path": "summary.md", "text": "{{read.text}}", "overwrite": True}
    return run_until(stage, "asking", read, {"id": "save", "tool": "files.write", "inputs": inputs})


def previewed(stage: Stage) -> str:
    """A run whose plan was previewed: a list of mails, one with a drawing, one that has to wait."""
    late = {"id": "late", "tool": "mail.send", "inputs": {"to": "{{draw.done}}"}}
    draw = {"id": "draw", "tool": "mail.send", "inputs": {"to": "dan", "drawing": "x"}}
    run = stage.submit(*MAILS["steps"], draw, late, goal="Write to everybody")
    stage.api(f"/v1/runs/{run}/preview?wait=60", {})
    return run


def made(stage: Stage) -> str:
    """A run that drew a chart and wrote a table and a text."""
    rows = {"id": "rows", "tool": "files.list", "inputs": {}}
    totals = SALES[:3]
    draw = {"id": "draw", "tool": "charts.draw"}
    draw["inputs"] = {"rows": totals, "x": "city", "y": "sales", "path": "sales.svg"}  # type: ignore[assignment]
    save = {"id": "table", "tool": "tables.write", "inputs": {"path": "sales.csv", "rows": SALES}}
    text = {"id": "text", "tool": "files.write", "inputs": {"path": "notes.md", "text": NOTES}}
    return run_until(stage, "done", rows, draw, save, text, goal="Draw the sales of the summer")


def conversation(stage: Stage) -> str:
    """A conversation in which a question and a plan wait and one message approved nothing."""
    first = stage.api("/v1/runs", {"request": TRIP, "conversation": "new"})
    talk = str(first["conversation"])
    until(stage, first["id"], "asking")
    other = {"text": "Find me a hotel for the next week in Bergen, whatever the weather is"}
    planned = stage.api(f"/v1/conversations/{talk}/messages", other)
    until(stage, planned["id"], "reviewing")
    stage.api(f"/v1/conversations/{talk}/messages", {"text": "yes, go ahead"})
    return talk


def look(name: str = "look", city: str = "Oslo", **more: Any) -> dict[str, Any]:
    """A step that only reads."""
    return {"id": name, "tool": "weather.forecast", "inputs": {"city": city}, **more}


def run_of(page: Page) -> str:
    """The run that a page shows."""
    found = re.search(r"#/runs/([0-9a-f-]{36})", page.url)
    assert found, page.url
    return found[1]


def press_approve(page: Page) -> None:
    button = page.get_by_role("button", name="Approve and run")
    expect(button).to_be_enabled()
    button.click()


def event_types(stage: Stage, run: str) -> list[str]:
    return [each["body"]["type"] for each in stage.api(f"/v1/runs/{run}/events")["items"]]


def approve(stage: Stage, run: str) -> None:
    hash_ = stage.api(f"/v1/runs/{run}")["hash"]
    stage.api(f"/v1/runs/{run}/decision", {"approve": hash_})


def run_until(stage: Stage, status: str, *steps: dict[str, Any], **plan: Any) -> str:
    """A run of an approved plan, once it stands there; its id."""
    run = stage.submit(*steps, **plan)
    approve(stage, run)
    until(stage, run, status)
    return run


def until(stage: Stage, run: str, status: str) -> Any:
    """The run once it stands where it has to."""
    state: Any = None
    for _ in range(1500):
        state = stage.api(f"/v1/runs/{run}")
        if state["status"] == status:
            return state
        assert state["status"] not in OVER, state
        time.sleep(0.02)
    return pytest.fail(f"the run is {state['status']} and not {status}")


def show(page: Page, address: str) -> None:
    """Another address of the page is shown; what was shown before is gone."""
    change = """wanted => new Promise(done => {
      if (location.hash === wanted) return done();
      addEventListener("hashchange", () => setTimeout(done), { once: true });
      location.hash = wanted;
    })"""
    page.evaluate(change, f"#/{address}")
    settled(page)


def settled(page: Page) -> None:
    """The screen shows what it was loaded for."""
    expect(page.get_by_role("heading").first).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
