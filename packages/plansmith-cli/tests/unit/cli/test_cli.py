from __future__ import annotations

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
from plansmith_cli.main import main

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


def test_a_diff_is_told_and_whether_it_matters(write: Write, capsys: Capture) -> None:
    titled = {**PLAN, "steps": [PLAN["steps"][0] | {"title": "T"}, PLAN["steps"][1]]}
    before, after = write("a.json", PLAN), write("b.json", titled)
    assert main(["diff", before, after]) == 0
    assert capsys.readouterr().out == '~ a title: + "T"\nboth would run the same\n'
    assert main(["diff", before, after, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"][0]["id"] == "a"


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


def test_check_says_that_the_tools_of_a_strange_folder_were_not_looked_at(
    write: Write, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plansmith.toml").write_text('tools = ["mine.py"]\n', encoding="utf-8")
    assert main(["check", write("plan.json", PLAN)]) != 0
    assert "plansmith trust" in capsys.readouterr().err
