"""The packages build, install into clean environments, and each extra brings what it is for."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hatchling.builders.wheel import WheelBuilder
from tests.certificates import trust_as_the_machine_does

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PLAN = "goal: Greet\nsteps: [{id: hello, tool: greet, inputs: {name: Ada}}]\n"
TOOLS = '''
from plansmith import tool

@tool(effect="read")
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello {name}"
'''
# What each extra is for: a module that it brings.
EXTRAS = {
    "planner": "plansmith_planner.pipeline",
    "models": "plansmith_planner.models.provider",
    "semantic": "plansmith_planner.ranking.minilm",
    "mcp": "plansmith_connect.mcp.servers",
    "a2a": "plansmith_connect.a2a.registry",
    "desk": "plansmith_desk.builtin",
    "local": "xllamacpp",
    "charts": "resvg_py",
    "documents": "pypdf",
    "duckdb": "duckdb",
    "server": "plansmith_server.serve",
    "telemetry": "opentelemetry.trace",
    "oidc": "jwt",
    "postgres": "psycopg",
    "scale": "dbos",
    "cli": "plansmith_cli.main",
    "compat": "plansmith_compat.sage",
}
# What no extra may bring: gigabytes that a planner does not need.
HEAVY = ("torch", "nvidia", "tensorflow")

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _network(monkeypatch: pytest.MonkeyPatch) -> None:
    trust_as_the_machine_does(monkeypatch)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for package in ROOT.glob("packages/*/pyproject.toml"):
        list(WheelBuilder(str(package.parent)).build(directory=str(folder)))
    return folder


class Person(NamedTuple):
    """Someone with an environment and an empty home."""

    programs: Path
    home: Path

    def types(self, *words: str) -> str:
        own = {"HOME": str(self.home), "PLANSMITH_OFFLINE": "1"}
        path = {"PATH": os.pathsep.join([str(self.programs), os.environ["PATH"]])}
        done = subprocess.run(
            words, cwd=self.home, env=own | path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def person(home: Path, wheels: Path, what: str) -> Person:
    """Someone who has installed this, and nothing else."""
    folder = home / "environment"
    subprocess.run([UV, "venv", "-q", "-p", sys.executable, folder], check=True)
    where = ("-p", folder / "bin" / "python", "--find-links", wheels)
    subprocess.run([UV, "pip", "install", "-q", *where, what], check=True)
    return Person(folder / "bin", home)


def test_the_wheels_are_typed_and_hold_nothing_of_this_machine(wheels: Path) -> None:
    for wheel in wheels.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        assert any(each.endswith("/py.typed") for each in names), wheel.name
        assert not [each for each in names if "node_modules" in each or "__pycache__" in each]


def test_the_kernel_alone_is_a_library(wheels: Path, tmp_path: Path) -> None:
    alone = person(tmp_path, wheels, "plansmith")
    program = "import plansmith; print(plansmith.Plansmith(store='memory'))"
    assert alone.types("python", "-c", program)


def test_the_command_line_checks_compares_runs_and_shows_itself(
    wheels: Path, tmp_path: Path
) -> None:
    own = person(tmp_path, wheels, "plansmith[cli]")
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "tools.py").write_text(TOOLS)
    assert "no problems" in own.types("plansmith", "check", "plan.yaml", "--tools", "tools.py")
    assert "equal" in own.types("plansmith", "diff", "plan.yaml", "plan.yaml")
    assert "Hello Ada" in own.types("plansmith", "run", "plan.yaml", "--tools", "tools.py")
    assert "done" in own.types("plansmith", "runs")
    assert "done before the crash, not repeated" in own.types("plansmith", "demo")


@pytest.mark.parametrize(("extra", "module"), EXTRAS.items())
def test_each_extra_installs_and_brings_what_it_is_for(
    wheels: Path, tmp_path: Path, extra: str, module: str
) -> None:
    own = person(tmp_path, wheels, f"plansmith[{extra}]")
    own.types("python", "-c", f"import plansmith, {module}")


def test_every_extra_is_tested_and_none_brings_gigabytes(wheels: Path, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "packages/plansmith/pyproject.toml").read_text())["project"]
    assert {*project["optional-dependencies"]} - {"all"} == {*EXTRAS}
    (tmp_path / "asked.txt").write_text("plansmith[all]\n")
    done = subprocess.run(
        [UV, "pip", "compile", "-q", "--no-annotate", "--find-links", wheels, "asked.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.partition("=")[0] for line in done.stdout.splitlines()]
    assert "starlette" in names
    assert not [each for each in names if each.startswith(HEAVY)]
