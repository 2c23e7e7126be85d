"""`plansmith convert --to python`: a plan file or a run as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.cli.conftest import Cli, Write

LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}


def started(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


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
    assert ends["results"]["a"] == {"name": "x"}
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
    assert json.loads(started(elsewhere).stdout)["results"]["b"] == {"name": "x"}
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
