"""What is left on the screen: the answer last, told once and rendered, as wide as the window."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.e2e.terminal import Person, Terminal

from plansmith.plan.data import Json
from plansmith.testing import ModelServer, Reply
from plansmith.testing.modelserver import Request
from plansmith.text import text_width

SALES = "region,amount\nNorth,120.5\nSouth,80\nNorth,200.25\nWest,60\n"
ASKED = "What is the total amount by region in sales.csv?"
PLAN: Json = {
    "goal": ASKED,
    "steps": [
        {
            "id": "totals",
            "tool": "tables.sql",
            "inputs": {"query": "SELECT region, SUM(amount) AS total FROM sales GROUP BY region"},
        },
        {"id": "answer", "instruction": "Tell the totals {{totals.rows}}"},
    ],
}
SAID = "**Totals** by region [step:totals]:\n\n| region | total |\n|---|---|\n| North | 320.75 |\n"
TRIAGE: Json = {"decision": "plan", "reason": "", "query": ASKED, "answer": ""}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "sales.csv").write_text(SALES, encoding="utf-8")
    return Person(tmp_path)


def answering(request: Request) -> Reply:
    told = json.dumps(request.json)
    if '"decision"' in told:
        return Reply(TRIAGE)
    return Reply(SAID) if "what to say" in told else Reply(PLAN)


def asked(person: Person, *words: str, url: str, **more: str) -> Terminal:
    model = {"PLANSMITH_MODEL": "openai:test", "PLANSMITH_BASE_URL": url, "OPENAI_API_KEY": "k"}
    return person.types("ask", ASKED, *words, columns=80, environment=model | more)


def test_the_answer_is_last_rendered_and_told_once(person: Person) -> None:
    with (
        ModelServer(then=answering).in_thread() as url,
        asked(person, "--yes-read-only", url=url) as terminal,
    ):
        assert terminal.ended() == 0
        lines = [line for line in terminal.screen.text.splitlines() if line.strip()]
    shown = "\n".join(lines)
    assert lines[-1].split() == ["North", "320.75"]  # nothing comes after it
    assert shown.count("320.75") == 1
    assert "Totals by region:" in shown
    for mark in ("**", "|---", "[step:", "what to say"):
        assert mark not in shown
    assert all(text_width(line) <= 80 for line in lines)


def test_a_report_shows_results_as_tables_and_whole_only_on_demand(person: Person) -> None:
    with (
        ModelServer(then=answering).in_thread() as url,
        asked(person, "--yes-read-only", "-q", url=url) as terminal,
    ):
        assert terminal.ended() == 0
        assert "Totals by region:" in terminal.screen.text
        assert "✓" not in terminal.screen.text
    for language in ("C.UTF-8", "zh_CN.UTF-8"):
        environment = {"LANG": language}
        with person.types("report", "last", columns=80, environment=environment) as terminal:
            assert terminal.ended() == 0
            shown = terminal.screen.text
        assert '"total"' not in shown
        assert "## " not in shown
    with person.types("report", "last", "--evidence", columns=80) as terminal:
        assert terminal.ended() == 0
        assert '"total": 320.75' in terminal.screen.text


def test_a_line_moves_while_the_model_thinks_and_ctrl_c_ends_it(person: Person) -> None:
    thinks = threading.Event()

    def answer(request: Request) -> Reply:
        if '"decision"' in json.dumps(request.json):
            return Reply(TRIAGE)
        thinks.set()
        return Reply(PLAN, ends="silent")

    with ModelServer(then=answer).in_thread() as url, asked(person, url=url) as terminal:
        terminal.until("draft:")
        assert thinks.wait(60)
        seen = len(terminal.raw)
        while terminal.raw.count("\r", seen) < 3:  # it is drawn again and again
            terminal.read()
        terminal.ctrl_c()
        assert terminal.ended() == 130
        shown = terminal.screen.text
    assert "draft:" not in shown  # the moving line is gone
    assert "plansmith go last" in shown
