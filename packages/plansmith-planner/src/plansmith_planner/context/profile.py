"""Profiles: for whom a plan is made, and the constraints that it has to keep."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from plansmith.errors import Misconfigured
from plansmith.formats.text import read_text
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import Profile
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith_planner.context.fence import indented

_LARGEST: Final = 1_000_000
_KINDS: Final = (".toml", ".yaml", ".yml", ".json")
_TEXTS: Final = ("name", "role", "backstory", "language", "tone")
_FIELDS_HINT: Final = Sentence(
    "a profile has name, role, goals, tasks, backstory, "
    "language, tone, hard_constraints and soft_constraints"
)


def about(profile: Profile) -> str:
    """Returns a profile as text, one fact per line, without its constraints."""
    given = {name: cast("str", getattr(profile, name)) for name in _TEXTS}
    facts = [f"{name}: {indented(value)}" for name, value in given.items() if value.strip()]
    return "\n".join([*facts, *_list("goals:", profile.goals), *_list("tasks:", profile.tasks)])


def constraints(profile: Profile) -> str:
    """Returns the constraints of a profile as text; empty if there are none."""
    hard = _list("hard constraints, the plan keeps every one:", profile.hard_constraints)
    soft = _list("soft constraints, kept where possible:", profile.soft_constraints)
    return "\n".join([*hard, *soft])


def _list(heading: str, texts: tuple[str, ...]) -> Iterator[str]:
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
    name = path.name
    if path.suffix.lower() not in _KINDS:
        hint = Sentence("save it as .yaml, .json or .toml")
        problem = Sentence("'{name}' is not a YAML, JSON or TOML file", name=name)
        raise Misconfigured(problem, hint=hint)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        hint = Sentence("give the path of a file that exists and can be read")
        why = error.strerror
        problem = Sentence("cannot read the profile {path}: {why}", path=path, why=why)
        raise Misconfigured(problem, hint=hint) from None
    if len(data) > _LARGEST:
        hint = Sentence(
            "keep to what a planner should know of a person, and give the rest as documents"
        )
        problem = Sentence("the profile {name} is larger than a megabyte", name=name)
        raise Misconfigured(problem, hint=hint)
    if path.suffix.lower() != ".toml":
        found = read_text(data)
        if isinstance(found, Problem):
            problem = Sentence("{text}: {reason}", text=name, reason=found.message)
            raise Misconfigured(problem, hint=found.hint)
        return found
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problem = Sentence("{name} is not valid TOML: {error}", name=name, error=error)
        raise Misconfigured(problem, hint=Sentence("correct it")) from None


def _invalid(path: Path, error: ValidationError) -> Misconfigured:
    first = error.errors(include_url=False)[0]
    name, file = str(first["loc"][0]) if first["loc"] else "", path.name
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(name, Profile.model_fields, otherwise=_FIELDS_HINT)
        problem = Sentence("{file}: a profile has no field '{name}'", file=file, name=name)
        return Misconfigured(problem, hint=hint)
    what = str(first["msg"]).removeprefix("Value error, ")
    hint = Sentence(
        "write '{name}' as text"
        if name in _TEXTS
        else "write '{name}' as text or as a list of texts",
        name=name,
    )
    problem = Sentence("{file}: '{name}' does not fit: {what}", file=file, name=name, what=what)
    return Misconfigured(problem, hint=hint)
