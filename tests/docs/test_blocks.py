"""The blocks of the documentation that are no programs, and what `deploy` offers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.test_docs import BLOCK, PAGES, ROOT, blocks, run
from tests.e2e.terminal import Person
from tests.needs import lacks

from plansmith import read_plan
from plansmith_cli.command_table import COMMANDS
from plansmith_cli.config import _ENVIRONMENT, Settings, read_profile
from plansmith_cli.main import load_command, main, parser_of, split
from plansmith_cli.parser import WrongUsage

# What a test makes sure of, for each kind of block.
KINDS = {
    "python": "runs: test_docs.py",
    "bash": "runs: test_docs.py",
    "py": "a part of a program in lab/bench/compare, which runs there",
    "go": "runs: test_other_languages.py",
    "java": "runs: test_other_languages.py",
    "sh": "runs: test_other_languages.py",
    "console": "every command is known, with its options: here",
    "toml": "settings that are accepted: here",
    "yaml": "plans and profiles that are accepted: here and test_docs.py",
    "json": "JSON: here",
    "sql": "shown only: a statement for a database of the reader's own",
    "text": "shown only: a drawing, or the output of the block above it, which is compared here",
}


def test_every_block_is_of_a_kind_that_a_test_knows() -> None:
    found = {kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert found - KINDS.keys() == set()


def commands() -> Iterator[tuple[str, str]]:
    """Yields what a reader may type: lines of console blocks, and commands within sentences."""
    for place, text in blocks("console"):
        yield from ((place, line[2:]) for line in text.splitlines() if line.startswith("$ "))
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # tells of earlier commands too
            continue
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        found = re.findall(r"`((?:\.\./)?(?:scripts/)?plansmith [a-z-][^`]*)`", text)
        yield from ((page.name, each) for each in found)


def fault(line: str) -> str:
    """Says what is wrong with a command; nothing is run."""
    words = shlex.split(re.sub(r"[\[\]]", "", line), comments=True)[1:]
    if words[0] in ("-C", "--tenant"):
        words = words[2:]
    if words[0] in ("--help", "--version", "help", "COMMAND", "…"):
        return ""
    name, own = split(words)
    if name not in COMMANDS:
        return f"{line}: there is no such command"
    try:
        parser_of(name, load_command(name)).parse_args(own)
    except WrongUsage as error:
        # In a sentence a name may stand alone (`plansmith approve`), or ROLE for any role.
        harmless = "invalid choice: '[A-Z]+'"
        if len(words) < 4:
            harmless += "|(is|are) required|expected one argument"
        return "" if re.search(harmless, str(error)) else f"{line}: {error}"
    return ""


def test_every_command_to_type_is_known_with_its_options() -> None:
    typed = {line: place for place, line in commands() if re.match(r"\S*plansmith ", line)}
    faults = {place: wrong for line, place in typed.items() if (wrong := fault(line))}
    assert faults == {}


@pytest.mark.parametrize(
    ("place", "text"), blocks("toml"), ids=[each for each, _ in blocks("toml")]
)
def test_every_table_of_settings_is_accepted(place: str, text: str) -> None:
    Settings.model_validate(tomllib.loads(text))


def test_every_json_block_is_json() -> None:
    for place, text in blocks("json"):
        if "problems.md" not in place:  # plans with problems: test_docs.py
            json.loads(text)


def test_every_yaml_block_is_a_plan_or_a_profile(tmp_path: Path) -> None:
    for place, text in blocks("yaml"):
        if "problems.md" in place:  # plans with problems: test_docs.py
            continue
        if "steps" in yaml.safe_load(text):
            assert read_plan(text).steps
        else:
            (tmp_path / "me.yaml").write_text(text, encoding="utf-8")
            read_profile(tmp_path / "me.yaml")


def after(page: str, kind: str, sign: str, kind_shown: str) -> tuple[str, str]:
    """Returns the block of a page that has a sign, and the next block of the kind that is shown."""
    found = BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    at = next(i for i, (each, text) in enumerate(found) if each == kind and sign in text)
    return found[at][1], next(text for each, text in found[at + 1 :] if each == kind_shown)


@pytest.mark.parametrize("page", ["start.md", "tutorial.md"])
def test_a_program_prints_what_the_page_shows_below_it(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, expected = after(page, "python", "print(plan)", "text")
    run(page, program)
    assert capsys.readouterr().out.startswith(expected)


def lines_of(text: str) -> list[str]:
    """The lines of an output without what differs each time: times, and hashes."""
    text = re.sub(r"\b\d\d:\d\d\b", "00:00", text)
    text = re.sub(r"\bhash [0-9a-f]{8,}…?", "hash …", text)
    return [line.rstrip() for line in text.splitlines()]


def missing(expected: str, screen: str) -> list[str]:
    """The lines that a page shows and the screen does not have."""
    lines = lines_of(screen)
    wanted = [line for line in lines_of(expected) if line.strip("…") and not line.startswith("$ ")]
    return [line for line in wanted if not any(each.startswith(line) for each in lines)]


def console(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [block for kind, block in BLOCK.findall(text) if kind == "console"]


@pytest.fixture
def person(tmp_path: Path) -> Person:
    someone = Person(tmp_path)
    own = {"TERM": "dumb", "PLANSMITH_OFFLINE": "1", "PLANSMITH_MODEL": "rules"}
    someone.environment |= own | {"PLANSMITH_MODELS": str(tmp_path / "models")}
    return someone


def test_the_first_answer_is_the_one_of_the_start_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, expected = after("start.md", "bash", "--yes-read-only", "console")
    [command] = [line for line in script.splitlines() if "plansmith" in line]
    subprocess.run(["bash", "-c", script.replace(command, "")], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANSMITH_MODEL", "rules")
    monkeypatch.setenv("PLANSMITH_STORE", "memory")
    assert main(shlex.split(command)[1:]) == 0
    assert missing(expected, capsys.readouterr().out) == []


def test_a_first_change_is_shown_as_on_the_start_page(person: Person) -> None:
    [expected] = [text for text in console("start.md") if "Append" in text]
    words = shlex.split(expected.splitlines()[0][2:])[3:]
    with person.types(*words, columns=110) as terminal:
        terminal.until("Run this plan?")
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert missing(expected, terminal.screen.text) == []
    assert (person.folder / "todo.txt").read_text() == "Pay invoice 2026-17"


def test_the_tutorial_goes_as_it_is_shown(person: Person) -> None:
    script, _ = after("tutorial.md", "bash", "plan.yaml", "text")
    files = script.partition("export PLANSMITH_STORE")[0]
    subprocess.run(["bash", "-euc", files], cwd=person.folder, check=True)
    person.folder /= "shop"
    with person.types("run", "plan.yaml", "--tools", "tools.py", columns=110) as terminal:
        terminal.until("Run this plan?")
        terminal.type("y\n")
        assert terminal.ended() == 0
    expected = [text for text in console("tutorial.md") if not text.startswith("$ ")]
    assert [missing(each, terminal.screen.text) for each in expected] == [[]] * 2
    _, report = after("tutorial.md", "bash", "plan.yaml", "text")
    assert (person.folder / "report.md").read_text().strip() == report.strip()


DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "plansmith-worker@.service"
# What a command line reads besides the variables of settings.
FOLDERS = {"XDG_DATA_HOME", "XDG_CONFIG_HOME"}


def parsed(words: Sequence[str]) -> Any:
    """Read a command line as plansmith does; a wrong one raises."""
    assert words[0].endswith("plansmith")
    name, own = split(words[1:])
    return parser_of(name, load_command(name)).parse_args([*own])


def services() -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return dict(found["services"])


def test_the_compose_file_starts_a_database_a_server_and_workers_that_share_it() -> None:
    db, server, worker = (services()[name] for name in ("db", "server", "worker"))
    assert parsed(server["command"]).engine == "dbos"
    assert parsed(worker["command"]).runs_at_once == 10
    assert server["environment"] == worker["environment"]
    assert set(server["environment"]) <= {*_ENVIRONMENT, *FOLDERS}
    assert server["volumes"] == worker["volumes"]
    assert server["working_dir"] == worker["working_dir"]
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert db["healthcheck"]
    user, base = (db["environment"][name] for name in ("POSTGRES_USER", "POSTGRES_DB"))
    address = server["environment"]["PLANSMITH_STORE"]
    assert address.startswith(f"postgresql://{user}:")
    assert address.endswith(f"@db/{base}")


def test_both_give_a_worker_more_time_to_stop_than_it_drains() -> None:
    worker = services()["worker"]
    assert int(worker["stop_grace_period"].rstrip("s")) > parsed(worker["command"]).drain
    drain = parsed(option("ExecStart").split()).drain
    assert int(option("TimeoutStopSec")) > drain


def test_the_image_installs_extras_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    project = tomllib.loads(
        (ROOT / "packages" / "plansmith" / "pyproject.toml").read_text(encoding="utf-8")
    )
    found = re.search(r"plansmith\[([\w,]+)\]", text)
    assert found
    extras = found[1].split(",")
    assert "scale" in extras
    assert set(extras) <= set(project["project"]["optional-dependencies"])


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        lacks("systemd-analyze")
    program = tmp_path / "plansmith"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name.replace("@", "@1")
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace("/usr/local/bin/plansmith", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0


def option(name: str) -> str:
    """The value of an option of the unit."""
    found = re.search(rf"^{name}=(.+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, name
    return found[1]
