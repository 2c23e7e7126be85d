from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plansmith.plan.problem import CODES
from plansmith.text import HAN
from plansmith_cli.commands.help import problem_help
from plansmith_cli.main import load_command, main, parser_of
from plansmith_cli.options import repeated_flags

Capture = pytest.CaptureFixture[str]
PLAN: dict[str, Any] = {
    "goal": "Compare",
    "steps": [
        {"id": "a", "tool": "weather", "inputs": {"city": "Oslo"}},
        {"id": "b", "tool": "weather", "inputs": {"city": "{{a.twin}}"}},
    ],
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], str]:
    def make(name: str, value: Any) -> str:
        path = tmp_path / name
        text = value if isinstance(value, str) else json.dumps(value)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return make


Write = Callable[[str, Any], str]


def test_the_version_is_told(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("plansmith 0.")


def test_a_plan_is_shown_and_converted_and_means_the_same(write: Write, capsys: Capture) -> None:
    path = write("plan.json", PLAN)
    assert main(["show", path]) == 0
    assert 'city = "Oslo"' in capsys.readouterr().out
    assert main(["convert", path, "--to", "yaml"]) == 0
    yaml = write("plan.yaml", capsys.readouterr().out)
    assert main(["show", yaml, "--json"]) == 0
    again = write("again.json", capsys.readouterr().out)
    assert main(["diff", path, again]) == 0
    assert capsys.readouterr().out == "the plans are equal\n"


def test_a_plan_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(PLAN).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["show", "-"]) == 0
    assert "2 steps" in capsys.readouterr().out


