"""The packages: they build, install into a clean environment, and the core alone does its work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.certificates import trust_as_the_machine_does

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PLAN = """
goal: Greet
steps:
  - {id: hello, tool: greet, inputs: {name: Ada}}
"""
TOOLS = '''
from plansmith import tool

@tool(effect="read")
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello {name}"
'''
# What each extra is for: a module of ours that needs it.
EXTRAS = {
    "models": "plansmith_planner.models.provider",
    "mcp": "plansmith_connect.mcp.server",
    "a2a": "plansmith_connect.a2a.registry",
    "server": "plansmith_server.serve",
    "telemetry": "opentelemetry.trace",
    "local": "xllamacpp",
    "oidc": "jwt",
    "postgres": "psycopg",
    "scale": "dbos",
    "duckdb": "duckdb",
    "charts": "resvg_py",
    "documents": "pypdf",
    "semantic": "plansmith_planner.ranking.minilm",
}
# What no extra may bring: gigabytes that a planner does not need.
HEAVY = ("torch", "nvidia", "tensorflow")

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _network(monkeypatch: pytest.MonkeyPatch) -> None:
    trust_as_the_machine_does(monkeypatch)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def installed(folder: Path, *what: str) -> Path:
    """Make an environment with packages in it; give its folder of programs."""
    subprocess.run([UV, "venv", "-q", "-p", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([UV, "pip", "install", "-q", "-p", python, *what], check=True)
    return folder / "bin"


def test_the_packages_have_all_that_they_need_and_nothing_of_this_machine(packages: Path) -> None:
    [wheel], [archive] = packages.glob("*.whl"), packages.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert "plansmith/py.typed" in names
    assert "plansmith/server/page/index.html" in names
    assert not [each for each in names if "node_modules" in each or "__pycache__" in each]
    with tarfile.open(archive) as packed:
        kept = {each.partition("/")[2] for each in packed.getnames()}
    assert {"README.md", "LICENSE", "mkdocs.yml", "scripts/test", "locks/dev.txt"} <= kept


class Person(NamedTuple):
    """Someone with an environment and an empty home."""

    programs: Path
    home: Path

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.programs), os.environ["PATH"], str(UV.parent)])
        own = {"HOME": str(self.home), "PLANSMITH_OFFLINE": "1", "PATH": path}
        kept = {name: each for name, each in os.environ.items() if "CERT" in name or "UV_" in name}
        return subprocess.run(
            words, cwd=self.home, env=kept | own, capture_output=True, text=True, check=False
        )

    def said(self, *words: str) -> str:
        done = self.types("plansmith", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_the_core_alone_checks_compares_runs_and_is_a_library(
    packages: Path, tmp_path: Path, kind: str
) -> None:
    [package] = packages.glob(kind)
    person = Person(installed(tmp_path / "core", str(package)), tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "tools.py").write_text(TOOLS)
    said = person.said
    assert "no problems" in said("check", "plan.yaml", "--tools", "tools.py")
    assert "equal" in said("diff", "plan.yaml", "plan.yaml")
    assert "Hello Ada" in said("run", "plan.yaml", "--tools", "tools.py")
    assert "done" in said("runs")
    assert "done before the crash, not repeated" in said("demo")
    program = "import asyncio, plansmith; print(plansmith.Plansmith(store='memory'))"
    assert person.types("python", "-c", program).returncode == 0


def test_the_core_names_commands_that_install_what_it_lacks(packages: Path, tmp_path: Path) -> None:
    [wheel] = packages.glob("*.whl")
    person = Person(installed(tmp_path / "core", str(wheel)), tmp_path)
    for words in (("model", "pull", "--offline"), ("serve", "--no-browser", "--port", "0")):
        lacking = person.types("plansmith", *words).stderr
        [command] = re.findall(r"[^\s(]+ (?:-m )?pip install .*?(?=\)?$)", lacking, re.MULTILINE)
        assert person.types(*shlex.split(command)).returncode == 0, command
    assert "pip install" not in person.types("plansmith", "model", "pull", "--offline").stderr
    assert person.types("python", "-c", "import plansmith_server.serve").returncode == 0


@pytest.mark.parametrize(("extra", "module"), EXTRAS.items())
def test_each_extra_installs_and_brings_what_it_is_for(
    packages: Path, tmp_path: Path, extra: str, module: str
) -> None:
    [wheel] = packages.glob("*.whl")
    person = Person(installed(tmp_path / extra, f"plansmith[{extra}] @ {wheel.as_uri()}"), tmp_path)
    done = person.types("python", "-c", f"import {module}")
    assert done.returncode == 0, done.stderr
    assert "plansmith" in person.said("--version")


def test_every_extra_is_installed_alone_by_a_test() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*project["optional-dependencies"]} - {"all", "dev"} == {*EXTRAS}


def test_no_extra_brings_gigabytes(packages: Path, tmp_path: Path) -> None:
    [wheel] = packages.glob("*.whl")
    asked = tmp_path / "asked.txt"
    asked.write_text(f"plansmith[all] @ {wheel.as_uri()}\n")
    done = subprocess.run(
        [UV, "pip", "compile", "-q", "--no-annotate", "--no-header", asked],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.partition("=")[0] for line in done.stdout.splitlines()]
    assert "starlette" in names
    assert not [each for each in names if each.startswith(HEAVY)]
