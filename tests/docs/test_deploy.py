"""What `deploy` offers starts commands that exist, with options and variables that they know."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.needs import lacks

from plansmith_cli.config import _ENVIRONMENT
from plansmith_cli.main import load_command, parser_of, split

ROOT = Path(__file__).parents[2]
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
