"""Checks a step's inputs against its tool's schema; problems name the real field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import jsonschema_rs

from plansmith.check.names import KnownTool, Names
from plansmith.check.placeholders import Placeholders, at, objects
from plansmith.check.schemas import Compiled, Schema, Shape
from plansmith.plan.data import Json, Path
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence, did_you_mean, joined
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
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_MOST_FAULTS: Final = 50
_LOOSE_TIME: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)


class CertainError(NamedTuple):
    """An error: the schema's keyword, the place, and what was expected."""

    keyword: str
    path: Path
    detail: Mapping[str, Any]
    message: str
    choices: tuple[list[CertainError], ...] = ()


def certain_errors(schema: Compiled, arguments: Placeholders) -> list[CertainError] | None:
    """Returns the errors of arguments that no reference can mend; None if nothing is certain."""
    if schema.validator is None:
        return None
    found: list[CertainError] = []
    try:
        if schema.validator.is_valid(arguments.value):
            return found
        for error in schema.validator.iter_errors(arguments.value):
            found += _certain(error, arguments)
            if len(found) >= _MOST_FAULTS:
                break
    except (ValueError, TypeError, OverflowError):
        return None
    return found


def _certain(error: jsonschema_rs.ValidationError, arguments: Placeholders) -> list[CertainError]:
    """Returns the error if it is certain; for a choice, the errors of the branch that was meant."""
    keyword, path = error.kind.name, tuple(error.instance_path)
    if type(error.kind).__name__ in _NO_VERDICT or (keyword == "falseSchema" and not path):
        return []
    if path in arguments.unknown and keyword != "falseSchema":
        return []  # a reference alone may become any value
    if not {"then", "else"}.isdisjoint(error.evaluation_path) and arguments.has_placeholders(()):
        return []
    detail = error.kind.as_dict()
    is_open = keyword != "falseSchema" and arguments.has_placeholders(path)
    if keyword not in _CHOICES:
        sure = not is_open or (keyword in _STRUCTURE and not arguments.is_placeholder(path))
        return [CertainError(keyword, path, detail, error.message)] if sure else []
    branches = [
        [fault for each in branch for fault in _certain(each, arguments)]
        for branch in detail["context"]
    ]
    if is_open and not all(branches):
        return []
    if meant := _meant(branches, path):
        return meant
    choices = tuple(branch for branch in branches if branch)
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

    def is_tag(fault: CertainError) -> bool:
        return fault.keyword in ("const", "enum") and len(fault.path) == len(path) + 1

    typed = [branch for branch in branches if branch and not _wrong_types(branch, path)]
    if len(typed) == 1:
        return typed[0]
    tagged = [branch for branch in typed if not any(map(is_tag, branch))]
    return tagged[0] if len(tagged) == 1 else []


def argument_problems(step: str, tool: KnownTool, arguments: Placeholders) -> Iterable[Problem]:
    """Returns the problems of a step's inputs; none if the tool's schema is unusable."""
    found = certain_errors(tool.inputs, arguments)
    if found is None:
        return ()
    cut = [_unchecked(step, tool)] if tool.inputs.is_cut(arguments.value) else []
    undeclared = _undeclared(tool.takes, arguments.value)
    if not found and not undeclared:
        return cut
    writer = _ProblemWriter(step, arguments, tool.takes)
    problems = [each for fault in found for each in writer.problems(fault)]
    reported = {each.path for each in problems}
    warnings = map(writer.undeclared, undeclared)
    return [*cut, *problems, *(each for each in warnings if each.path not in reported)]


def schema_problems(step: str, tool: KnownTool) -> Iterator[Problem]:
    """Yields warnings that a tool's own schemas cannot be used whole; the tool stays usable."""
    flaw, spoilt = tool.inputs.flaw, tool.outputs.flaw
    if not flaw and not spoilt:
        return
    hint = Sentence("correct the schema of the tool")
    if flaw:
        code = "ps.bad_input_schema" if tool.inputs.validator is None else "ps.bad_input_part"
        message = Sentence(code, tool=tool.spec.name, reason=flaw.partition("\n")[0][:160])
        yield problem("PS209", message, hint=hint, step=step, path=("tool",))
    if spoilt:
        message = Sentence(
            "the output schema of '{tool}' is not valid, so its results go unchecked: {reason}",
            tool=tool.spec.name,
            reason=spoilt.partition("\n")[0][:160],
        )
        yield problem("PS209", message, hint=hint, step=step, path=("tool",))


def _unchecked(step: str, tool: KnownTool) -> Problem:
    message = Sentence(
        "the input schema of '{tool}' has too many choices inside of one another, so its "
        "arguments are checked only at the call",
        tool=tool.spec.name,
    )
    hint = Sentence("make the schema of the tool simpler")
    return problem("PS209", message, hint=hint, step=step, path=("tool",))


