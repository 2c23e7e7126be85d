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
_FIELDS_HINT: Final = Sentence("profile.fields")


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
        problem = Sentence("profile.other_kind", name=path.name, kind=kind)
        raise Misconfigured(problem, hint=_FIELDS_HINT)
    try:
        return Profile.model_validate(value)
    except ValidationError as error:
        raise _invalid(path, error) from None


def _read(path: Path) -> object:
    readers = {".toml": _toml, ".yaml": _text, ".yml": _text, ".json": _text}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        hint = Sentence("profile.save_as")
        raise Misconfigured(Sentence("profile.no_kind", name=path.name), hint=hint)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        hint = Sentence("profile.give_path")
        raise Misconfigured(
            Sentence("profile.unreadable", path=path, why=error.strerror), hint=hint
        ) from None
    if len(data) > _LARGEST:
        hint = Sentence("profile.keep_short")
        raise Misconfigured(Sentence("profile.large", name=path.name), hint=hint)
    return reader(path, data)


def _toml(path: Path, data: bytes) -> object:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(
            Sentence("profile.bad_toml", name=path.name, error=error),
            hint=Sentence("profile.correct"),
        ) from None


def _text(path: Path, data: bytes) -> object:
    reading = read_text(data)
    for found in reading.problems:
        problem = Sentence("text.with_reason", text=path.name, reason=found.message)
        raise Misconfigured(problem, hint=found.hint)
    return reading.value


def _invalid(path: Path, error: ValidationError) -> Misconfigured:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(name, Profile.model_fields, otherwise=_FIELDS_HINT)
        return Misconfigured(Sentence("profile.no_field", file=path.name, name=name), hint=hint)
    what = str(first["msg"]).removeprefix("Value error, ")
    hint = Sentence("profile.as_list" if name in _LISTS else "profile.as_text", name=name)
    return Misconfigured(
        Sentence("profile.misfit", file=path.name, name=name, what=what), hint=hint
    )


_LISTS: Final = frozenset({"goals", "tasks", "hard_constraints", "soft_constraints"})
