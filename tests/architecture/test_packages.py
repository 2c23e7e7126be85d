"""The packages: they build, install into a clean environment, and the core alone does its work."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

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


def test_the_core_alone_checks_compares_runs_and_resumes(packages: Path, tmp_path: Path) -> None:
    [wheel] = packages.glob("*.whl")
    bin_ = installed(tmp_path / "core", str(wheel))
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "tools.py").write_text(TOOLS)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PLANSMITH_OFFLINE": "1"}

    def said(*words: str) -> str:
        done = subprocess.run(
            [bin_ / "plansmith", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "no problems" in said("check", "plan.yaml", "--tools", "tools.py")
    assert "equal" in said("diff", "plan.yaml", "plan.yaml")
    assert "Hello Ada" in said("run", "plan.yaml", "--tools", "tools.py")
    assert "done" in said("runs")
    program = "import asyncio, plansmith; print(plansmith.Plansmith(store='memory'))"
    subprocess.run([bin_ / "python", "-c", program], check=True, env=environment)


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
