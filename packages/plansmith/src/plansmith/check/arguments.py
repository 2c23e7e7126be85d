"""Checks a step's inputs against its tool's schema; problems name the real field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import jsonschema_rs

from plansmith.check.names import Names
from plansmith.check.placeholders import Placeholders, at, objects
from plansmith.check.schemas import Schema, Shape, Unusable, compiled, inside
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, Path
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence, did_you_mean, joined
from plansmith.plan.steps import ToolStep
from plansmith.text import clip

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


_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_BOUNDS: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "additionalItems",
    }
)
_LOOSE_TIME: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)
_UNEXPECTED: Final = frozenset({"additionalProperties", "unevaluatedProperties"})


def argument_problems(
    step: ToolStep, spec: ToolSpec, *, takes: Shape, arguments: Placeholders | None = None
) -> list[Problem]:
    """Returns the problems of a step's inputs; none if the tool's schema is unusable."""
    arguments = arguments or Placeholders(step.inputs)
    found = certain_errors(spec.input_schema, arguments)
    if isinstance(found, Unusable):
        return []
    writer = _ProblemWriter(step.id, arguments, takes)
    problems = [each for fault in found for each in writer.problems(fault)]
    reported = {each.path for each in problems}
    return problems + [each for each in writer.unknown_arguments() if each.path not in reported]


def schema_problems(spec: ToolSpec, step: str) -> Iterator[Problem]:
    """Yields warnings that a tool's own schemas are invalid; the tool stays usable."""
    usable = compiled(spec.input_schema)
    if usable.flaw:
        code = "ps.bad_input_part" if usable.validator is not None else "ps.bad_input_schema"
        message = Sentence(code, tool=spec.name, reason=usable.flaw.splitlines()[0][:160])
        hint = Sentence("correct the schema of the tool")
        yield problem("PS209", message, hint=hint, step=step, path=("tool",))
    flaw = compiled(spec.output_schema).flaw if spec.output_schema is not None else ""
    if flaw:
        reason, hint = flaw.splitlines()[0][:160], Sentence("correct the schema of the tool")
        message = Sentence(
            "the output schema of '{tool}' is not valid, so its results go unchecked: {reason}",
            tool=spec.name,
            reason=reason,
        )
        yield problem("PS209", message, hint=hint, step=step, path=("tool",))


