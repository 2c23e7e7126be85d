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
    if type(error.kind).__name__ in _NO_VERDICT:
        return False
    if path in arguments.unknown:  # a reference alone may become any value
        return keyword == "falseSchema"
    under_condition = not {"then", "else"}.isdisjoint(error.evaluation_path)
    if under_condition and arguments.has_placeholders(()):
        return False
    if keyword == "falseSchema" or not arguments.has_placeholders(path):
        return True
    if keyword in _CHOICES:
        branches = error.kind.as_dict()["context"]
        return all(any(_is_certain(each, arguments) for each in one) for one in branches)
    return keyword in _STRUCTURE and not arguments.is_placeholder(path)


def _explained(error: jsonschema_rs.ValidationError, arguments: Placeholders) -> list[CertainError]:
    """Returns the error; for a choice, the errors of the one branch that was meant."""
    path, detail = tuple(error.instance_path), error.kind.as_dict()
    keyword = error.kind.name
    if keyword not in _CHOICES:
        return [CertainError(keyword, path, detail, error.message)]
    branches = [
        [
            fault
            for each in branch
            if _is_certain(each, arguments)
            for fault in _explained(each, arguments)
        ]
        for branch in detail["context"]
    ]
    if meant := _meant(branches, path):
        return meant
    choices = tuple(tuple(branch) for branch in branches if branch)
    wrong = [_wrong_types(branch, path) for branch in branches]
    types = sorted({kind for kinds in wrong for kind in kinds})
    keyword = "type" if choices and all(wrong) else keyword
    return [CertainError(keyword, path, {"types": types}, error.message, choices)]


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
    taken, given = compiled(spec.input_schema), compiled(spec.output_schema or {})
    code = "ps.bad_input_schema" if taken.validator is None else "ps.bad_input_part"
    reasons = [each.flaw.partition("\n")[0][:160] for each in (taken, given)]
    messages = (
        Sentence(code, tool=spec.name, reason=reasons[0]),
        Sentence(
            "the output schema of '{tool}' is not valid, so its results go unchecked: {reason}",
            tool=spec.name,
            reason=reasons[1],
        ),
    )
    hint = Sentence("correct the schema of the tool")
    for message, reason in zip(messages, reasons, strict=True):
        if reason:
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
            types = fault.detail["types"]
            quotes = Sentence("write it with quotes" if types == ["string"] else "change the value")
            yield self._wrong("PS201", fault.path, _types(types), quotes)
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
            # A date or time that people and most tools accept.
            given = str(at(self.arguments.value, fault.path))
            loose = fault.keyword == "format" and _LOOSE_TIME.fullmatch(given)
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
        about = next(iter(inside(self.shape, (*path, name)).forms), dict[str, Any]())
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
        known = [name for name in around.properties if name not in taken]
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
                wanted = Sentence("a valid {format}", format=detail["format"])
                return wanted, Sentence("write it as a {format}", format=detail["format"])
            case "multipleOf":
                multiple = Sentence("a multiple of {number}", number=str(detail["multiple_of"]))
                return multiple, Sentence("choose another number")
            case "uniqueItems":
                return Sentence("a list without repetition"), Sentence("remove the duplicates")
            case keyword if "limit" in detail:
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


def _is_missing(branch: tuple[CertainError, ...], path: Path) -> bool:
    return all(fault.keyword == "required" and fault.path == path for fault in branch)


def _declares(form: Schema, key: str, *, top: bool) -> bool:
    """Whether a schema mentions a key, or accepts any."""
    properties = form.get("properties")
    if not isinstance(properties, dict) or (not properties and not top):
        return True
    openers = ("additionalProperties", "unevaluatedProperties", "patternProperties")
    return key in properties or any(each in form for each in openers)


def _expected(form: Schema) -> str:
    if isinstance(options := form.get("enum"), list) and options:
        return _one_of(options, None)[0]
    named = form.get("type")
    types = named if isinstance(named, list) else [named]
    return _types([each for each in types if isinstance(each, str) and each in _TYPES])


def _types(names: list[str]) -> str:
    words = [Sentence(f"type.{each}") for each in names]
    return joined(words, "text.or") or Sentence("a value")


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
