from __future__ import annotations

import sys

import pytest

from plansmith.errors import Misconfigured
from plansmith.plan.run import RunStatus, StepStatus
from plansmith.text import text_width
from plansmith_cli.ui.output import error_text, status_word
from plansmith_cli.ui.terminal import folded


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
    told = error_text(Misconfigured("a store on PostgreSQL needs psycopg", hint=hint), "en")
    assert f"{sys.executable} -m pip install 'dbos" in told
    assert "plansmith[" not in told
