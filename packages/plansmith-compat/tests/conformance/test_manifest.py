"""The manifest: what each source system does, and the tests that show it here."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KINDS = {"fact", "decision", "defect", "wish", "shape", "document"}
SYSTEMS = {"sage", "valuecell", "openmanus", "deerflow", "spring"}
COUNTS = {"sage": 41, "valuecell": 48, "openmanus": 45, "deerflow": 44, "spring": 45}
FIELDS = {"id", "kind", "says", "tests"}


def requirements() -> list[dict[str, Any]]:
    table = tomllib.loads((HERE / "manifest.toml").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = table["requirement"]
    return rows


def facts(system: str) -> list[dict[str, Any]]:
    table = tomllib.loads((HERE / "facts" / f"{system}.toml").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = table["fact"]
    return rows


def named() -> set[str]:
    """The ids of all tests that the manifest and the facts name."""
    rows = [*requirements(), *(row for system in SYSTEMS for row in facts(system))]
    return {f"tests/{test}" for row in rows for test in row["tests"]}


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The ids of all tests in the files that the manifest names, and beside them."""
    files = {ROOT / test.split("::")[0] for test in named()} | {*HERE.glob("test_*.py")}
    return {
        f"{file.relative_to(ROOT)}::{each.name}"
        for file in files
        for each in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
        and each.name.startswith("test_")
    }


def test_every_requirement_has_a_test_that_is_collected(collected: set[str]) -> None:
    assert all(row["tests"] or row.get("decision") for row in requirements())
    assert named() - collected == set()


def test_every_requirement_is_whole_and_has_an_id_of_its_own() -> None:
    rows = requirements()
    assert [row["id"] for row in rows if row.keys() - {"decision"} != FIELDS] == []
    assert {row["kind"] for row in rows} == KINDS
    assert {row["id"].split("-")[0] for row in rows} == {*SYSTEMS, "users"}
    for name in ("id", "says"):
        counts = Counter(row[name] for row in rows)
        assert [each for each, count in counts.items() if count > 1] == []
    assert all(row["says"].rstrip('"').endswith(".") for row in rows)


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_every_system_has_facts_decisions_defects_and_documents(system: str) -> None:
    kinds = {row["kind"] for row in requirements() if row["id"].startswith(f"{system}-")}
    assert {"fact", "decision", "defect", "shape", "document"} <= kinds


def test_no_test_of_a_system_stands_without_a_requirement(collected: set[str]) -> None:
    names = (*SYSTEMS, "documents")
    modules = tuple(f"tests/conformance/test_{name}{end}" for name in names for end in "._")
    extra = {each for each in collected if each.startswith(modules)} - named()
    assert extra == set()


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_every_fact_of_a_system_has_a_test_and_a_verdict(system: str, collected: set[str]) -> None:
    rows = facts(system)
    assert len(rows) == len({row["says"] for row in rows}) == COUNTS[system]
    assert {row["verdict"] for row in rows} <= {"works", "decision"}
    assert [row["says"] for row in rows if not row["tests"]] == []
    assert {f"tests/{test}" for row in rows for test in row["tests"]} - collected == set()
    decided = [row for row in rows if row["verdict"] == "decision"]
    assert [row["says"] for row in decided if not row.get("decision")] == []
