"""Finds errors in arguments that are certain whatever the references will contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import jsonschema_rs

from plansmith.check.placeholders import Placeholders
from plansmith.check.schemas import Schema, Unusable, compiled
from plansmith.plan.data import Path

# Keywords about keys, counts and types, which are known even if the contents are not.
_STRUCTURE: Final = frozenset({
    "type", "required", "additionalProperties", "additionalItems", "minProperties",
    "maxProperties", "minItems", "maxItems", "propertyNames", "uniqueItems",
})  # fmt: skip
# Failures of the validator itself say nothing about the value.
_NO_VERDICT: Final = frozenset(
    {"BacktrackLimitExceeded", "RegexEngineFailure", "Referencing", "FromUtf8", "Custom"}
)
_CHOICES: Final = frozenset({"anyOf", "oneOf"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "prefixItems"})
_BY_ITSELF: Final = frozenset(
    {
        "additionalProperties",
        "unevaluatedProperties",
        "additionalItems",
        "unevaluatedItems",
        "contains",
    }
)
_NUMBERED: Final = frozenset({"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"})
_MOST_FAULTS: Final = 50


class CertainError(NamedTuple):
    """An error: the schema's keyword, the place, and what was expected."""

    keyword: str
    path: Path
    detail: Mapping[str, Any]
    message: str
    choices: tuple[tuple[CertainError, ...], ...] = ()


def certain_errors(schema: Schema, arguments: Placeholders) -> list[CertainError] | Unusable:
    """Returns the certain errors of arguments, or why the schema is unusable."""
    usable = compiled(schema)
    if usable.validator is None:
        return Unusable(usable.flaw)
    found: list[CertainError] = []
    try:
        for error in usable.validator.iter_errors(arguments.value):
            if _is_certain(error, arguments):
                found += _explained(error, arguments)
            if len(found) >= _MOST_FAULTS:
                break
    except (ValueError, TypeError, OverflowError) as error:
        return Unusable(str(error))
    return found


def _is_certain(error: jsonschema_rs.ValidationError, arguments: Placeholders) -> bool:
    keyword, path = error.kind.name, tuple(error.instance_path)
    if path in arguments.unknown and keyword != "falseSchema":
        return False  # a reference alone may become any value
    if type(error.kind).__name__ in _NO_VERDICT:
        return False
    level = _condition_depth(error.evaluation_path)
    if level is not None and arguments.has_placeholders(path[:level]):
        return False
    if keyword == "falseSchema" or not arguments.has_placeholders(path):
        return True
    return not arguments.is_placeholder(path) and _is_certain_despite_placeholders(
        error, path, arguments
    )


def _is_certain_despite_placeholders(
    error: jsonschema_rs.ValidationError, path: Path, arguments: Placeholders
) -> bool:
    detail = error.kind.as_dict()
    match error.kind.name:
        case "enum":
            return not any(arguments.could_be(each, path) for each in detail["options"])
        case "const":
            return not arguments.could_be(detail["expected_value"], path)
        case "anyOf" | "oneOf":
            branches = detail["context"]
            return all(any(_is_certain(each, arguments) for each in one) for one in branches)
        case keyword:
            return keyword in _STRUCTURE


def _condition_depth(place: Iterable[str | int]) -> int | None:
    """Returns how deep in the value the outermost `if` is that a keyword depends on."""
    parts = list(place)
    depth = index = 0
    while index < len(parts):
        part = parts[index]
        if part in ("then", "else"):
            return depth
        follows = index + 1 < len(parts)
        numbered = part == "items" and follows and isinstance(parts[index + 1], int)
        depth += part in _BY_NAME or part in _BY_ITSELF or part == "items"
        index += 2 if part in _BY_NAME or part in _NUMBERED or numbered else 1
    return None


def _explained(error: jsonschema_rs.ValidationError, arguments: Placeholders) -> list[CertainError]:
    """Returns the error; for a choice, the errors of the one branch that was meant."""
    path, detail = tuple(error.instance_path), error.kind.as_dict()
    keyword = error.kind.name
    if keyword not in _CHOICES:
        return [CertainError(keyword, path, detail, error.message)]
    branches = [list(_branch(each, arguments)) for each in detail["context"]]
    meant = _meant(branches, path)
    if meant:
        return meant
    choices = tuple(tuple(branch) for branch in branches if branch)
    types = sorted({kind for branch in branches for kind in _wrong_types(branch, path)})
    if choices and all(_wrong_types(branch, path) for branch in branches):
        return [CertainError("type", path, {"types": types}, error.message, choices)]
    return [CertainError(keyword, path, {"types": types}, error.message, choices)]


def _branch(
    errors: Iterable[jsonschema_rs.ValidationError], arguments: Placeholders
) -> Iterator[CertainError]:
    for each in errors:
        if _is_certain(each, arguments):
            yield from _explained(each, arguments)


def _wrong_types(branch: Iterable[CertainError], path: Path) -> list[str]:
    return [
        kind
        for fault in branch
        if fault.keyword == "type" and fault.path == path
        for kind in fault.detail["types"]
    ]


def _meant(branches: list[list[CertainError]], path: Path) -> list[CertainError]:
    """Returns the errors of the only branch with the right type or discriminator."""
    typed = [branch for branch in branches if branch and not _wrong_types(branch, path)]
    if len(typed) == 1:
        return typed[0]
    tagged = [branch for branch in typed if not any(_is_tag(each, path) for each in branch)]
    return tagged[0] if len(tagged) == 1 else []


def _is_tag(fault: CertainError, path: Path) -> bool:
    return fault.keyword in ("const", "enum") and len(fault.path) == len(path) + 1


def under(found: Iterable[CertainError], path: Path) -> list[CertainError]:
    """Returns the errors at or below a path."""
    return [fault for fault in found if fault.path[: len(path)] == path]
