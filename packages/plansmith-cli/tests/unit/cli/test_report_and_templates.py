"""Reports and templates from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import forked
from tests.unit.cli.conftest import Cli, Write

PY = ("--tools", "tools.py")
LOOK = {"id": "a", "tool": "look", "inputs": {"name": "Oslo"}}
REPLY = {"id": "r", "instruction": "Seen: {{a.name}}"}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}


def done(cli: Cli, write: Write, *steps: Any) -> None:
    cli("run", write(*(steps or (LOOK, REPLY))), *PY)


def test_a_report_is_printed_in_each_form(cli: Cli, write: Write, intake: Path) -> None:
    done(cli, write)
    code, text, _ = cli("report", "last")
    assert (code, "## Evidence" in text) == (0, True)
    assert "- Oslo" in text
    assert '"name": "Oslo"' not in text
    assert '"name": "Oslo"' in cli("report", "last", "--evidence")[1]
    code, out, _ = cli("report", "last", "--json")
    assert json.loads(out)["answer"]["sources"] == ["a"]
    assert json.loads(cli("report", "last", "--format", "json")[1]) == json.loads(out)
    code, page, _ = cli("report", "last", "--format", "html")
    assert page.startswith("<!doctype html>")
    code, out, _ = cli("report", "last", "--format", "html", "-o", "page.html")
    assert (code, out) == (0, "")
    assert (intake / "page.html").read_text(encoding="utf-8") == page


def test_a_run_is_saved_shown_listed_and_used_again(cli: Cli, write: Write) -> None:
    done(cli, write)
    code, out, _ = cli("templates", "save", "last", "--list")
    assert (code, out) == (0, 'a.inputs.name = "Oslo"\n')
    assert json.loads(cli("templates", "save", "last", "--list", "--json")[1]) == [
        {"place": "a.inputs.name", "value": "Oslo"}
    ]
    code, _, err = cli("templates", "save", "last", "city", "--param", "name=a.inputs.name", *PY)
    assert (code, err) == (0, "saved city@1\n")
    code, out, _ = cli("templates", "list")
    assert (code, "city@1" in out, "(name)" in out) == (0, True, True)
    assert json.loads(cli("templates", "list", "--json")[1])[0]["version"] == 1
    code, out, _ = cli("templates", "show", "city")
    assert 'name: "string" = "Oslo"' in out
    code, out, _ = cli("templates", "use", "city", "--set", "name=Rome", *PY, "--json")
    told = json.loads(out)
    assert (code, told["steps"]["a"]["result"]) == (0, {"name": "Rome"})


def test_a_template_goes_out_and_in_as_a_file_and_is_removed(
    cli: Cli, write: Write, intake: Path
) -> None:
    done(cli, write)
    cli("templates", "save", "last", "city", "--param", "name=a.inputs.name", *PY)
    assert json.loads(cli("templates", "export", "city")[1])["name"] == "city"
    assert cli("templates", "export", "city", "--yaml", "-o", "city.yaml")[0] == 0
    assert "name: city" in (intake / "city.yaml").read_text(encoding="utf-8")
    code, out, _ = cli("templates", "import", "city.yaml", "--name", "town", "--json", *PY)
    assert (code, json.loads(out)["name"]) == (0, "town")
    code, out, _ = cli("templates", "remove", "city", "--json")
    assert (code, json.loads(out)) == (0, {"removed": 1})
    assert cli("templates", "remove", "city")[0] == 2
    assert "city" not in cli("templates", "list")[1]
    (intake / "bad.json").write_text("{", encoding="utf-8")
    assert cli("templates", "import", "bad.json", *PY)[0] == 3
    assert cli("templates", "import", "nothing.json", *PY)[0] == 2


def test_a_run_is_played_back_and_is_the_same(cli: Cli, write: Write) -> None:
    done(cli, write)
    code, out, _ = cli("runs", "replay", "last", *PY)
    assert (code, "the same again" in out) == (0, True)
    code, out, _ = cli("runs", "replay", "last", "--json", *PY)
    assert (code, json.loads(out)["identical"]) == (0, True)
    assert cli("runs", "replay", "abcdef")[0] == 2


def test_a_replay_with_other_tools_shows_where_it_differs(cli: Cli, write: Write) -> None:
    done(cli, write, NOTE)
    cli("go", "last", *PY)
    code, out, _ = cli("runs", "replay", "last")
    assert code == 1
    assert "what is different today" in out
    assert "there is no tool called 'note'" in out
    code, out, _ = cli("runs", "replay", "last", "--json")
    assert (code, json.loads(out)["identical"]) == (1, False)


# `plansmith convert --to python`: a plan file or a run as a program


def started(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "program.py"]
    return forked.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_plan_file_is_exported_as_a_program_that_runs(
    cli: Cli, write: Write, intake: Path
) -> None:
    files = {"id": "f", "tool": "files.list", "inputs": {"folder": "."}}
    name = write(LOOK, files, {"id": "t", "tool": "mail.send"})
    code, out, told = cli("convert", name, "--to", "python", "--tools", "tools.py")
    assert code == 0
    assert "fill in tool_mail_send" in told
    assert "files.list is a tool of plansmith" in told
    (intake / "program.py").write_text(out, encoding="utf-8")
    assert "pip install pydantic, and plansmith for: files.list, @tool in tools.py\n" in out
    ends = json.loads(started(intake).stdout)
    assert ends["results"]["a"] == {"name": "Oslo"}
    assert "program.py" in json.dumps(ends["results"]["f"])
    assert list(ends["failed"]) == ["t"]


def test_a_program_finds_its_tools_beside_it_or_says_that_they_are_missing(
    cli: Cli, write: Write, intake: Path, tmp_path: Path
) -> None:
    other = LOOK | {"id": "b", "after": ["a"]}
    code, out, _ = cli("convert", write(LOOK, other), "--to", "python", "--tools", "tools.py")
    assert code == 0
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "program.py").write_text(out, encoding="utf-8")
    assert started(elsewhere).returncode == 0  # the tools are still where they were
    (intake / "tools.py").rename(elsewhere / "tools.py")
    assert json.loads(started(elsewhere).stdout)["results"]["b"] == {"name": "Oslo"}
    (elsewhere / "tools.py").unlink()
    done = started(elsewhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("there is no file tools.py beside this program or in ")
    assert len(done.stderr.splitlines()) == 1


def test_the_plan_of_a_run_is_exported_with_its_templates(cli: Cli, write: Write) -> None:
    code, _, _ = cli("run", write(LOOK), "--tools", "tools.py", "--yes-read-only")
    assert code == 0
    assert cli("templates", "save", "last", "looking", "--tools", "tools.py")[0] == 0
    use = write({"id": "u", "template": "looking"}, name="use.json")
    assert cli("run", use, "--tools", "tools.py", "--yes-read-only")[0] == 0
    for plan in ("last", use):
        code, out, _ = cli("convert", plan, "--to", "python", "--tools", "tools.py")
        assert (code, "PLANS['looking@1']" in out) == (0, True)
