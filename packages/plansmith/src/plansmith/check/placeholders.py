"""Replaces unfilled references in arguments by placeholders, so that they can be validated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import cast

from plansmith.plan.data import Json, Path
from plansmith.plan.refs import FIRST, FROM, LITERAL, PLAIN, Found, Ref, find, pieces


class Placeholders:
    """Arguments with a placeholder instead of each reference.

    A reference alone may become any value; a text with references becomes some text. The content
    of a `$literal` is used unchanged. `found` are the references of the step, if they are known;
    the template is at `place` in it.
    """

    def __init__(
        self, template: Json, found: Iterable[Found] | None = None, place: Path = ()
    ) -> None:
        depth = len(place)
        self._found: dict[Path, Ref] = {}
        for each in find(template, place) if found is None else found:
            if each.ref is not None and each.where[:depth] == place:
                self._found[each.where[depth:]] = each.ref
        self.refs: dict[Path, Ref] = {}
        self.unknown: set[Path] = set()
        self.texts: set[Path] = set()
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
        if isinstance(template, str):
            return self._text(template, path) if "{{" in template else template
        if isinstance(template, list):
            return [self._filled(each, (*path, at)) for at, each in enumerate(template)]
        if not isinstance(template, dict):
            return template
        if FROM in template or FIRST in template:
            return self._placeholder(path, self._found.get(path))
        if LITERAL in template and len(template) == 1:
            self._literals.add(path)
            return template[LITERAL]
        return {
            key: each if type(each) in PLAIN else self._filled(each, (*path, key))
            for key, each in template.items()
        }

    def _text(self, text: str, path: Path) -> Json:
        ref = self._found.get(path)
        if ref is None:
            return "".join(map(str, pieces(text)))  # braces that are no reference
        if text.startswith("{{") and text.endswith("}}") and len(pieces(text)) == 1:
            return self._placeholder(path, ref)
        self.texts.add(path)
        return self._mark()

    def _placeholder(self, path: Path, ref: Ref | None) -> str:
        self.unknown.add(path)
        if ref is not None:
            self.refs[path] = ref
        return self._mark()

    def _mark(self) -> str:
        """Returns a text that is never equal to another one or, by chance, to one in a plan."""
        return f"\ue000blank {len(self.unknown) + len(self.texts)}"


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
