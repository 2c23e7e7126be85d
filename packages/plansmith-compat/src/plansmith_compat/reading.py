"""What several plan formats need when they read loose values."""

from __future__ import annotations

from typing import Final

from plansmith.plan.data import Json, Path
from plansmith.plan.refs import LITERAL
from plansmith.plan.sentence import Sentence
from plansmith_planner.parse.habits import Notes, snake

# Of JSON Schema: the kinds of fields that the formats have.
TEXT: Final[dict[str, Json]] = {"type": "string"}
FLAG: Final[dict[str, Json]] = {"type": "boolean"}


def choice(*words: str) -> dict[str, Json]:
    """Returns the schema of a text that is one of these."""
    return {"type": "string", "enum": [*words]}


def listed(item: Json) -> dict[str, Json]:
    """Returns the schema of a list of such items."""
    return {"type": "array", "items": item}


def names_of(value: Json) -> set[str]:
    """Returns the field names of an object, all in one spelling; none of anything else."""
    return {snake(name) for name in value} if isinstance(value, dict) else set()


def drop_entry(value: Json, place: int, notes: Notes, hint: str, path: Path = ()) -> None:
    """Notes that an entry in a list of steps is dropped, since it is none."""
    text = repr(str(value)[:80])
    message = Sentence("entry {place} is not a step: {text}", place=place, text=text)
    notes.drop(message, hint=hint, path=path)


def unwrap_literal(value: Json) -> Json:
    """Returns an input as plain data, without `$literal`."""
    return value[LITERAL] if isinstance(value, dict) and value.keys() == {LITERAL} else value
