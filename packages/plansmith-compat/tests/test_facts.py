"""What each of the five systems does, in `*/facts.toml`, and the tests that show it here.

The table of a row is its kind: fact; decision (where its documents and its code disagree, or where
we chose); defect (not inherited); wish (of its authors or users); shape (of its plans); document
(what an example of its own documents shows). `decision` says why something is not as there; the
page of docs/ for people who come from there tells it too. Tests may be in any package, so only
names count.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
KINDS = {"fact", "decision", "defect", "wish", "shape", "document"}
COUNTS = {"sage": 52, "valuecell": 57, "openmanus": 50, "deerflow": 55, "spring": 61}
ALL = (*COUNTS, ".")  # what users of several systems wish for is beside them
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def facts_of(system: str) -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads((HERE / system / "facts.toml").read_text(encoding="utf-8"))


def rows(system: str) -> list[dict[str, Any]]:
    return [row for kind in facts_of(system).values() for row in kind]


def named(*systems: str) -> set[str]:
    return {test for system in systems for row in rows(system) for test in row["tests"]}


def names_in(*folders: Path) -> set[str]:
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    return {name for file in files for name in _TEST.findall(file.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def tests() -> set[str]:
    """The names of all tests of all packages."""
    return names_in(*ROOT.glob("packages/*/tests"), ROOT / "tests")


@pytest.mark.parametrize("system", ALL)
def test_every_row_is_whole_and_has_a_test_or_a_decision(system: str, tests: set[str]) -> None:
    assert facts_of(system).keys() <= KINDS
    found = rows(system)
    assert [row for row in found if row.keys() - {"decision"} != {"says", "tests"}] == []
    assert [row for row in found if not (row["tests"] or row.get("decision"))] == []
    assert len(found) == len({row["says"] for row in found})
    assert named(system) - tests == set()


@pytest.mark.parametrize(("system", "count"), COUNTS.items())
def test_every_fact_of_a_system_has_a_test_and_no_test_of_it_stands_alone(
    system: str, count: int
) -> None:
    kinds = facts_of(system)
    assert KINDS - kinds.keys() <= {"wish"}
    assert len(kinds["fact"]) == count
    assert [row for row in kinds["fact"] if not row["tests"]] == []
    assert names_in(HERE / system) - named(*ALL) == set()
