"""Finding one's way on the command line: help, wrong names, completion, settings, stdin, runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Cli

from plansmith import plugins
from plansmith_cli.command_table import COMMANDS, DAILY, MORE


def test_every_command_is_listed_once_under_its_subject() -> None:
    listed = [*DAILY, *(name for names in MORE.values() for name in names)]
    assert sorted(listed) == sorted(name for name in COMMANDS if " " not in name)
    assert len(listed) <= 30


def test_help_tells_the_commands_of_every_day_first_and_all_on_demand(cli: Cli) -> None:
    short, whole = cli("--help")[1], cli("help", "all")[1]
    assert short.index("  ask ") < short.index("more (plansmith help all")
    assert COMMANDS["store vacuum"].summary not in short
    assert all(entry.summary in whole for entry in COMMANDS.values())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((("aks",), "ask"), (("aprove",), "approve"), (("runs", "puase"), "runs pause")),
        *((("doctor",), "store doctor"), (("stoer", "x"), "store")),
    ],
)
def test_a_mistyped_command_is_told_the_one_that_was_meant(
    cli: Cli, typed: tuple[str, ...], meant: str
) -> None:
    told = cli(*typed)
    assert told[0] == 2
    assert f"did you mean plansmith {meant}?" in told[2]


def test_an_installed_package_adds_a_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site"
    (package / "greet-1.dist-info").mkdir(parents=True)
    entry = "[plansmith.commands]\ngreet = greeting:COMMAND\n"
    (package / "greet-1.dist-info" / "entry_points.txt").write_text(entry, encoding="utf-8")
    (package / "greeting.py").write_text(GREETING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(package))
    plugins._found.cache_clear()
    try:
        assert cli("greet", "Ada")[1] == "Hello Ada\n"
        assert "say hello" in cli("help", "all")[1]
        assert "greet" not in cli("--help")[1]
        assert cli("greet")[0] == 2
    finally:
        plugins._found.cache_clear()


GREETING = """
from plansmith_cli.command_table import Command


def configure(parser):
    parser.add_argument("name")


def main(args):
    print("Hello", args.name)
    return 0


COMMAND = Command(configure, main, "say hello")
"""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_shell_completes_commands_and_their_options(cli: Cli, shell: str) -> None:
    script = cli("completion", shell)[1]
    program = f"""
complete() {{ :; }}; autoload() {{ :; }}; bashcompinit() {{ :; }}
{script}
COMP_WORDS=(plansmith appr); COMP_CWORD=1; _plansmith; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(plansmith approve --js); COMP_CWORD=2; _plansmith; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(plansmith store do); COMP_CWORD=2; _plansmith; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(plansmith store doctor --sa); COMP_CWORD=3; _plansmith; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:4] == ["approve", "--json", "doctor", "--sample"]


def test_config_shows_what_is_set_and_by_whom_but_no_secret(
    cli: Cli, intake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANSMITH_STORE", "postgresql://ada:hidden@127.0.0.1/plans")
    shown = cli("config")[1]
    assert "store" in shown
    assert "(environment)" in shown
    assert "hidden" not in shown
    rows = json.loads(cli("config", "run", "--json")[1])
    assert {each["name"].partition(".")[0] for each in rows} == {"run"}
    wrong = cli("config", "no.such")
    assert wrong[0] != 0
    assert "there is no setting 'no.such'" in wrong[2]


BUSY = """
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from plansmith_cli import main as command_line

ThreadPoolExecutor().submit(Event().wait)  # as the embedded model while it reads


def interrupted() -> int:
    print("detached")
    return 130


command_line.main = interrupted
command_line.program()
"""


def test_a_command_that_was_interrupted_ends_though_a_thread_is_busy() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BUSY], capture_output=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (130, b"detached\n")
