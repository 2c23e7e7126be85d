"""Replaces unfilled references in arguments by placeholders, so that they can be validated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from plansmith.plan.data import Json, Path, same
from plansmith.plan.refs import FIRST, FROM, LITERAL, PLAIN, Ref, pieces, ref_of, whole_output

# Never equal to each other or, by chance, to a value in a plan.
_MARK: Final = "\ue000blank "


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
        """Whether the value at a path may be anything."""
        return any(path[:end] in self.unknown for end in range(len(path) + 1))

    def has_placeholders(self, path: Path) -> bool:
        """Whether any value at or below a path is still unknown."""
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

    def could_be(self, value: Json, path: Path) -> bool:
        """Whether the value at a path may turn out to be this value."""
        if path in self.unknown:
            return True
        if path in self.texts:
            return isinstance(value, str)
        mine = at(self.value, path)
        if not self.has_placeholders(path):
            return same(mine, value)
        if isinstance(mine, dict) and isinstance(value, dict):
            keys = mine.keys() == value.keys()
            return keys and all(self.could_be(value[key], (*path, key)) for key in mine)
        if isinstance(mine, list) and isinstance(value, list) and len(mine) == len(value):
            return all(self.could_be(each, (*path, place)) for place, each in enumerate(value))
        return False

    def _filled(self, template: Json, path: Path) -> Json:
        # Most arguments are plain, and a call for each would cost more than the rest.
        match template:
            case str():
                return self._text(template, path)
            case dict() if FROM in template:
                return self._placeholder(ref_of(template), path)
            case dict() if FIRST in template:
                return self._placeholder(None, path)
            case dict() if LITERAL in template and len(template) == 1:
                self._literals.add(path)
                return template[LITERAL]
            case dict():
                return {
                    key: each
                    if type(each) in PLAIN or (type(each) is str and "{{" not in each)
                    else self._list(each, (*path, key))
                    if type(each) is list
                    else self._filled(each, (*path, key))
                    for key, each in template.items()
                }
            case list():
                return self._list(template, path)
            case _:
                return template

    def _list(self, template: list[Json], path: Path) -> Json:
        filled: list[Json] = []
        for place, each in enumerate(template):
            if type(each) in PLAIN:
                filled += (each,)
                continue
            source = each[FROM] if type(each) is dict and FROM in each else None
            ref = whole_output(source) if type(source) is str and each == {FROM: source} else None
            if ref is None:
                filled += (self._filled(each, (*path, place)),)
            else:  # the result of a step, as most lists hold them
                self.unknown |= {(*path, place)}
                self.refs[(*path, place)] = ref
                self._marks += 1
                filled += (f"{_MARK}{self._marks}",)
        return filled

    def _text(self, text: str, path: Path) -> Json:
        if "{{" not in text:
            return text
        parts = pieces(text)
        if len(parts) == 1 and isinstance(parts[0], Ref):
            return self._placeholder(parts[0], path)
        if any(isinstance(part, Ref) for part in parts):
            self.texts.add(path)
            self._marks += 1
            return f"{_MARK}{self._marks}"
        return "".join(part for part in parts if isinstance(part, str))

    def _placeholder(self, ref: Ref | None, path: Path) -> Json:
        self.unknown |= {path}
        if ref is not None:
            self.refs[path] = ref
        self._marks += 1
        return f"{_MARK}{self._marks}"


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
        for key, each in value.items():
            yield from objects(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from objects(each, (*path, place))
