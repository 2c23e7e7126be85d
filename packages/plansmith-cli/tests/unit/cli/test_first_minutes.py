"""The first five minutes: what is found, offered and done with no model, and how much is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.commands import Cli
from tests.unit.adapters.models.little_servers import OLLAMA, serving

from plansmith_desk.model.files import DEFAULT
from plansmith_planner.language.characters import HAN

ASKED = ("ask", "Which files here mention invoices?")
READ_ONLY = ("--yes-read-only", "--no-input")


@pytest.fixture(autouse=True)
def letters(desk: Path) -> None:
    (desk / "may.txt").write_text("Two invoices\n", encoding="utf-8")
    (desk / "june.txt").write_text("Nothing to pay\n", encoding="utf-8")


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
    [line] = [line for line in f"{err}\n{out}".splitlines() if "rules" in line]
    assert "so simple rules make the plan. To get a model: `plansmith model pull`" in line
    assert "tokens" not in err  # rules need none, and none are estimated
    _, out, err = cli(*ASKED, "--no-input", "--model", "rules")
    [line] = [line for line in f"{err}\n{out}".splitlines() if " rules " in line]
    assert line.startswith("  ! Simple rules made this plan, not a language model: check")


def doctor(cli: Cli, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code, out, _ = cli("store doctor --json", *words)
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


# The tour: it asks, crashes and resumes for real, and touches nothing of the person's


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def test_the_tour_runs_crashes_and_resumes_in_chinese_and_leaves_nothing_behind(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("plansmith_cli.commands.demo.subprocess.Popen", forked.Popen)
    # Settings, a store and tools of the person's would change the tour: it uses none.
    (cli.folder / "plansmith.toml").write_text('[review]\nask = "always"\n', encoding="utf-8")
    monkeypatch.setenv("PLANSMITH_STORE", "postgresql://nobody@127.0.0.1:9/none")
    before = files(tmp_path)
    code, out, err = cli("demo")
    assert (code, err) == (0, "")
    assert files(tmp_path) == before
    assert "charts.draw" in out  # the plan
    digest = re.search(r"approve last ([0-9a-f]{64}) --go", out)
    assert digest is not None
    assert out.count(digest[1]) > 1  # what is approved is what was shown
    assert "320.75" in out  # the values that consent is about
    crash, resumed = out.index("kill -9"), out.index("3/3")
    assert out.index("✓ mail") < crash < resumed
    assert "✓ mail" not in out[resumed:]
    assert "outbox.txt 里有 1 封邮件" in "".join(out.split("\n"))
    names = re.compile(r"[$`=\"{:/.]|plansmith|│|^\s*(?:totals|chart|mail|receipt|answer)\b")
    alone = [each for each in out.splitlines() if not names.search(each)]
    assert [each for each in alone if each.strip() and not HAN.search(each)] == []
    last = [line.split()[1] for line in out.splitlines() if line.startswith("  plansmith ")]
    assert last == ["ask", "model", "serve"]


LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}
SAYS = {"id": "answer", "say": "It is {{a.name}}"}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}
PY = ("--tools", "tools.py")


def test_quiet_prints_the_answer_alone(cli: Cli) -> None:
    plan = cli.write(LOOK, SAYS)
    assert cli("run", plan, *PY, "-q") == (0, "It is x\n", "")
    told = cli("run", plan, *PY)
    assert (told[:2], bool(told.err)) == ((0, "It is x\n"), True)


def test_quiet_tells_what_is_wrong_with_an_answer_on_stderr(cli: Cli) -> None:
    _, out, err = cli(*ASKED, *READ_ONLY, "-q", "--model", "rules", code=0, out="may.txt")
    assert "made by rules" not in out
    assert "made by rules" in err


def test_quiet_decisions_and_plans_tell_nothing_but_their_outcome(cli: Cli) -> None:
    cli("run", cli.write(NOTE, SAYS | {"say": "noted"}), *PY, "--no-input")
    hash_ = cli("show last --json")[1].split('"hash": "')[1][:64]
    assert cli("approve last", hash_, *PY, "-q") == (0, "", "")
    assert cli("go last", *PY, "-q") == (0, "noted\n", "")
    _, out, err = cli("plan", "What is 2 + 3?", "-q", "--model", "rules", code=0)
    assert out
    assert not err


def test_verbose_tells_stages_the_model_times_and_tokens(cli: Cli) -> None:
    verbose = cli(*ASKED, *READ_ONLY, "-v", "--model", "rules")[2]
    assert "draft: rules" in verbose
    assert "tokens" in verbose
    assert "Time" in verbose or "time" in verbose
    assert "draft: rules" not in cli(*ASKED, *READ_ONLY, "--model", "rules")[2]
