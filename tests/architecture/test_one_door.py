"""Runs have one door: who may create them, write their journals, and say what comes next."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from plansmith import Plansmith
from plansmith.old_names import OLD_NAMES

SOURCE = Path(__file__).parents[2] / "src" / "plansmith"
# `testing` holds the contract that every store has to keep: it writes as a store is written to.
WRITERS = ("runs/", "schedules/", "runner/", "engine/", "replay/", "testing/", "adapters/stores/")


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield str(path.relative_to(SOURCE)), node


def called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def test_only_the_service_and_the_engine_write_journals() -> None:
    waited = [
        (where, node)
        for where, node in _awaited()
        if called(node) == "append" and not where.startswith(WRITERS)
    ]
    assert not [f"{where}:{node.lineno}" for where, node in waited]


def _awaited() -> Iterator[tuple[str, ast.Call]]:
    """Calls that are waited for: a list is appended to without waiting, and a journal never."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
                yield str(path.relative_to(SOURCE)), node.value


def test_a_run_is_created_in_one_place() -> None:
    places = {where for where, node in calls() if called(node) == "RunCreated"}
    assert {each for each in places if not each.startswith("testing/")} == {"runs/journals.py"}
    users = {where for where, node in calls() if called(node) == "run_created"}
    assert users == {"runs/service.py", "runs/noted.py"}


def test_plansmith_has_one_base_and_at_most_25_public_members() -> None:
    assert Plansmith.__mro__ == (Plansmith, object)
    members = {name for name in [*dir(Plansmith), *vars(Plansmith())] if not name.startswith("_")}
    assert len(members) <= 25, sorted(members)


def test_our_own_code_uses_no_name_of_the_first_release() -> None:
    smiths = ("smith", "_smith")
    old = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.attr}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in OLD_NAMES
        and ast.unparse(node.value).rpartition(".")[2] in smiths
    ]
    assert not old
