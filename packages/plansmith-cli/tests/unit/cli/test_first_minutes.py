"""The first five minutes: no model is set up, and what is found, offered, told and done then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.adapters.models.little_servers import OLLAMA, serving
from tests.unit.cli.conftest import Cli

from plansmith_desk.model import download as pull
from plansmith_desk.model.download import FetchFailed
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


def test_a_fetch_that_is_agreed_and_fails_leaves_the_rules(
    cli: Cli, intake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLANSMITH_OFFLINE")
    monkeypatch.setattr(pull, "_FETCHERS", {"publisher": nowhere})
    code, out, err = cli(*ASKED, *READ_ONLY, "--yes")
    assert code == 0
    assert "may.txt" in out
    assert f"{DEFAULT} (plans in English and Chinese" in err
    assert "491 MB, licence Apache-2.0" in err
    assert "the cable is out" in err
    assert err.count("no language model was found, so simple rules make the plan") == 1


def nowhere(*_: object) -> None:
    raise FetchFailed("the cable is out")


def test_a_model_that_is_named_is_not_looked_for(cli: Cli) -> None:
    code, _, err = cli(*ASKED, "--model", "rules", *READ_ONLY)
    assert code == 0
    assert "no language model was found" not in err
    code, _, err = cli(*ASKED, "--model", "nonsense")
    assert (code, "auto, local, rules" in err) == (2, True)


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


@pytest.mark.parametrize(
    ("settings", "level", "message"),
    [
        ({"model": "openai:gpt-5"}, "ok", "openai:gpt-5 (it is set)"),
        ({"model": "openai:gpt-5", "api_key_env": "NONE_SUCH"}, "error", "variable NONE_SUCH"),
        ({"model": "local"}, "error", "is not on this machine"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "error", "no server there"),
    ],
)
def test_the_doctor_looks_whether_a_model_that_is_set_can_be_had(
    cli: Cli, intake: Path, settings: dict[str, str], level: str, message: str
) -> None:
    rows = "\n".join(f'{name} = "{value}"' for name, value in settings.items())
    own = intake.parent / ".config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(f"[models.plan]\n{rows}\n", encoding="utf-8")
    code, found = doctor(cli)
    assert found["model"][0] == level
    assert message in found["model"][1]
    assert code == (1 if level == "error" else 0)


def test_rules_do_not_schedule_a_part_of_what_was_asked(cli: Cli) -> None:
    code, out, err = cli(
        "ask", "Every day at 9:00 list the files and email them to ann@example.com", *READ_ONLY
    )
    assert code == 3
    assert "the request fits no tool here" in out + err
