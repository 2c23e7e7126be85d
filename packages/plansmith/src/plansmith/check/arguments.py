"""Checks a step's inputs against its tool's schema; problems name the real field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import jsonschema_rs

from plansmith.check.names import KnownTool, Names
from plansmith.check.schemas import Compiled, Schema, at
from plansmith.plan.data import Json, Path
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.refs import FIRST, FROM, LITERAL, Ref, has_no_refs, pieces, ref_of
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
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_MAX_FAULTS: Final = 50
_LOOSE_TIME: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)


class Placeholders:
    """Arguments with a placeholder instead of each reference.

    A reference alone may become any value; a text with references becomes some text. The content
    of a `$literal` is used unchanged. `refs` are the references alone, by place.
    """

    def __init__(self, template: Json) -> None:
        self.refs: dict[Path, Ref] = {}
        self.unknown: set[Path] = set()
        self.texts: set[Path] = set()
        self._literals: set[Path] = set()
        self.value = self._filled(template, ())

    def is_placeholder(self, path: Path) -> bool:
        return any(path[:end] in self.unknown for end in range(len(path) + 1))

    def has_placeholders(self, path: Path) -> bool:
        return path in self._around or path in self.texts or self.is_placeholder(path)

    @cached_property
    def _around(self) -> set[Path]:
        """The places that have a placeholder below them."""
        found = self.unknown | self.texts
        return {path[:end] for path in found for end in range(len(path))}

    def real(self, path: Path) -> Path:
        """Returns the path in the plan: a value in a `$literal` is one key deeper there."""
        for end in range(len(path) + 1):
            if path[:end] in self._literals:
                return (*path[:end], LITERAL, *path[end:])
        return path

    def _filled(self, template: Json, path: Path) -> Json:
        if isinstance(template, str):
            return self._text(template, path) if "{{" in template else template
        if isinstance(template, list):
            return [
                each if has_no_refs(each) else self._filled(each, (*path, place))
                for place, each in enumerate(template)
            ]
        if not isinstance(template, dict):
            return template
        if FROM in template or FIRST in template:
            ref = ref_of(template) if FROM in template else None
            return self._mark(self.unknown, path, ref)
        if LITERAL in template and len(template) == 1:
            self._literals.add(path)
            return template[LITERAL]
        return {
            key: each if has_no_refs(each) else self._filled(each, (*path, key))
            for key, each in template.items()
        }

    def _text(self, text: str, path: Path) -> Json:
        parts = pieces(text)
        if len(parts) == 1 and isinstance(parts[0], Ref):
            return self._mark(self.unknown, path, parts[0])
        if any(isinstance(each, Ref) for each in parts):
            return self._mark(self.texts, path)
        return "".join(map(str, parts))  # braces that are no reference

    def _mark(self, places: set[Path], path: Path, ref: Ref | None = None) -> str:
        """Returns a text that is never equal to another one or, by chance, to one in a plan."""
        places.add(path)
        if ref is not None:
            self.refs[path] = ref
        return f"\ue000blank {len(self.unknown) + len(self.texts)}"


class CertainError(NamedTuple):
    """An error: the schema's keyword, the place, and what was expected."""

    keyword: str
    path: Path
    detail: Mapping[str, Any]
    message: str


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
            if len(found) >= _MAX_FAULTS:
                break
    except (ValueError, TypeError, OverflowError):
        return None
    return found


def _certain(error: jsonschema_rs.ValidationError, arguments: Placeholders) -> list[CertainError]:
    """Returns the error if it is certain; for a choice, the errors of the branch that was meant."""
    keyword, path = error.kind.name, tuple(error.instance_path)
    is_false = keyword == "falseSchema"
    if type(error.kind).__name__ in _NO_VERDICT or (is_false and not path):
        return []
    if path in arguments.unknown and not is_false:
        return []  # a reference alone may become any value
    if not {"then", "else"}.isdisjoint(error.evaluation_path) and arguments.has_placeholders(()):
        return []
    detail = error.kind.as_dict()
    is_open = not is_false and arguments.has_placeholders(path)
    if keyword in ("anyOf", "oneOf"):
        branches = [
            [fault for inner in branch for fault in _certain(inner, arguments)]
            for branch in detail["context"]
        ]
        return [] if is_open and not all(branches) else _meant(branches, path, error)
    sure = not is_open or (keyword in _STRUCTURE and not arguments.is_placeholder(path))
    return [CertainError(keyword, path, detail, error.message)] if sure else []


