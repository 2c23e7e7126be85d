"""What several plan formats need when they read loose values, and texts that hold JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final, cast

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json, Path, is_deep
from plansmith.plan.refs import LITERAL
from plansmith.plan.sentence import Sentence
from plansmith_planner.parse.habits import Notes, snake
from plansmith_planner.parse.read import Fits, read_json

# Of JSON Schema: the kinds of fields that the formats have.
TEXT: Final[dict[str, Json]] = {"type": "string"}
FLAG: Final[dict[str, Json]] = {"type": "boolean"}


def loads(text: str) -> Json:
    """Returns the value of a JSON text; None if it is none, or nested too deeply for a plan."""
    try:
        value = cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return None
    return None if is_deep(value) else value


def json_in(text: str, *, fits: Fits | None = None) -> Json:
    """Returns the JSON value in what a model wrote, as `read_json`; None if there is none."""
    try:
        value = read_json(text, fits=fits)
    except UnreadableText:
        return None
    return None if is_deep(value) else value


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


def without_run(
    value: Mapping[str, Json], of_run: Collection[str], notes: Notes, step: str | None = None
) -> dict[str, Json]:
    """Returns an object without what a run or a page adds to it; notes once what was in that."""
    added = [name for name in value if snake(name) in of_run]
    if said := [name for name in added if value[name]]:
        note = Sentence("left out, since a plan is the same without it: {fields}", fields=[*said])
        notes.say(note, step=step)
    return {name: each for name, each in value.items() if name not in added}


def unwrap_literal(value: Json) -> Json:
    """Returns an input as plain data, without `$literal`."""
    return value[LITERAL] if isinstance(value, dict) and value.keys() == {LITERAL} else value
