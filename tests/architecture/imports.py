"""Who imports whom inside the package, read from the source."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

DOTTED = re.compile(r"plansmith(?:\.\w+)+")


def module_names(source: Path) -> dict[str, Path]:
    """Every module of the package by its dotted name; a package is its `__init__`."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def importers(source: Path) -> dict[str, set[str]]:
    """The modules that import each module.

    A dotted name in a string counts, since tables load modules by it. Who imports a package
    imports what its `__init__` takes from its own modules, so that counts for those instead.
    """
    names = module_names(source)
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for wanted in _wanted(ast.parse(path.read_text(encoding="utf-8")), names):
            if wanted != name:
                found[wanted].add(name)
    return {
        name: {other for each in found[name] for other in _behind(each, name, names, found)}
        for name in names
    }


def _behind(
    importer: str, name: str, names: dict[str, Path], found: dict[str, set[str]]
) -> set[str]:
    is_own_package = names[importer].name == "__init__.py" and name.startswith(f"{importer}.")
    return found[importer] | {importer} if is_own_package else {importer}


def _wanted(tree: ast.Module, names: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module in names:
            inner = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each for each in inner if each in names)
            if any(each not in names for each in inner):
                yield str(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _named(node.value, names)


def _named(text: str, names: dict[str, Path]) -> Iterator[str]:
    dotted = DOTTED.fullmatch(text.partition(":")[0])
    parts = dotted[0].split(".") if dotted else []
    for end in range(len(parts), 1, -1):
        if (name := ".".join(parts[:end])) in names:
            yield name
            return