def _meant(
    branches: list[list[CertainError]], path: Path, error: jsonschema_rs.ValidationError
) -> list[CertainError]:
    """Returns the errors of the only branch with the right type or discriminator, or of all."""
    wrong = [
        [kind for flaw in branch if (flaw.keyword, flaw.path) == ("type", path)
         for kind in flaw.detail["types"]]
        for branch in branches
    ]  # fmt: skip
    typed = [branch for branch, types in zip(branches, wrong, strict=True) if branch and not types]
    tagged = [
        branch
        for branch in typed
        if not any(
            flaw.keyword in ("const", "enum") and len(flaw.path) == len(path) + 1 for flaw in branch
        )
    ]
    for likely in (typed, tagged):
        if len(likely) == 1:
            return likely[0]
    detail = {"types": sorted({kind for types in wrong for kind in types})}
    keyword = "type" if branches and all(wrong) else error.kind.name
    return [CertainError(keyword, path, detail, error.message)]


def argument_problems(step: str, tool: KnownTool, arguments: Placeholders) -> list[Problem]:
    """Returns the problems of a step's inputs; none if the tool's schema is unusable."""
    found = certain_errors(tool.inputs, arguments)
    if found is None:
        return []
    problems: list[Problem] = []
    if found or tool.lists_fields:
        writer = _ProblemWriter(step, arguments, tool)
        problems += [each for fault in found for each in writer.problems(fault)]
        wrong = [each.path for each in problems]
        more = writer.undeclared(arguments.value) if tool.lists_fields else ()
        problems += [each for each in more if each.path not in wrong]
    if tool.inputs.is_cut(arguments.value):
        message = Sentence(
            "the input schema of '{tool}' has too many choices inside of one another, so its "
            "arguments are checked only at the call",
            tool=tool.spec.name,
        )
        hint = Sentence("make the schema of the tool simpler")
        problems.insert(0, problem("PS209", message, hint=hint, step=step, path=("tool",)))
    return problems


def schema_problems(step: str, tool: KnownTool) -> Iterator[Problem]:
    """Yields warnings that a tool's own schemas cannot be used; the tool itself can."""
    for flaw, text in (
        (tool.inputs.flaw, "ps.bad_input_schema"),
        (tool.outputs.flaw, "ps.bad_output_schema"),
    ):
        if flaw:
            reason = flaw.partition("\n")[0][:160]
            message = Sentence(text, tool=tool.spec.name, reason=reason)
            hint = Sentence("correct the schema of the tool")
            yield problem("PS209", message, hint=hint, step=step, path=("tool",))


