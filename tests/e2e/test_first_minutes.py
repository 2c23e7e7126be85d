"""The first command of somebody new, on a real terminal: offered, planned, approved, run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.terminal import PLANSMITH, Person, Terminal

ASK = (*PLANSMITH, "ask", "Which files here mention invoices?")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A machine without a key, a model or a way to the network."""
    (tmp_path / "may.txt").write_text("Two invoices\n", encoding="utf-8")
    nothing_listens = {"OLLAMA_HOST": "127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    usual = Person(tmp_path).environment | nothing_listens | {"PIP_NO_INDEX": "1"}
    return {name: value for name, value in usual.items() if name != "PLANSMITH_MODEL"}


def test_the_model_is_offered_once_and_without_it_a_person_approves_the_plan(
    tmp_path: Path, home: dict[str, str]
) -> None:
    started = Terminal(ASK, folder=tmp_path, environment=home, columns=300, is_forked=False)
    with started as terminal:
        screen = terminal.until("Fetch it now? [Y/n]")
        assert "491.4 MB, licence Apache-2.0" in screen.replace("\n", " ")
        assert "huggingface.co" in screen
        terminal.type("n\n")
        screen = terminal.until("Run this plan?")
        assert "files.search" in screen
        assert "Simple rules made this plan, not a language model" in screen
        terminal.type("y\n")
        assert terminal.ended() == 0
        assert "may.txt" in terminal.screen.text
    with Terminal(ASK, folder=tmp_path, environment=home, columns=300) as terminal:
        screen = terminal.until("Run this plan?")
        assert "Fetch it now?" not in screen
        terminal.type("\n")
        assert terminal.ended() == 5


def test_a_fetch_that_fails_is_told_and_the_request_is_not_lost(
    tmp_path: Path, home: dict[str, str]
) -> None:
    with Terminal(ASK, folder=tmp_path, environment=home, columns=300) as terminal:
        terminal.until("Fetch it now? [Y/n]")
        terminal.type("\n")
        screen = terminal.until("Run this plan?")
        assert "could not be downloaded" in screen
        assert "so simple rules make the plan" in screen.replace("\n", " ")
        terminal.type("n\n")
        assert terminal.ended() == 4
