"""Runs have one door: who may create them, write their journals, and say what comes next."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from plansmith import Plansmith

SOURCE = Path(__file__).parents[2] / "packages"
# `testing` holds the contract that every store has to keep: it writes as a store is written to.
ROOMS = ("runs", "schedules", "engine", "replay", "testing", "store")
# The store of conversations has an `append` of its own.
OTHERS = ("plansmith_postgres/", "plansmith_planner/threads/")
WRITERS = (*(f"plansmith/{room}/" for room in ROOMS), *OTHERS)
OF_INTEREST = re.compile(
    r"(journal|store)\s*\.\s*(append|set_aside)|RunCreated|run_created|\b_?smith\s*\."
)


class Use(NamedTuple):
    """A call or an attribute in the source: `owner.name(...)` or `owner.name`."""

    where: str
    line: int
    owner: str
    name: str
    is_call: bool


def _name(path: Path) -> str:
    """A file from its import name on: plansmith_cli/main.py."""
    return "/".join(path.relative_to(SOURCE).parts[2:])


@cache
def uses() -> list[Use]:
    """Calls and attributes in files with a name of interest; the others take long to parse."""
    return [
        Use(_name(path), node.lineno, *names(node), isinstance(node, ast.Call))
        for path in sorted(SOURCE.glob("*/src/**/*.py"))
        for text in [path.read_text(encoding="utf-8")]
        if OF_INTEREST.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Attribute)
    ]


def names(node: ast.Call | ast.Attribute) -> tuple[str, str]:
    """The last names of what is used: whose it is, and its own."""
    used = node.func if isinstance(node, ast.Call) else node
    return last_name(used.value) if isinstance(used, ast.Attribute) else "", last_name(used)


def calls(*names: str) -> Iterator[Use]:
    """Calls of functions or methods of these names."""
    return (use for use in uses() if use.is_call and use.name in names)


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def test_only_the_service_and_the_engine_write_journals() -> None:
    found = [
        f"{use.where}:{use.line}"
        for use in calls("append", "set_aside")
        if use.owner.endswith(("journal", "store"))
    ]
    assert not [each for each in found if not each.startswith(WRITERS)]
    assert any(each.startswith("plansmith/runs/") for each in found)


def test_a_run_is_created_in_one_place() -> None:
    places = {
        use.where for use in calls("RunCreated") if not use.where.startswith("plansmith/testing/")
    }
    assert places == {"plansmith/runs/journals.py"}
    assert {use.where for use in calls("run_created")} == {
        f"plansmith/runs/{each}.py" for each in ("creating", "noted")
    }


def test_plansmith_has_one_base_and_at_most_25_public_members() -> None:
    assert Plansmith.__mro__ == (Plansmith, object)
    members = {name for name in [*dir(Plansmith), *vars(Plansmith())] if not name.startswith("_")}
    assert len(members) <= 25, sorted(members)
