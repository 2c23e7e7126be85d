"""`plansmith convert --to python`: a plan file or a run as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.commands import Cli

LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}
NASTY = 'a"b\'c\\ """ \'\'\' {x} %s \n#!\u202e\u2028 {{"{{"}} 查天气 🜁'
PAY = '''
from pathlib import Path

from plansmith import tool


@tool
def pay(amount: int, key: str = "") -> str:
    """Pays."""
    Path("paid.txt").write_text(f"{amount} {key}")
    return f"paid with {key}"
'''


def started(
    folder: Path, *options: str, typed: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "program.py", *options]
    return forked.run(
        command,
        cwd=folder,
        input=typed,
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plan_file_is_exported_as_a_program_that_runs(cli: Cli) -> None:
    files = {"id": "f", "tool": "files.list", "inputs": {"folder": "."}}
    step = {"id": "s", "say": f"{NASTY} {{{{a.name}}}}"}
    name = cli.write(LOOK, files, step, {"id": "t", "tool": "mail.send"})
    unknown = "fill in OtherTools: the code of mail.send is not known"
    out = cli(f"convert {name} --to python --tools tools.py", code=0, err=unknown).out
    (cli.folder / "program.py").write_text(out, encoding="utf-8")
    assert "pip install plansmith plansmith-cli plansmith-desk\n" in out
    result = json.loads(started(cli.folder, "--yes").stdout)
    assert result["results"]["a"] == {"name": "x"}
    assert result["results"]["s"].endswith("{{ 查天气 🜁 x")
    assert "program.py" in json.dumps(result["results"]["f"])
    assert result["failed"] == {"t": "mail.send is to be filled in"}


def test_a_program_finds_its_tools_beside_it_or_says_that_they_are_missing(
    cli: Cli, tmp_path: Path
) -> None:
    other = LOOK | {"id": "b", "after": ["a"]}
    out = cli(f"convert {cli.write(LOOK, other)} --to python --tools tools.py", code=0).out
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "program.py").write_text(out, encoding="utf-8")
    assert started(elsewhere).returncode == 0  # the tools are still where they were
    (cli.folder / "tools.py").rename(elsewhere / "tools.py")
    assert json.loads(started(elsewhere).stdout)["results"]["b"] == {"name": "x"}
    (elsewhere / "tools.py").unlink()
    done = started(elsewhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("there is no file tools.py beside this program or in ")
    assert len(done.stderr.splitlines()) == 1


def test_the_plan_of_a_run_is_exported_with_its_templates(cli: Cli) -> None:
    cli("run", cli.write(LOOK), "--tools", "tools.py", "--yes-read-only", code=0)
    assert cli("templates save last looking --tools tools.py")[0] == 0
    use = cli.write({"id": "u", "template": "looking"}, name="use.json")
    assert cli("run", use, "--tools", "tools.py", "--yes-read-only")[0] == 0
    for plan in ("last", use):
        out = cli("convert", plan, "--to", "python", "--tools", "tools.py", code=0).out
        (cli.folder / "program.py").write_text(out, encoding="utf-8")
        assert json.loads(started(cli.folder).stdout)["results"] == {"u": {"a": {"name": "x"}}}


@pytest.mark.parametrize("agrees", [False, True])
def test_a_program_asks_before_it_changes_something_and_keeps_its_secrets(
    cli: Cli, *, agrees: bool
) -> None:
    (cli.folder / "pay.py").write_text(PAY, encoding="utf-8")
    asks = {"id": "q", "question": "How much?", "answer_schema": {"type": "integer"}}
    inputs = {"amount": "{{q}}", "key": "${secret:bank}"}
    name = cli.write(asks, {"id": "p", "tool": "pay", "inputs": inputs})
    out = cli(f"convert {name} --to python --tools pay.py", code=0).out
    assert "hunter22" not in out
    (cli.folder / "program.py").write_text(out, encoding="utf-8")
    typed = "y\nmany\n5\n" if agrees else "n\n"
    done = started(cli.folder, typed=typed, BANK="hunter22")
    assert "Run this plan?" in done.stderr
    result = json.loads(done.stdout)
    assert (cli.folder / "paid.txt").exists() is agrees
    assert "hunter22" not in done.stdout + done.stderr
    if agrees:  # the answer that does not fit was asked for again
        assert (cli.folder / "paid.txt").read_text(encoding="utf-8") == "5 hunter22"
        assert (done.returncode, result["status"]) == (0, "done")
    else:
        assert (done.returncode, result["status"]) == (1, "cancelled")
