"""Runs have one door: who may create them, write their journals, and say what comes next."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from plansmith import Plansmith
from plansmith.old_names import OLD_NAMES

SOURCE = Path(__file__).parents[2] / "src" / "plansmith"
# `testing` holds the contract that every store has to keep: it writes as a store is written to.
WRITERS = ("runs/", "schedules/", "runner/", "engine/", "replay/", "testing/", "adapters/stores/")


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Every call and every attribute in the source, with its file."""
    return [
        (str(path.relative_to(SOURCE)), node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.Attribute)
    ]


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls of functions or methods of these names."""
    for where, node in nodes():
        if isinstance(node, ast.Call) and last_name(node.func) in names:
            yield where, node


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def test_only_the_service_and_the_engine_write_journals() -> None:
    found = [
        f"{where}:{node.lineno}"
        for where, node in calls("append", "set_aside")
        if isinstance(node.func, ast.Attribute)
        and last_name(node.func.value).endswith(("journal", "store"))
    ]
    assert not [each for each in found if not each.startswith(WRITERS)]
    assert any(each.startswith("runs/") for each in found)


def test_a_run_is_created_in_one_place() -> None:
    places = {where for where, _ in calls("RunCreated") if not where.startswith("testing/")}
    assert places == {"runs/journals.py"}
    assert {where for where, _ in calls("run_created")} == {"runs/service.py", "runs/noted.py"}


def test_plansmith_has_one_base_and_at_most_25_public_members() -> None:
    assert Plansmith.__mro__ == (Plansmith, object)
    members = {name for name in [*dir(Plansmith), *vars(Plansmith())] if not name.startswith("_")}
    assert len(members) <= 25, sorted(members)


def test_our_own_code_uses_no_name_of_the_first_release() -> None:
    old = [
        f"{where}:{node.lineno} {node.attr}"
        for where, node in nodes()
        if isinstance(node, ast.Attribute)
        and node.attr in OLD_NAMES
        and last_name(node.value) in ("smith", "_smith")
    ]
    assert not old
