"""What each door of the package loads: a program pays at its start for what it uses, no more."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages"
MODEL_AND_TOOLS = (
    *("plansmith_connect.a2a.registry", "plansmith_planner.context", "plansmith_planner.models"),
    *("plansmith_desk.builtin", "plansmith_desk.charts", "plansmith_connect.mcp.servers"),
    *("plansmith_desk.sql", "plansmith_desk.tables", "plansmith_planner.draft"),
    *("plansmith_planner.parse", "plansmith_planner.pipeline", "plansmith_planner.ranking"),
)
PLANNER = (
    *("plansmith_planner.make", "plansmith_planner.context", "plansmith_planner.model_calls"),
    *("plansmith_planner.model_planner", "plansmith_planner.settings", "plansmith_planner.stages"),
    *("plansmith_planner.triage", "plansmith_planner.language.yes_or_no"),
    "plansmith_planner.threads",
)
SELDOM = (
    *("httpx", "markdown_it", "plansmith.schedules.service", "plansmith_server"),
    *("plansmith_cli.teams", "psycopg", "rich", "starlette", "yaml"),
)
# Settings of a package without its code.
RECORDS = {"plansmith_server", "plansmith_server.settings"}
HEAVY = ("mcp", "a2a", "openai", "pydantic_ai", "starlette", "uvicorn", "dbos", "xllamacpp")
DATABASES = ("plansmith.store.sqlite_file", "psycopg", "sqlite3")
LIBRARIES = ("email", "jsonschema_rs", "msgspec", "pydantic", "pydantic_core", "importlib.metadata")

ONE_RUN = """
import asyncio
from plansmith import Plan, Plansmith, tool

@tool(effect="read")
def look(name: str) -> str:
    "Looks."
    return name

async def main():
    ask = {"id": "ask", "question": "Where?"}
    step = {"id": "a", "tool": "look", "inputs": {"name": "x"}, "after": ["ask"]}
    plan = {"goal": "look", "steps": [ask, step, {"id": "say", "instruction": "Tell {{a}}"}]}
    async with Plansmith(store=STORE, tools=[look]) as smith:
        run = await smith.submit(Plan.model_validate(plan))
        await smith.run(run.id)
        await smith.answer(run.id, "ask", "here")
        run = await smith.run(run.id)
        assert run.status.value == "done", run

asyncio.run(main())
"""
READY = "from plansmith import Plansmith; Plansmith(store='memory')"
LISTED = """
import contextlib, io
from plansmith_cli.main import main

out = io.StringIO()
with contextlib.redirect_stdout(out):
    assert main(["runs"]) == 0
