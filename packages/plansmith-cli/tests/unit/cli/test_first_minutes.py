"""The first five minutes: no model is set up, and what is found, offered, told and done then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.adapters.models.little_servers import OLLAMA, serving
from tests.unit.cli.conftest import Cli

from plansmith_desk.model.files import DEFAULT

ASKED = ("ask", "Which files here mention invoices?")
READ_ONLY = ("--yes-read-only", "--no-input")


@pytest.fixture(autouse=True)
def letters(intake: Path) -> None:
    (intake / "may.txt").write_text("Two invoices\n", encoding="utf-8")
    (intake / "june.txt").write_text("Nothing to pay\n", encoding="utf-8")


def test_with_nothing_at_all_rules_plan_and_the_run_is_printed_with_its_report(cli: Cli) -> None:
    code, out, err = cli(*ASKED, *READ_ONLY, "--yes", "--json")
    run: dict[str, Any] = json.loads(out)
    assert (code, run["status"]) == (0, "done")
    assert "may.txt" in run["report"]
    assert "june.txt" not in run["report"]
    assert run["plan"]["degraded"].startswith("made by rules, without a language model")
    assert err.count("no language model was found") == 1
    assert "plansmith model pull" in err


def test_who_made_the_plan_is_told_where_it_is_decided_on_and_not_again(cli: Cli) -> None:
    _, out, err = cli(*ASKED, *READ_ONLY)
    [told] = [line for line in f"{err}\n{out}".splitlines() if "rules" in line]
    assert "so simple rules make the plan. To get a model: `plansmith model pull`" in told
    assert "tokens" not in err  # rules need none, and none are estimated
    _, out, err = cli(*ASKED, "--no-input", "--model", "rules")
    [told] = [line for line in f"{err}\n{out}".splitlines() if " rules " in line]
    assert told.startswith("  ! Simple rules made this plan, not a language model: check")


def doctor(cli: Cli, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code, out, _ = cli("store", "doctor", "--json", *words)
    found = [each for each in json.loads(out) if each["subject"].startswith("model")]
    return code, {each["subject"]: (each["level"], each["message"]) for each in found}


def test_the_doctor_says_what_was_chosen_tried_and_why_not(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = doctor(cli)
    assert code == 0
    assert found["model"] == ("warning", "no language model was found: plans are made by rules")
    assert found["model key"][1] == "the environment: has no API key"
    assert DEFAULT in found["model embedded"][1]
    with serving("/api/tags", says=OLLAMA) as url:
        monkeypatch.setenv("OLLAMA_HOST", url)
        _, found = doctor(cli)
        assert found["model"][0] == "ok"
        assert found["model"][1].startswith(f"openai:qwen3:8b at {url}/v1 (Ollama runs here")
        monkeypatch.setenv("DEEPSEEK_API_KEY", "k")
        _, found = doctor(cli)
        assert found["model"][1].startswith("deepseek:deepseek-chat (DEEPSEEK_API_KEY is set")
        monkeypatch.delenv("DEEPSEEK_API_KEY")
    _, found = doctor(cli)
    assert "no server there" in found["model server"][1]
