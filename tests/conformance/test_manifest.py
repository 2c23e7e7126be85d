"""The manifest: what each source system does, and the test that shows it here."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KINDS = {"fact", "decision", "defect", "wish"}
SYSTEMS = {"sage", "valuecell", "openmanus", "deerflow", "spring"}


def requirements() -> list[dict[str, Any]]:
    table = tomllib.loads((HERE / "manifest.toml").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = table["requirement"]
    return rows


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The ids of all tests that pytest finds where the manifest's tests are."""
    files = sorted({row["test"].split("::")[0] for row in requirements()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}


def test_every_requirement_has_a_test_that_is_collected(collected: set[str]) -> None:
    missing = [row["id"] for row in requirements() if row["test"] not in collected]
    assert missing == []


def test_every_requirement_is_whole_and_has_an_id_of_its_own() -> None:
    rows = requirements()
    assert all(row.keys() == {"id", "system", "kind", "says", "test"} for row in rows)
    assert {row["kind"] for row in rows} <= KINDS
    assert all(row["id"].startswith(f"{row['system']}-") for row in rows)
    assert [name for name, count in Counter(row["id"] for row in rows).items() if count > 1] == []


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_every_system_has_facts_and_defects(system: str) -> None:
    kinds = {row["kind"] for row in requirements() if row["system"] == system}
    assert {"fact", "defect"} <= kinds


def test_no_test_of_a_system_stands_without_a_requirement(collected: set[str]) -> None:
    named = {row["test"] for row in requirements()}
    modules = {f"tests/conformance/test_{system}.py" for system in SYSTEMS}
    extra = {each for each in collected if each.split("::")[0] in modules} - named
    assert extra == set()
