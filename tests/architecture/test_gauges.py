"""The gauges of the house: lines and public names a package, and no language in the kernel.

Complexity is the linter's. A budget is in the README of its package; a reason too if it grew.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
BUDGET = re.compile(r"^\*\*Budget\*\*: ([\d,]+) lines, ([\d,]+) public names", re.MULTILINE)
HAN = re.compile(r"[\u3400-\u9fff]")


def source(package: Path) -> Path:
    return package / "src" / package.name.replace("-", "_")


def lines(package: Path) -> int:
    files = source(package).rglob("*.py")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def public_names(package: Path) -> list[str]:
    """What a package and its folders offer: the names of every `__all__`."""
    found: list[str] = []
    for path in source(package).rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found += ast.literal_eval(node.value)
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