class _ProblemWriter:
    """Turns schema errors into problems of the plan."""

    def __init__(self, step: str, arguments: Placeholders, tool: KnownTool) -> None:
        self.step, self.arguments, self.tool = step, arguments, tool

    def problems(self, fault: CertainError) -> Iterator[Problem]:
        path = fault.path
        match fault.keyword:
            case "required":
                yield self._missing((*path, fault.detail["property"]))
            case "additionalProperties" | "unevaluatedProperties":
                for name in fault.detail["unexpected"]:
                    yield self._unknown((*path, name))
            case "falseSchema":
                yield self._unknown(path)
            case "type":
                types = fault.detail["types"]
                hint = Sentence(
                    "write it with quotes" if types == ["string"] else "change the value"
                )
                yield self._wrong("PS201", path, type_names(types), hint)
            case _:
                value = at(self.arguments.value, path)
                # A date or time that people and most tools accept.
                loose = fault.keyword == "format" and _LOOSE_TIME.fullmatch(str(value))
                severity = Severity.WARNING if loose else Severity.ERROR
                yield self._wrong("PS204", path, *_wanted(fault, value), severity)

    def undeclared(self, value: Json, path: Path = ()) -> Iterator[Problem]:
        """Yields warnings of arguments that a schema neither mentions nor forbids."""
        inner: Iterable[tuple[str | int, Json]] = ()
        if isinstance(value, list):
            inner = enumerate(value)
        if isinstance(value, dict):
            inner = value.items()
            place = self.tool.input_shape.inside(path)
            says_all = place.known and not place.is_open and place.lost is None
            if says_all and (not path or all(form["properties"] for form in place.forms)):
                for name in value:
                    if name not in place.properties:
                        yield self._unknown((*path, name), Severity.WARNING)
        for key, each in inner:
            if isinstance(each, (dict, list)):
                yield from self.undeclared(each, (*path, key))

    def _missing(self, path: Path) -> Problem:
        forms = self.tool.input_shape.inside(path).forms
        about: Schema = forms[0] if forms else {}
        note = str(about.get("description") or "").strip()
        message = Sentence("the argument '{name}' is missing", name=path[-1])
        if note:
            message = Sentence(
                "the argument '{name}' is missing: {about}", name=path[-1], about=note[:120]
            )
        named = about.get("type")
        types = named if isinstance(named, list) else [named]
        wanted = type_names([each for each in types if isinstance(each, str) and each in _TYPES])
        if isinstance(options := about.get("enum"), list) and options:
            wanted, _ = _one_of(options, None)
        return self._problem("PS202", message, Sentence("give {wanted}", wanted=wanted), path)

    def _unknown(self, path: Path, severity: Severity = Severity.ERROR) -> Problem:
        present = at(self.arguments.value, path[:-1])
        taken = present if isinstance(present, dict) else dict[str, Json]()
        known = [
            name for name in self.tool.input_shape.inside(path[:-1]).properties if name not in taken
        ]
        name = str(path[-1])
        message = Sentence("the tool has no argument '{name}'", name=name)
        near = Names(known).hint(name) if known else Sentence("leave it out")
        return self._problem("PS203", message, near, path, severity)

    def _wrong(
        self, code: str, path: Path, wanted: str, hint: str, severity: Severity = Severity.ERROR
    ) -> Problem:
        value = at(self.arguments.value, path)
        given = short_json(value)
        if path in self.arguments.texts:
            given = Sentence("a text with a reference")
        elif self.arguments.has_placeholders(path):
            given = Sentence("the value there")
        elif isinstance(value, str):
            given = Sentence("the text {value}", value=given)
        fields = {"place": _place(path), "wanted": wanted, "given": given}
        message = Sentence("{place} should be {wanted}, not {given}", **fields)
        return self._problem(code, message, hint, path, severity)

    def _problem(
        self, code: str, message: str, hint: str, path: Path, severity: Severity = Severity.ERROR
    ) -> Problem:
        where = ("inputs", *self.arguments.real(path))
        return problem(code, message, hint=hint, step=self.step, path=where, severity=severity)


def _wanted(fault: CertainError, value: Json) -> tuple[str, str]:
    """Returns what a schema wants, and what to do."""
    detail = fault.detail
    match fault.keyword:
        case "enum":
            return _one_of(detail["options"], value)
        case "const":
            return short_json(detail["expected_value"]), Sentence("use exactly this value")
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


def type_names(names: list[str]) -> str:
    """Returns JSON types in words, joined by "or"."""
    return joined([Sentence(f"type.{each}") for each in names], "text.or") or Sentence("a value")


def _one_of(options: list[Json], value: Json) -> tuple[str, str]:
    first = [short_json(each) for each in options[:8]]
    wanted = Sentence("one of {options}", options=first)
    if len(options) > 8:
        wanted = Sentence("one of {options} or {more} others", options=first, more=len(options) - 8)
    texts = [each for each in options if isinstance(each, str)]
    name = value if isinstance(value, str) else ""
    return wanted, did_you_mean(name, texts, otherwise=Sentence("hint.choose_one"))


def short_json(value: Json) -> str:
    """Returns a value as short JSON, to be used in a sentence."""
    return clip(json.dumps(value, ensure_ascii=False), 60)
