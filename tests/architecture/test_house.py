"""The rules of the house, where no linter keeps them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import plansmith
import plansmith_planner as planner

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages"
FILES = sorted(SOURCE.glob("*/src/**/*.py"))
HEAVY = (
    "mcp",
    "a2a",
    "openai",
    "pydantic_ai",
    "starlette",
    "uvicorn",
    "dbos",
    "xllamacpp",
    "httpx",
)
VAGUE = {"core", "base", "common", "helpers", "manager", "utils", "util", "misc"}


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_files_are_one_subject_and_say_what_they_are() -> None:
    faults = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(text))
        if not docstring or len(docstring.splitlines()[0]) > 100:
            faults.append(f"{name(path)} does not say in its first line what it is")
        if len(text.splitlines()) > 600:
            faults.append(f"{name(path)} has more than 600 lines")
    assert faults == []


def test_no_file_has_a_vague_name() -> None:
    assert not [path for path in FILES if path.stem in VAGUE or path.parent.name in VAGUE]


def test_the_ground_floor_never_waits() -> None:
    for path in sorted((SOURCE / "plansmith/src/plansmith/plan").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
        assert not [node for node in ast.walk(tree) if isinstance(node, waits)], path


def _modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "from plansmith import *",
        "import plansmith.testing",
    ],
)
def test_no_heavy_module_is_loaded_before_it_is_used(code: str) -> None:
    assert not _modules_after(code) & set(HEAVY)


PUBLIC = {
    "AgentSpec",
    "BudgetLimits",
    "Call",
    "Effect",
    "Limits",
    "Misconfigured",
    "NotApproved",
    "NotFound",
    "Plan",
    "PlanInvalid",
    "Plansmith",
    "PlansmithError",
    "Problem",
    "QuestionAsked",
    "Refused",
    "Run",
    "RunStatus",
    "StepStatus",
    "ToolBusy",
    "ToolFailed",
    "ToolSpec",
    "apply_diff",
    "check_plan",
    "diff_plans",
    "plan_hash",
    "read_plan",
    "tool",
    "try_read_plan",
}


def test_the_public_names_are_these() -> None:
    assert set(plansmith.__all__) == PUBLIC
    assert all(getattr(plansmith, each).__module__.startswith("plansmith.") for each in PUBLIC)
    assert set(dir(plansmith)) >= PUBLIC
    with pytest.raises(AttributeError):
        plansmith.no_such_name  # noqa: B018


def test_the_public_names_of_the_planner_are_these() -> None:
    assert planner.__all__ == ["model", "read_json", "shortlist"]
    assert all(callable(getattr(planner, each)) for each in planner.__all__)
    assert {*dir(planner)} >= {*planner.__all__}
    with pytest.raises(AttributeError):
        planner.no_such_name  # noqa: B018


def test_the_repository_speaks_of_the_project_alone() -> None:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    hosts = re.compile(
        r"https?://(pypi|files\.pythonhosted|registry\.npmjs|deb\.debian)", re.IGNORECASE
    )
    homes = re.compile(r"(?<![\w/])/(root|home/\w+|work)/")
    for line in done.stdout.splitlines():
        path = ROOT / line
        if path.suffix in (".py", ".md", ".toml", ".txt", "") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not hosts.search(text), line
            assert not homes.search(text), line
