from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import Misconfigured
from plansmith_planner.model_calls import prompt_names, prompt_text, render


def test_a_value_is_put_in_once_and_never_read_as_a_prompt() -> None:
    text = render("triage", locale="<<locale>> {{x}} <<evil>>")
    assert "<<locale>> {{x}} <<evil>>" in text


@pytest.mark.parametrize("values", [{}, {"locale": "", "more": ""}])
def test_a_missing_or_unused_value_is_an_error(values: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match="does not fit"):
        render("triage", **values)


def test_a_prompt_of_the_users_own_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "triage.md").write_text("决定 <<locale>>", encoding="utf-8")
    assert render("triage", folder=tmp_path, locale="zh") == "决定 zh"
    assert prompt_text("triage", tmp_path / "elsewhere") == prompt_text("triage")


def test_an_unknown_prompt_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(Misconfigured, match="draft"):
        render("drft")
    assert set(prompt_names()) >= {"draft", "request", "repair", "triage"}
