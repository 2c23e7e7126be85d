"""Replaces unfilled references in arguments by placeholders, so that they can be validated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import cast

from plansmith.plan.data import Json, Path
from plansmith.plan.refs import FIRST, FROM, LITERAL, Ref, pieces, whole_ref


class Placeholders:
    """Arguments with a placeholder instead of each reference.

    A reference alone may become any value; a text with references becomes some text. The content
    of a `$literal` is used unchanged.
    """

    def __init__(self, template: Json) -> None:
        self.refs: dict[Path, Ref] = {}
        self.unknown: set[Path] = set()
        self.texts: set[Path] = set()
        self._marks = 0
        self._literals: set[Path] = set()
        self.value = self._filled(template, ())

    def is_placeholder(self, path: Path) -> bool:
        return any(path[:end] in self.unknown for end in range(len(path) + 1))

    def has_placeholders(self, path: Path) -> bool:
        return path in self._around or path in self.texts or self.is_placeholder(path)

    @cached_property
    def _around(self) -> set[Path]:
        """The places that have a placeholder below them."""
        found = self.unknown | self.texts
        return {path[:end] for path in found for end in range(len(path))}

    def real(self, path: Path) -> Path:
        """Returns the path in the plan: a value in a `$literal` is one key deeper there."""
        for end in range(len(path) + 1):
            if path[:end] in self._literals:
                return (*path[:end], LITERAL, *path[end:])
        return path

    def _filled(self, template: Json, path: Path) -> Json:
        match template:
            case str():
                return self._text(template, path)
            case dict() if FROM in template or FIRST in template:
                return self._placeholder(path, whole_ref(template))
            case dict() if template.keys() == {LITERAL}:
                self._literals.add(path)
                return template[LITERAL]
            case dict():
                return {key: self._filled(each, (*path, key)) for key, each in template.items()}
            case list():
                return [self._filled(each, (*path, at)) for at, each in enumerate(template)]
            case _:
                return template

    def _text(self, text: str, path: Path) -> Json:
        parts = pieces(text)
        if len(parts) == 1 and isinstance(parts[0], Ref):
            return self._placeholder(path, parts[0])
        if any(isinstance(part, Ref) for part in parts):
            self.texts.add(path)
            return self._mark()
        return "".join(map(str, parts))

    def _placeholder(self, path: Path, ref: Ref | None) -> str:
        self.unknown.add(path)
        if ref is not None:
            self.refs[path] = ref
        return self._mark()

    def _mark(self) -> str:
        """Returns a text that is never equal to another one or, by chance, to one in a plan."""
        self._marks += 1
        return f"\ue000blank {self._marks}"


def at(value: Json, path: Path) -> Json:
    """Returns the part of a value at a path."""
    for key in path:
        if isinstance(value, dict):
            value = value[str(key)]
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return value


def put(value: Json, path: Path, part: Json) -> Json:
    """Returns a copy of a value with another part at a path."""
    if not path:
        return part
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, str(key): put(value.get(str(key)), rest, part)}
    if isinstance(value, list) and isinstance(key, int):
        return [*value[:key], put(value[key], rest, part), *value[key + 1 :]]
    return value


def objects(value: Json, path: Path = ()) -> Iterator[tuple[Path, dict[str, Json]]]:
    """Yields every object in a value, outer ones first."""
    if isinstance(value, dict):
        yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(cast("list[Json]", value))
    for key, each in parts if isinstance(value, (dict, list)) else ():
        if isinstance(each, (dict, list)):
            yield from objects(each, (*path, key))
