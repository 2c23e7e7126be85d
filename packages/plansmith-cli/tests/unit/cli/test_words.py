from __future__ import annotations

import sys

import pytest

from plansmith import PlanInvalid, check_plan, read_plan
from plansmith.errors import Misconfigured
from plansmith.plan.run import RunStatus, StepStatus
from plansmith.text import text_width
from plansmith_cli.ui.output import error_text, status_word
from plansmith_cli.ui.terminal import fitted, folded, own_locale

PIP = "pip install packages/* 'plansmith[postgres]'"


@pytest.mark.parametrize("status", sorted({each.value for each in (*RunStatus, *StepStatus)}))
def test_every_status_has_a_word_in_both(status: str) -> None:
    words = {status_word(status, "en"), status_word(status, "zh")}
    assert len(words) == 2
    assert not any(word.startswith("status.") for word in words)


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "de_DE"}, "de-DE"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US"}, "zh-TW"),
    ],
)
def test_the_environment_says_the_language(environment: dict[str, str], locale: str) -> None:
    assert own_locale(environment) == locale


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


def test_a_line_that_is_too_long_goes_on_under_its_beginning_and_commands_stay_whole() -> None:
    assert [*fitted("  it waits for your answer", 16)] == ["  it waits for", "  your answer"]
    assert [*fitted("  它在等你回答", 10)] == ["  它在等你", "  回答"]
    command = "  plansmith approve last 0123456789abcdef --tools tools.py"
    assert [*fitted(command, 16)] == [command]


def test_a_hint_to_install_an_extra_names_this_environment_and_no_package_index() -> None:
    missing = Misconfigured("a store on PostgreSQL needs psycopg", hint=PIP)
    told = error_text(missing, "en")
    assert f"{sys.executable} -m pip install 'dbos" in told
    assert "plansmith[" not in told


def test_an_unknown_tool_may_be_one_of_a_file_that_was_not_named() -> None:
    plan = read_plan({"steps": [{"id": "a", "tool": "rate"}]})
    assert "--tools" in error_text(PlanInvalid(check_plan(plan, {})), "en")
    assert "--tools" not in error_text(PlanInvalid([]), "en")
