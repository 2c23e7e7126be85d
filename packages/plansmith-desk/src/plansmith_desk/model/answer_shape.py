"""A result as the rules of answers see it, and what they make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from plansmith.report.result_text import Language, table

Fields = Mapping[str, Any]
MOST_NAMES: Final = 12
MOST_ROWS: Final = 20


class Answer(NamedTuple):
    """What a result says, by rules; `effect` if something was written, moved or deleted."""

    text: str
    effect: bool = False


class Asked(NamedTuple):
    """A request and the language of its answer."""

    request: str
    language: Language

    def say(self, english: str, chinese: str) -> str:
        """Returns the words in the language of the answer."""
        return chinese if self.language == "zh" else english

    def joined(self, names: Sequence[str]) -> str:
        """Returns names as a list within a sentence."""
        return self.say(", ", "、").join(names)


def table_in(rows: Sequence[Fields], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Writes rows as a table whose columns have other names; their own if two would be alike."""
    if len(set(labels)) < len(names):
        return list(table(rows, names))
    renamed = dict(zip(names, labels, strict=True))
    shown = [{renamed[name]: row.get(name) for name in names} for row in rows]
    return list(table(shown, labels))


def list_in(fields: Fields, name: str) -> list[Any]:
    """Returns the list that a field holds; refuses anything else."""
    value = fields[name]
    if not isinstance(value, list):
        raise TypeError(name)
    return list(cast("Sequence[Any]", value))


Rule = Callable[[Fields, Asked], Answer | None]