def _undeclared(takes: Shape, arguments: Json) -> list[Path]:
    """Returns the arguments that a schema does not mention, although it does not forbid them."""
    paths: list[Path] = []
    for path, value in objects(arguments):
        place = takes.inside(path) if path else takes
        if place.is_open or not place.known or place.lost is not None:
            continue
        if not path or all(form["properties"] for form in place.forms):
            paths += [(*path, key) for key in value if key not in place.properties]
    return paths


class _ProblemWriter:
    """Turns schema errors into problems of the plan."""

    def __init__(self, step: str, arguments: Placeholders, takes: Shape) -> None:
        self.step = step
        self.arguments = arguments
        self.takes = takes

    def problems(self, fault: CertainError) -> Iterator[Problem]:
        path = fault.path
        match fault.keyword:
            case "required":
                yield self._missing(path, fault.detail["property"])
            case "additionalProperties" | "unevaluatedProperties":
                for name in fault.detail["unexpected"]:
                    yield self._unknown_argument((*path, name))
            case "falseSchema":
                yield self._unknown_argument(path)
            case "type":
                types = fault.detail["types"]
                hint = Sentence(
                    "write it with quotes" if types == ["string"] else "change the value"
                )
                yield self._wrong("PS201", path, _type_names(types), hint)
            case _ if names := _missing_of_each(fault):
                listed = [Sentence("ps.quoted", text=each) for each in names]
                message = Sentence("{place} needs one of {names}", place=_place(path), names=listed)
                yield self._problem("PS202", message, Sentence("give one of them"), path)
            case _:
                value = at(self.arguments.value, path)
                found = self._wrong("PS204", path, *_wanted(fault, value))
                # A date or time that people and most tools accept.
                loose = fault.keyword == "format" and _LOOSE_TIME.fullmatch(str(value))
                yield found.model_copy(update={"severity": Severity.WARNING}) if loose else found

    def undeclared(self, path: Path) -> Problem:
        return self._unknown_argument(path).model_copy(update={"severity": Severity.WARNING})

    def _missing(self, path: Path, name: str) -> Problem:
        forms = self.takes.inside((*path, name)).forms
        about: Schema = forms[0] if forms else {}
        note = str(about.get("description") or "").strip()
        message = Sentence("the argument '{name}' is missing", name=name)
        if note:
            message = Sentence(
                "the argument '{name}' is missing: {about}", name=name, about=note[:120]
            )
        named = about.get("type")
        types = named if isinstance(named, list) else [named]
        wanted = _type_names([each for each in types if isinstance(each, str) and each in _TYPES])
        if isinstance(options := about.get("enum"), list) and options:
            wanted, _ = _one_of(options, None)
        return self._problem(
            "PS202", message, Sentence("give {wanted}", wanted=wanted), (*path, name)
        )

    def _unknown_argument(self, path: Path) -> Problem:
        present = at(self.arguments.value, path[:-1])
        taken = present if isinstance(present, dict) else dict[str, Json]()
        known = [name for name in self.takes.inside(path[:-1]).properties if name not in taken]
        name = str(path[-1])
        message = Sentence("the tool has no argument '{name}'", name=name)
        near = Names(known).hint(name) if known else Sentence("leave it out")
        return self._problem("PS203", message, near, path)

    def _wrong(self, code: str, path: Path, wanted: str, hint: str) -> Problem:
        value = at(self.arguments.value, path)
        if path in self.arguments.texts:
            given: str = Sentence("a text with a reference")
        elif self.arguments.has_placeholders(path):
            given = Sentence("the value there")
        elif isinstance(value, str):
            given = Sentence("the text {value}", value=short_json(value))
        else:
            given = short_json(value)
        fields = {"place": _place(path), "wanted": wanted, "given": given}
        message = Sentence("{place} should be {wanted}, not {given}", **fields)
        return self._problem(code, message, hint, path)

    def _problem(self, code: str, message: str, hint: str, path: Path) -> Problem:
        where = ("inputs", *self.arguments.real(path))
        return problem(code, message, hint=hint, step=self.step, path=where)


def _missing_of_each(fault: CertainError) -> list[str]:
    """Returns the names of which one is needed, if each branch of a choice only needs another."""
    faults = [each for branch in fault.choices for each in branch]
    if any(each.keyword != "required" or each.path != fault.path for each in faults):
        return []
    return sorted({each.detail["property"] for each in faults})


def _wanted(fault: CertainError, value: Json) -> tuple[str, str]:
    """Returns what a schema wants, and what to do."""
    detail = fault.detail
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


def _place(path: Path) -> str:
    if not path:
        return Sentence("the whole of the arguments")
    return Sentence("ps.quoted", text=".".join(map(str, path)))


def _type_names(names: list[str]) -> str:
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
