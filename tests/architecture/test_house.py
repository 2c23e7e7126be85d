"""The rules of the house, where no linter keeps them, and sentences that have their Chinese."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.translations import ERRORS, FIELD, calls_in, problems

import plansmith
import plansmith_planner as planner

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages"
FILES = sorted(SOURCE.glob("*/src/**/*.py"))
FOLDERS = ("root/", "home/", "work/")  # what looks for them exactly takes long
VAGUE = {"core", "base", "common", "helpers", "manager", "utils", "util", "misc"}


# Who may write journals; `testing` writes to a store as its contract says, the store of
# conversations has an `append` of its own, and OpenManus' flow executes its steps itself.
ROOMS = ("runs", "schedules", "engine", "testing", "store")
OTHERS = (
    "plansmith_postgres/",
    "plansmith_planner/threads/",
    "plansmith_compat/openmanus/book.py",
)
WRITERS = (*(f"plansmith/{room}/" for room in ROOMS), *OTHERS)
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_files_are_one_subject_and_say_what_they_are() -> None:
    faults = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if not re.match(r'(#.*\n)*"""\S.{1,99}\n', text):
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


def places(pattern: str) -> set[str]:
    """The files, from their import names on, in which a pattern is found."""
    return {
        "/".join(path.relative_to(SOURCE).parts[2:])
        for path in FILES
        if re.search(pattern, path.read_text(encoding="utf-8"))
    }


def test_only_the_service_and_the_engine_write_journals() -> None:
    found = places(r"(?:journal|store)\s*\.\s*(?:append|set_aside)\(")
    assert not [each for each in found if not each.startswith(WRITERS)]
    assert any(each.startswith("plansmith/runs/") for each in found)


def test_a_run_is_created_in_one_place() -> None:
    made = places(r"(?m)^(?!\s*(?:class|case) ).*\bRunCreated\(")
    outside = {each for each in made if not each.startswith("plansmith/testing/")}
    assert outside == {"plansmith/runs/intake.py"}


def test_plansmith_has_one_base_and_at_most_25_public_members() -> None:
    assert plansmith.Plansmith.__mro__ == (plansmith.Plansmith, object)
    found = [*dir(plansmith.Plansmith), *vars(plansmith.Plansmith())]
    members = {each for each in found if not each.startswith("_")}
    assert len(members) <= 25, sorted(members)


def test_the_page_on_architecture_is_short_and_every_file_that_it_names_is_there() -> None:
    assert len(PAGE.splitlines()) <= 200
    assert len(re.findall(r"^\*\*(One [^*]+)\.\*\* ", PAGE, re.MULTILINE)) == 5
    named = re.findall(r"`([\w/-]+/[\w/-]+\.(?:py|ts|json|toml))`", PAGE)
    assert len(named) > 30
    roots = [ROOT, *ROOT.glob("packages/*/src"), ROOT / "packages/plansmith/src/plansmith"]
    assert [file for file in named if not any((root / file).is_file() for root in roots)] == []


PUBLIC = {
    *("AgentSpec", "BudgetLimits", "Call", "CallPreview", "Effect", "Limits", "Misconfigured"),
    *("NotApproved", "NotFound", "Plan", "PlanInvalid", "Plansmith", "PlansmithError"),
    *("Problem", "QuestionAsked", "Refused", "Run", "RunStatus", "StepStatus", "ToolBusy"),
    *("ToolFailed", "ToolSpec", "apply_diff", "check_plan", "diff_plans", "plan_hash"),
    *("read_plan", "tool", "try_read_plan"),
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
            assert "://" not in text or not hosts.search(text), line
            assert not any(each in text for each in FOLDERS) or not homes.search(text), line


# Gauges: lines and public names a package; complexity is the linter's


PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
BUDGET = re.compile(r"^\*\*Budget\*\*: ([\d,]+) lines, ([\d,]+) public names", re.MULTILINE)
HAN = re.compile(r"[\u3400-\u9fff]")


def source(package: Path) -> Path:
    return package / "src" / package.name.replace("-", "_")


def lines(package: Path) -> int:
    files = source(package).rglob("*.py")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def public_names(package: Path) -> list[str]:
    """What a package and its folders offer: `__all__`, or what they import under its own name."""
    found: list[str] = []
    for path in source(package).rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found += ast.literal_eval(node.value)
            elif isinstance(node, ast.ImportFrom):
                found += [each.name for each in node.names if each.asname == each.name]
    return found


def budget(package: Path) -> tuple[int, int]:
    found = BUDGET.search((package / "README.md").read_text(encoding="utf-8"))
    assert found, f"{package.name}/README.md has no line **Budget**: N lines, N public names"
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_every_package_keeps_to_its_budget(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(each.name, lines(each), *budget(each), len(public_names(each))) for each in PACKAGES]
    table = [f"{'package':20} {'lines':>7} {'budget':>7} {'names':>6} {'budget':>6}"]
    table += [f"{n:20} {have:7,} {may:7,} {names:6} {most:6}" for n, have, may, most, names in rows]
    table += [f"{'together':20} {sum(row[1] for row in rows):7,} {sum(row[2] for row in rows):7,}"]
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *table, ""]))
    assert [row[0] for row in rows if row[1] > row[2] or row[4] > row[3]] == []


def test_the_kernel_has_no_word_of_a_language_but_its_own_english() -> None:
    kernel = source(ROOT / "packages" / "plansmith")
    files = [path for path in kernel.rglob("*.py") if HAN.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(kernel)) for path in files] == []


def test_the_reading_guide_of_the_kernel_names_every_file() -> None:
    package = ROOT / "packages" / "plansmith"
    named = set(re.findall(r"`([a-z_/]+\.py)`", (package / "README.md").read_text("utf-8")))
    files = {str(each.relative_to(source(package))) for each in source(package).rglob("*.py")}
    assert {each for each in files if not each.endswith("__init__.py")} ^ named == set()


SOURCES = [path for path in ROOT.glob("packages/*/src/**/*.py") if "locale" not in path.parts]


def test_every_sentence_gives_the_fields_of_its_text_and_has_its_translation() -> None:
    packages = [path.parent for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    assert [told for each in packages for told in problems(each, write=False)] == []
    codes = json.loads(next(ROOT.glob("packages/plansmith/src/**/sentences.json")).read_text())
    faults = []
    for path in SOURCES:
        for name, node in calls_in(path):
            text = getattr(node.args[0], "value", None)
            given = {each.arg for each in node.keywords}
            given -= {"hint"} if name in ERRORS else set()
            if not isinstance(text, str) or None in given:
                continue
            if given != set(FIELD.findall(codes.get(text, text))):
                faults.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert faults == []


def test_no_code_is_without_a_use() -> None:
    codes = json.loads(next(ROOT.glob("packages/plansmith/src/**/sentences.json")).read_text())
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    starts = set(re.findall(r"""f["']([a-z_0-9]+\.[a-z_0-9]*)\{""", source))
    # The command line, shown plans and reports take the rest of a code as the key of a text.
    starts |= {"cli.", "report.", "show."}
    used = {code for code in codes if code.startswith(tuple(starts)) or f'"{code}"' in source}
    assert codes.keys() - used == set()
