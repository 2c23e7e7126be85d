"""What several plan formats need when they read loose values."""

from __future__ import annotations

from plansmith.plan.data import Json, Path
from plansmith.plan.refs import LITERAL
from plansmith.plan.sentence import Sentence
from plansmith_planner.parse.habits import Notes, snake


def names_of(value: Json) -> set[str]:
    """Returns the field names of an object, all in one spelling; none of anything else."""
    return {snake(name) for name in value} if isinstance(value, dict) else set()


def drop_entry(value: Json, place: int, notes: Notes, hint: str, path: Path = ()) -> None:
    """Notes that an entry in a list of steps is dropped, since it is none."""
    text = repr(str(value)[:80])
    message = Sentence("entry {place} is not a step: {text}", place=place, text=text)
    notes.drop(message, hint=hint, path=path)


def leave_out_field(name: str, value: Json, notes: Notes, step: str | None = None) -> None:
    """Notes that a field is left out."""
    message = Sentence("the field '{name}' has no place in a plan: it is left out", name=name)
    notes.leave_out(name, value, message, step=step)


def unwrap_literal(value: Json) -> Json:
    """Returns an input as plain data, without `$literal`."""
    return value[LITERAL] if isinstance(value, dict) and value.keys() == {LITERAL} else value