class _ProblemWriter:
    """Turns schema errors into problems of the plan."""

    def __init__(self, step: str, arguments: Placeholders, form: Shape) -> None:
        self.step = step
        self.arguments = arguments
        self.shape = form

    def problems(self, fault: CertainError) -> Iterator[Problem]:
        if fault.keyword == "required":
            yield self._missing(fault.path, fault.detail["property"])
        elif fault.keyword in _UNEXPECTED:
            for name in fault.detail["unexpected"]:
                yield self._unknown_argument((*fault.path, name), Severity.ERROR)
        elif fault.keyword == "falseSchema":
            yield self._unknown_argument(fault.path, Severity.ERROR)
        elif fault.keyword == "type":
            wanted = _types(fault.detail["types"])
            yield self._wrong("PS201", fault.path, wanted, _type_hint(fault.detail["types"]))
        elif fault.choices and all(_is_missing(branch, fault.path) for branch in fault.choices):
            names = sorted({each.detail["property"] for one in fault.choices for each in one})
            listed = [Sentence("ps.quoted", text=each) for each in names]
            message = Sentence(
                "{place} needs one of {names}", place=self._name(fault.path), names=listed
            )
            yield self._problem("PS202", message, Sentence("give one of them"), fault.path)
        else:
            wanted, hint = self._wanted(fault)
            found = self._wrong("PS204", fault.path, wanted, hint)
            loose = fault.keyword == "format" and _is_loose_time(
                at(self.arguments.value, fault.path)
            )
            yield found.model_copy(update={"severity": Severity.WARNING}) if loose else found

    def unknown_arguments(self) -> Iterator[Problem]:
        """Yields arguments that the schema does not mention, although it does not forbid them."""
        for path, value in objects(self.arguments.value):
            place = inside(self.shape, path)
            if not place.known or place.undeclared:
                continue
            for key in value:
                declared = [_declares(form, key, top=not path) for form in place.forms]
                if not any(declared):
                    yield self._unknown_argument((*path, key), Severity.WARNING)

    def _missing(self, path: Path, name: str) -> Problem:
        about = _first(inside(self.shape, (*path, name)))
        note = str(about.get("description") or "").strip()
        message = Sentence("the argument '{name}' is missing", name=name)
        if note:
            message = Sentence(
                "the argument '{name}' is missing: {about}", name=name, about=note[:120]
            )
        hint = Sentence("give {wanted}", wanted=_expected(about))
        return self._problem("PS202", message, hint, (*path, name))

    def _unknown_argument(self, path: Path, severity: Severity) -> Problem:
        around = inside(self.shape, path[:-1])
        present = at(self.arguments.value, path[:-1])
        taken = present if isinstance(present, dict) else dict[str, Json]()
        known = [name for name in _property_names(around) if name not in taken]
        name = path[-1]
        message = Sentence("the tool has no argument '{name}'", name=str(name))
        near = Names(known).hint(str(name)) if known else Sentence("leave it out")
        found = self._problem("PS203", message, near, path)
        return found.model_copy(update={"severity": severity})

    def _wrong(self, code: str, path: Path, wanted: str, hint: str) -> Problem:
        fields = {"place": self._name(path), "wanted": wanted, "given": self._shown(path)}
        message = Sentence("{place} should be {wanted}, not {given}", **fields)
        return self._problem(code, message, hint, path)

    def _wanted(self, fault: CertainError) -> tuple[str, str]:
        detail, value = fault.detail, at(self.arguments.value, fault.path)
        match fault.keyword:
            case "enum":
                return _one_of(detail["options"], value)
            case "const":
                return short_json(detail["expected_value"]), Sentence("use exactly this value")
            case "pattern":
                pattern = Sentence("a text like {pattern}", pattern=detail["pattern"])
                return pattern, Sentence("see the pattern of the tool's schema")
            case "format":
                form = detail["format"]
                return Sentence("a valid {format}", format=form), Sentence(
                    "write it as a {format}", format=form
                )
            case "multipleOf":
                multiple = Sentence("a multiple of {number}", number=str(detail["multiple_of"]))
                return multiple, Sentence("choose another number")
            case "uniqueItems":
                return Sentence("a list without repetition"), Sentence("remove the duplicates")
            case keyword if keyword in _BOUNDS:
                bound = Sentence(f"bound.{keyword}", limit=str(detail["limit"]))
                return bound, Sentence("keep to the bounds of the tool")
            case _:
                hint = Sentence("the schema says: {reason}", reason=fault.message[:160])
                return Sentence("what the schema allows"), hint

    def _shown(self, path: Path) -> str:
        if path in self.arguments.texts:
            return Sentence("a text with a reference")
        if self.arguments.has_placeholders(path):
            return Sentence("the value there")
        value = at(self.arguments.value, path)
        text = short_json(value)
        return Sentence("the text {value}", value=text) if isinstance(value, str) else text

    def _name(self, path: Path) -> str:
        if not path:
            return Sentence("the whole of the arguments")
        return Sentence("ps.quoted", text=".".join(map(str, path)))

    def _problem(self, code: str, message: str, hint: str, path: Path) -> Problem:
        where = ("inputs", *self.arguments.real(path))
        return problem(code, message, hint=hint, step=self.step, path=where)


def _is_loose_time(value: Json) -> bool:
    """Whether a text is a date or time that people and most tools accept."""
    return isinstance(value, str) and bool(_LOOSE_TIME.fullmatch(value))


def _is_missing(branch: tuple[CertainError, ...], path: Path) -> bool:
    return all(fault.keyword == "required" and fault.path == path for fault in branch)


def _declares(form: Schema, key: str, *, top: bool) -> bool:
    """Whether a schema mentions a key, or accepts any."""
    properties = form.get("properties")
    if not isinstance(properties, dict) or (not properties and not top):
        return True
    openers = ("additionalProperties", "unevaluatedProperties", "patternProperties")
    return key in properties or any(each in form for each in openers)


def _property_names(place: Shape) -> list[str]:
    tables = [form.get("properties") for form in place.forms]
    names = [name for table in tables if isinstance(table, dict) for name in table]
    return list(dict.fromkeys(names))


def _first(place: Shape) -> Schema:
    return place.forms[0] if place.forms else {}


def _expected(form: Schema) -> str:
    """Describes a value of this schema."""
    if isinstance(options := form.get("enum"), list) and options:
        return _one_of(options, None)[0]
    named = form.get("type")
    types = named if isinstance(named, list) else [named]
    return _types([each for each in types if isinstance(each, str) and each in _TYPES])


def _types(names: list[str]) -> str:
    words = [Sentence(f"type.{each}") for each in names]
    return joined(words, "text.or") or Sentence("a value")


def _type_hint(types: list[str]) -> str:
    return Sentence("write it with quotes" if types == ["string"] else "change the value")


def _one_of(options: list[Json], value: Json) -> tuple[str, str]:
    shown = [short_json(each) for each in options[:8]]
    wanted = Sentence("one of {options}", options=shown)
    if len(options) > 8:
        wanted = Sentence("one of {options} or {more} others", options=shown, more=len(options) - 8)
    texts = [each for each in options if isinstance(each, str)]
    name = value if isinstance(value, str) else ""
    return wanted, did_you_mean(name, texts, otherwise=Sentence("hint.choose_one"))


def short_json(value: Json) -> str:
    """Returns a value as short JSON, to be used in a sentence."""
    return clip(json.dumps(value, ensure_ascii=False), 60)