def test_a_good_plan_checks_with_0_and_a_bad_one_with_3(write: Write, capsys: Capture) -> None:
    plan = write("plan.json", PLAN)
    tools = write("tools.json", {"weather": {"description": "d", "input_schema": {}}})
    assert main(["check", plan, "--tools", tools]) == 0
    assert capsys.readouterr().out == f"no problems (checked against {tools})\n"
    assert main(["check", plan, "--tools", write("none.json", {})]) == 3
    assert "PS101" in capsys.readouterr().out
    assert main(["check", write("broken.json", "{"), "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["hash"], told["problems"][0]["code"]) == (False, None, "PS002")


def test_a_warning_does_not_fail_a_check(write: Write, capsys: Capture) -> None:
    plan = {"steps": [{"id": "a", "tool": "note.tell", "inputs": {"text": "{{ 1 + 1 }}"}}]}
    assert main(["check", write("p.json", plan)]) == 0
    assert "PS311" in capsys.readouterr().out


def test_check_without_a_list_of_tools_knows_those_of_the_folder(
    write: Write, capsys: Capture
) -> None:
    known = {"id": "a", "tool": "files.read", "inputs": {"path": "a.txt"}}
    assert main(["check", write("p.json", {"goal": "g", "steps": [known]})]) == 0
    assert capsys.readouterr().out == "no problems (checked against the tools of this folder)\n"
    for step, code, ends in (
        (known | {"tool": "files.reed"}, "PS101", 3),
        (known | {"inputs": {"path": "a.txt", "colour": "red"}}, "PS203", 3),
        (known | {"inputs": {}}, "PS202", 3),
        (known | {"toll": "files.read"}, "PS003", 3),
        ({"id": "m", "over": [1], "each": {"id": "e", "tool": "nothing"}}, "PS101", 3),
    ):
        assert main(["check", write("p.json", {"goal": "g", "steps": [step]})]) == ends
        assert code in capsys.readouterr().out
    assert main(["check", write("plan.json", PLAN), "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["checked_against"]) == (False, "the tools of this folder")
    assert "--tools FILE" in told["problems"][0]["hint"]


def test_check_says_so_when_the_tools_of_the_folder_cannot_be_known(
    write: Write, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('tools = ["gone.json"]\n', encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    plan = write("plan.json", PLAN)
    assert main(["check", plan]) != 0
    assert "tools were not checked" in capsys.readouterr().out
    assert main(["check", plan, "--json"]) != 0
    assert "give --tools FILE" in json.loads(capsys.readouterr().out)["not_checked"]


def test_check_says_that_the_tools_of_a_strange_folder_were_not_looked_at(
    write: Write, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plansmith.toml").write_text('tools = ["mine.py"]\n', encoding="utf-8")
    assert main(["check", write("plan.json", PLAN)]) != 0
    assert "plansmith trust" in capsys.readouterr().err


def test_a_diff_is_told_and_whether_it_matters(write: Write, capsys: Capture) -> None:
    titled = {**PLAN, "steps": [PLAN["steps"][0] | {"title": "T"}, PLAN["steps"][1]]}
    before, after = write("a.json", PLAN), write("b.json", titled)
    assert main(["diff", before, after]) == 0
    assert capsys.readouterr().out == '~ a title: + "T"\nboth would run the same\n'
    assert main(["diff", before, after, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"][0]["id"] == "a"


def test_the_schema_is_printed(capsys: Capture) -> None:
    assert main(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Plansmith plan"


@pytest.mark.parametrize("typed", ["PS406", "ps406", "406"])
def test_a_code_is_explained_with_what_to_do_and_an_example(typed: str, capsys: Capture) -> None:
    assert main(["help", typed]) == 0
    told = capsys.readouterr().out
    assert "put an ask step before it" in " ".join(told.split())
    assert "    - {id: a, agent: researcher, task: find out}" in told


def test_every_code_is_explained_as_the_page_of_problem_codes_does() -> None:
    page = Path(__file__).parents[5].joinpath("docs", "problems.md").read_text(encoding="utf-8")
    prose = " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", page).split())
    assert problem_help().keys() == CODES.keys()
    for code, text in problem_help().items():
        before, _, after = text["en"].partition(": Such a plan is never")  # around its example
        assert before in prose, code
        assert after in prose, code
        assert text["example"] in page, code
        assert HAN.search(text["zh"])
        assert HAN.search(text["zh_meaning"]), code


# Commands that a hint may name, with the flags of the command that gave the hint.
NAMED = (
    *("answer", "approve", "ask", "convert", "go", "reject", "report", "runs", "show", "threads"),
    *(f"runs {verb}" for verb in ("cancel", "change", "edit", "pause", "replay", "retry", "skip")),
    *("runs undo", "runs watch", "store repair"),
)


@pytest.mark.parametrize("name", NAMED)
def test_a_hint_repeats_the_flags_that_its_command_has(name: str) -> None:
    given = {"store": "s", "tools": ["t"], "model": "m", "base_url": "b", "docs": ["d"]}
    repeated = repeated_flags(argparse.Namespace(**given, profile="p"), name.split())
    known = parser_of(name, load_command(name)).format_help()
    flags = {each for each in repeated if each.startswith("--")}
    shared = {f"--{each.replace('_', '-')}" for each in (*given, "profile")}
    assert flags == {flag for flag in shared if f" {flag} " in known}


def test_a_reader_that_leaves_early_is_no_error(write: Write) -> None:
    steps = [{"id": f"s{number}", "tool": "t"} for number in range(5_000)]
    path = write("big.json", {"steps": steps})
    command = f"{sys.executable} -m plansmith_cli show {path} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Plan:")
    assert done.stderr == ""


def test_prompts_are_listed_shown_and_exported_to_be_changed(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["config", "prompts", "list", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert main(["config", "prompts", "export", "mine"]) == 0
    assert sorted(path.stem for path in (tmp_path / "mine").iterdir()) == names
    assert main(["config", "prompts", "export", "mine"]) == 2
    (tmp_path / "mine" / "draft.md").write_text("mine alone\n", encoding="utf-8")
    (tmp_path / "plansmith.toml").write_text('[planner]\nprompts = "mine"\n', encoding="utf-8")
    capsys.readouterr()
    assert main(["trust", "--json"]) == 5
    assert main(["trust", "--yes", json.loads(capsys.readouterr().out)["hash"]]) == 0
    assert main(["config", "prompts", "show", "draft"]) == 0
    assert capsys.readouterr().out == "mine alone\n"
    assert main(["config", "prompts", "list"]) == 0
    assert re.search(r"^draft +yours$", capsys.readouterr().out, re.MULTILINE)
    assert main(["config", "prompts", "show", "nope"]) == 2


def test_a_failure_that_names_hostile_text_does_not_steer_the_terminal(
    write: Write, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [{"id": "a", "tool": "no\x1b[31m\u202esuch"}]
    plan = write("plan.json", {"goal": "g", "steps": steps})
    assert main(["run", plan, "--store", "memory", "--no-input"]) != 0
    told = capsys.readouterr().err
    assert "no\\u001b[31m\\u202esuch" in told
    assert "\x1b" not in told
