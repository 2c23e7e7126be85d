"""Profiles: for whom a plan is made, and the constraints that it has to keep."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from plansmith.errors import Misconfigured
from plansmith.formats.text import read_text
from plansmith.plan.run_options import Profile
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith_planner.context.fence import indented

_LARGEST: Final = 1_000_000
_FIELDS_HINT: Final = Sentence(
    "a profile has name, role, goals, tasks, backstory, "
    "language, tone, hard_constraints and soft_constraints"
)


def about(profile: Profile) -> str:
    """Returns a profile as text, one fact per line, without its constraints."""
    return "\n".join(_facts(profile))


def _facts(profile: Profile) -> Iterator[str]:
    for name in ("name", "role", "backstory", "language", "tone"):
        value = cast("str", getattr(profile, name))
        if value.strip():
            yield f"{name}: {indented(value)}"
    yield from _entries("goals:", profile.goals)
    yield from _entries("tasks:", profile.tasks)


def constraints(profile: Profile) -> str:
    """Returns the constraints of a profile as text; empty if there are none."""
    hard = _entries("hard constraints, the plan keeps every one:", profile.hard_constraints)
    soft = _entries("soft constraints, kept where possible:", profile.soft_constraints)
    return "\n".join([*hard, *soft])


def _entries(heading: str, texts: tuple[str, ...]) -> Iterator[str]:
    if texts:
        yield heading
        yield from (f"- {indented(text)}" for text in texts)


def read_profile(path: Path) -> Profile:
    """Reads a profile from a YAML, JSON or TOML file."""
    value = _read(path)
    if isinstance(value, dict) and value.keys() == {"profile"}:
        value = cast("object", value["profile"])
    if not isinstance(value, dict):
        kind = type(value).__name__
        problem = Sentence("{name} holds a {kind}, not a profile", name=path.name, kind=kind)
        raise Misconfigured(problem, hint=_FIELDS_HINT)
    try:
        return Profile.model_validate(value)
    except ValidationError as error:
        raise _invalid(path, error) from None


def _read(path: Path) -> object:
    readers = {".toml": _toml, ".yaml": _text, ".yml": _text, ".json": _text}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        hint = Sentence("save it as .yaml, .json or .toml")
        raise Misconfigured(
            Sentence("'{name}' is not a YAML, JSON or TOML file", name=path.name), hint=hint
        )
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        hint = Sentence("give the path of a file that exists and can be read")
        raise Misconfigured(
            Sentence("cannot read the profile {path}: {why}", path=path, why=error.strerror),
            hint=hint,
        ) from None
    if len(data) > _LARGEST:
        hint = Sentence(
            "keep to what a planner should know of a person, and give the rest as documents"
        )
        raise Misconfigured(
            Sentence("the profile {name} is larger than a megabyte", name=path.name), hint=hint
        )
    return reader(path, data)


def _toml(path: Path, data: bytes) -> object:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(
            Sentence("{name} is not valid TOML: {error}", name=path.name, error=error),
            hint=Sentence("correct it"),
        ) from None


def _text(path: Path, data: bytes) -> object:
    reading = read_text(data)
    for found in reading.problems:
        problem = Sentence("{text}: {reason}", text=path.name, reason=found.message)
        raise Misconfigured(problem, hint=found.hint)
    return reading.value


def _invalid(path: Path, error: ValidationError) -> Misconfigured:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(name, Profile.model_fields, otherwise=_FIELDS_HINT)
        return Misconfigured(
            Sentence("{file}: a profile has no field '{name}'", file=path.name, name=name),
            hint=hint,
        )
    what = str(first["msg"]).removeprefix("Value error, ")
    hint = Sentence(
        "write '{name}' as text or as a list of texts"
        if name in _LISTS
        else "write '{name}' as text",
        name=name,
    )
    return Misconfigured(
        Sentence("{file}: '{name}' does not fit: {what}", file=path.name, name=name, what=what),
        hint=hint,
    )


_LISTS: Final = frozenset({"goals", "tasks", "hard_constraints", "soft_constraints"})