assert " done " in out.getvalue()
"""


def modules_after(code: str, folder: Path) -> set[str]:
    """The modules that a new process has loaded after some code; `folder` is its home."""
    own = {"HOME": str(folder), "PLANSMITH_STORE": f"sqlite:///{folder / 'runs.db'}"}
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def under(modules: set[str], *names: str) -> list[str]:
    """The modules that are one of these, or inside one."""
    return sorted(
        each
        for each in modules - RECORDS
        if any(each == name or each.startswith(f"{name}.") for name in names)
    )


def test_no_name_of_the_package_loads_a_heavy_library(tmp_path: Path) -> None:
    modules = modules_after("from plansmith import *\nimport plansmith.testing", tmp_path)
    assert not under(modules, *HEAVY)


def test_the_package_alone_loads_hardly_more_than_itself(tmp_path: Path) -> None:
    more = modules_after("import plansmith", tmp_path) - modules_after("", tmp_path)
    assert "plansmith" in more
    assert not under(more, "asyncio", "re", "typing", *LIBRARIES)
    assert len(more) <= 10


def test_a_plansmith_in_memory_loads_no_other_store_no_library_and_nothing_that_runs(
    tmp_path: Path,
) -> None:
    modules = modules_after(READY, tmp_path)
    assert not under(modules, *DATABASES, *LIBRARIES, *MODEL_AND_TOOLS, *SELDOM)
    assert not under(modules, "plansmith.engine", "plansmith.plan.data", "plansmith_planner")
    assert len(under(modules, "plansmith")) <= 20


def test_a_plansmith_on_sqlite_loads_no_other_store(tmp_path: Path) -> None:
    modules = modules_after(READY.replace("memory", "sqlite:///runs.db"), tmp_path)
    assert "sqlite3" in modules
    assert not under(modules, "psycopg", "plansmith_postgres", *MODEL_AND_TOOLS)


def test_a_run_of_a_function_loads_no_planner_no_database_and_no_server(tmp_path: Path) -> None:
    modules = modules_after(f"STORE = 'memory'\n{ONE_RUN}", tmp_path)
    assert "plansmith.engine.executor" in modules
    assert not under(modules, *DATABASES, *MODEL_AND_TOOLS, *PLANNER, *SELDOM, "statistics")


def test_the_help_of_the_command_line_loads_no_library_and_no_command(tmp_path: Path) -> None:
    code = "from plansmith_cli.main import main; assert main(['--help']) == 0"
    modules = modules_after(code, tmp_path)
    assert not under(modules, "asyncio", *LIBRARIES, *DATABASES, *MODEL_AND_TOOLS, *SELDOM)
    assert not under(modules, "plansmith_cli.commands", "plansmith.plan", "plansmith.app")


def test_the_list_of_runs_loads_no_tool_no_model_and_nothing_that_executes(tmp_path: Path) -> None:
    modules_after(f"STORE = 'sqlite:///runs.db'\n{ONE_RUN}", tmp_path)
    modules = modules_after(LISTED, tmp_path)
    assert not under(modules, *MODEL_AND_TOOLS, *SELDOM)
    assert not under(
        modules,
        "plansmith.assembly",
        "plansmith.engine.executor",
        "plansmith.check.check_plan",
        "plansmith_planner.language.left_out",
        "plansmith_planner.stages",
        "plansmith.schedules.schedule",
        "plansmith.review.policy",
        "plansmith.runs.service",
    )
    # pydantic loads it with the first validator: settings that are all default need none.
    assert not under(modules, "importlib.metadata")


def _lazy_branches() -> list[tuple[Path, ast.If]]:
    """Every `if TYPE_CHECKING:` whose other branch loads modules when they are used."""
    found: list[tuple[Path, ast.If]] = []
    for path in sorted(SOURCE.glob("*/src/**/*.py")):
        text = path.read_text(encoding="utf-8")
        if "lazy_modules(" in text and path.name != "lazy.py":
            found += [
                (path, node)
                for node in ast.parse(text).body
                if isinstance(node, ast.If) and "lazy_modules(" in ast.unparse(node)
            ]
    return found


@pytest.mark.parametrize(
    ("path", "branch"), _lazy_branches(), ids=lambda each: getattr(each, "stem", "")
)
def test_a_lazy_module_is_the_one_that_type_checkers_read(path: Path, branch: ast.If) -> None:
    read: dict[str, str] = {}
    for node in branch.body:
        if isinstance(node, ast.ImportFrom):
            read |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            read |= {each.asname or each.name: each.name for each in node.names}
    [loads] = [each for each in ast.walk(branch) if isinstance(each, ast.Call) and each.keywords]
    lazy = {str(each.arg): ast.literal_eval(each.value) for each in loads.keywords}
    assert lazy
    assert {alias: read.get(alias) for alias in lazy} == lazy
    assert lazy.keys() <= {each.id for each in _names_used(path)}, "loaded, but never used"


def _names_used(path: Path) -> list[ast.Name]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


def test_no_import_for_type_checkers_alone_is_used_when_the_program_runs() -> None:
    lazy = {
        (str(path), each.value)
        for path, branch in _lazy_branches()
        for each in ast.walk(branch)
        if isinstance(each, ast.Constant)
    }
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select=TC004", "--output-format=json", SOURCE],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [(each["filename"], each["message"].split("`")[1]) for each in json.loads(done.stdout)]
    assert found
    assert [each for each in found if each not in lazy] == []
