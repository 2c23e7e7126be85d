"""Leaves out of a written program whatever nothing in it uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class _Used:
    """Names that code uses alone, and names that it uses as attributes."""

    names: set[str] = field(default_factory=set[str])
    attributes: set[str] = field(default_factory=set[str])

    def add(self, other: _Used) -> None:
        self.names |= other.names
        self.attributes |= other.attributes


@dataclass(slots=True, eq=False)
class _Unit:
    """A definition that can be left out: a name of the module, or a method of a class."""

    lines: range
    uses: _Used
    methods: list[tuple[str, _Unit]] = field(default_factory=list["tuple[str, _Unit]"])


def pruned(source: str) -> str:
    """Returns a program without the functions, classes, methods and imports that it never uses.

    A method counts as used if its name is an attribute anywhere in code that is used.
    """
    tree, lines = ast.parse(source), source.split("\n")
    known: dict[str, _Unit] = {}
    used = _Used()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        names = _defined(node)
        unit = _unit(node, lines)
        if names:
            known |= dict.fromkeys(names, unit)
        else:
            used.add(unit.uses)
    kept = _reached(known, used)
    dropped = {
        line
        for unit in {*known.values()}
        for each in (unit, *(method for _, method in unit.methods))
        if each not in kept
        for line in each.lines
    }
    replaced = {
        node.lineno - 1: _import(node, used.names)
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return _without_gaps(
        replaced.get(number, line)
        for number, line in enumerate(lines)
        if number not in dropped and replaced.get(number, line) is not None
    )


def _reached(known: dict[str, _Unit], used: _Used) -> set[_Unit]:
    """Returns what the used names lead to, and adds the names that this uses in turn."""
    kept: set[_Unit] = set()
    before = -1
    while before != len(kept):
        before = len(kept)
        reached = {unit for name, unit in known.items() if name in used.names}
        reached |= {
            each for unit in reached for name, each in unit.methods if name in used.attributes
        }
        for unit in reached - kept:
            used.add(unit.uses)
        kept |= reached
    return kept


def _defined(node: ast.stmt) -> list[str]:
    """Returns the names that a statement only defines; a statement that does more has none."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets) if all(isinstance(each, ast.Name) for each in targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _unit(node: ast.stmt, lines: list[str]) -> _Unit:
    if not isinstance(node, ast.ClassDef):
        return _Unit(_lines(node, lines), _names([node]))
    methods = [each for each in node.body if isinstance(each, _Function) and _is_named(each)]
    rest: list[ast.AST] = [each for each in node.body if each not in methods]
    rest += [*node.decorator_list, *node.bases]
    found = [(each.name, _Unit(_lines(each, lines), _names([each]))) for each in methods]
    return _Unit(_lines(node, lines), _names(rest), found)


def _is_named(method: _Function) -> bool:
    """Tells whether a method is used by its name; Python itself uses those with underscores."""
    return not (method.name.startswith("__") and method.name.endswith("__"))


def _names(nodes: Iterable[ast.AST]) -> _Used:
    found = [each for node in nodes for each in ast.walk(node)]
    names = {each.id for each in found if isinstance(each, ast.Name)}
    return _Used(names, {each.attr for each in found if isinstance(each, ast.Attribute)})


def _lines(node: ast.stmt, lines: list[str]) -> range:
    """Returns where a statement stands, with its decorators and the comment right above it."""
    above = node.decorator_list if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else []
    first = min([node.lineno, *(each.lineno for each in above)]) - 1
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return range(first, node.end_lineno or node.lineno)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _import(node: ast.Import | ast.ImportFrom, used: set[str]) -> str | None:
    """Returns an import with the names that are used; none if that leaves nothing."""
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return ast.unparse(node)
    names = [each for each in node.names if (each.asname or each.name).split(".")[0] in used]
    if not names:
        return None
    node.names = names
    return ast.unparse(node)


def _without_gaps(lines: Iterable[str | None]) -> str:
    """Joins lines; where more than two empty ones follow each other, two are left."""
    return "\n".join(_closed_up(line for line in lines if line is not None))


def _closed_up(lines: Iterable[str]) -> Iterator[str]:
    empty = 0
    for line in lines:
        empty = 0 if line.strip() else empty + 1
        if empty <= 2:
            yield line
