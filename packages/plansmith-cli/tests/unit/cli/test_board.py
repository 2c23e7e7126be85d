from __future__ import annotations

import io
import sys
import unicodedata
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plansmith import Plan, Run, RunStatus, StepStatus
from plansmith.errors import Misconfigured
from plansmith.plan import events as e
from plansmith.plan.run import Steps, StepState
from plansmith_cli.ui.output import error_text, status_word
from plansmith_cli.ui.progress import ICONS, Lines, elapsed, header, rows
from plansmith_cli.ui.terminal import folded, text_width

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW = START + timedelta(seconds=41)


def run(*statuses: StepStatus, **fields: Any) -> Run:
    steps = [{"id": f"s{number}", "tool": "look"} for number in range(len(statuses))]
    states = {
        f"s{number}": StepState(status=status, started_at=START)
        for number, status in enumerate(statuses)
    }
    plan = Plan.model_validate({"goal": "g", "steps": steps})
    found = Run(id="r", plan=plan, phase=RunStatus.RUNNING, steps=Steps(states), started_at=START)
    return found.replace(**fields)


def test_the_header_says_how_far_a_run_is() -> None:
    statuses = [StepStatus.DONE] * 3 + [StepStatus.RUNNING] * 2 + [StepStatus.WAITING] * 4
    asked = {"q": e.QuestionAsked(question="q", text="?", kind="step")}
    example = run(*statuses, questions=asked, money=Decimal("0.012"))
    line = header(example, now=NOW, locale="en")
    assert line == "3/9 · 2 running · 1 waiting for you · $0.012 · 00:41"
    assert header(example, now=NOW, locale="zh") == "3/9 · 2 个运行中 · 1 个等你 · $0.012 · 00:41"


def test_without_a_price_tokens_are_told_and_the_clock_of_a_run_that_is_over_stands() -> None:
    over = run(StepStatus.DONE, phase=RunStatus.DONE, tokens=1234, updated_at=NOW)
    later = NOW + timedelta(hours=9)
    assert header(over, now=later, locale="en") == "1/1 · done · 1,234 tokens · 00:41"
    assert elapsed(timedelta(seconds=3725)) == "1:02:05"
    assert elapsed(timedelta(seconds=-1)) == "00:00"


@pytest.mark.parametrize("status", StepStatus)
def test_every_status_has_icon_text_and_row(status: StepStatus) -> None:
    [row] = rows(run(status), now=NOW, locale="en")
    assert row.text.startswith(f"{ICONS[status]} s0  {status_word(status, 'en')}")
    assert len({*ICONS.values()}) == len(StepStatus)


@settings(max_examples=30)
@given(st.text(max_size=80))
def test_no_text_of_a_tool_steers_the_terminal(text: str) -> None:
    step = {"id": "s", "tool": "look", "title": "t\x1b[2Jt\u202e"}
    plan = Plan.model_validate({"goal": "g", "steps": [step]})
    failed = StepState(status=StepStatus.FAILED, error=f"\x1b]0;x\x07{text}", progress=text)
    failing = Run(id="r", plan=plan, phase=RunStatus.RUNNING, steps=Steps({"s": failed}))
    [row] = rows(failing, now=NOW, locale="en")
    stream = io.StringIO()
    body = e.StepFailed(step="s", error=f"\x1b]0;x\x07{text}")
    actor = e.Actor(kind="system")
    Lines("en", stream).show(failing, e.next_event(body, run="r", at=NOW, by=actor))
    for shown_text in (row.text, stream.getvalue().removesuffix("\n")):
        kinds = {unicodedata.category(letter) for letter in shown_text}
        assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


# Words


@pytest.mark.parametrize("status", sorted({each.value for each in (*RunStatus, *StepStatus)}))
def test_every_status_has_a_word_in_both(status: str) -> None:
    words = {status_word(status, "en"), status_word(status, "zh")}
    assert len(words) == 2
    assert not any(word.startswith("status.") for word in words)


@pytest.mark.parametrize(
    "text",
    [
        "the process ended in the middle of it",
        "read a.txt  and   then " + "x" * 50,
        "进程在执行过程中结束了，请检查（见下文）。",
        " " * 60,
        "",
    ],
)
@pytest.mark.parametrize("width", [8, 20, 200])
def test_a_folded_text_fits_loses_nothing_and_breaks_between_words(text: str, width: int) -> None:
    lines = [*folded(text, width)]
    assert "".join(lines) == text
    assert all(text_width(line.rstrip()) <= width for line in lines)
    if "process" in text and width >= len("process"):
        assert all(word in text.split() for line in lines for word in line.split())


def test_a_hint_to_install_an_extra_names_this_environment_and_no_package_index() -> None:
    hint = "pip install packages/* 'plansmith[postgres]'"
    text = error_text(Misconfigured("a store on PostgreSQL needs psycopg", hint=hint), "en")
    assert f"{sys.executable} -m pip install 'dbos" in text
    assert "plansmith[" not in text
