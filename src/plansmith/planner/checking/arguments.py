"""Arguments: a step's inputs against its tool's schema, as problems that name the real field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, Path
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.steps import ToolStep
from plansmith.planner.checking.certain_errors import Fault, certain_errors
from plansmith.planner.checking.names import Names
from plansmith.planner.checking.placeholders import Placeholders, at, objects
from plansmith.planner.checking.schemas import Schema, Shape, Unusable, compiled, inside
from plansmith.text import clip, did_you_mean

_TYPE_WORDS: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_BOUNDS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "minItems": "a list of at least {} items",
    "maxItems": "a list of at most {} items",
    "minProperties": "an object of at least {} keys",
    "maxProperties": "an object of at most {} keys",
    "additionalItems": "a list of at most {} items",
}
_LOOSE_TIME: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)
_UNEXPECTED: Final = frozenset({"additionalProperties", "unevaluatedProperties"})


def argument_problems(step: ToolStep, spec: ToolSpec, *, takes: Shape) -> list[Problem]:
    """What is wrong with the inputs of a step; nothing if the tool's schema is unusable."""
    holes = Placeholders(step.inputs)
    found = certain_errors(spec.input_schema, holes)
    if isinstance(found, Unusable):
        return []
    teller = _Teller(step.id, holes, takes)
    problems = [each for fault in found for each in teller.tell(fault)]
    told = {each.path for each in problems}
    return problems + [each for each in teller.strangers() if each.path not in told]


def schema_problems(spec: ToolSpec, step: str) -> Iterator[Problem]:
    """The warnings that a tool's own schemas are not valid; the tool itself stays usable."""
    usable = compiled(spec.input_schema)
    if usable.flaw:
        lost = "this part of it" if usable.validator is not None else "its arguments"
        message = f"the input schema of {spec.name!r} is not valid, so {lost} cannot be checked"
        reason = usable.flaw.splitlines()[0][:160]
        hint = "mend the schema of the tool"
        yield problem("PS209", f"{message}: {reason}", hint=hint, step=step, path=("tool",))
    flaw = compiled(spec.output_schema).flaw if spec.output_schema is not None else ""
    if flaw:
        message = f"the output schema of {spec.name!r} is not valid, so its results go unchecked"
        reason, hint = flaw.splitlines()[0][:160], "mend the schema of the tool"
        yield problem("PS209", f"{message}: {reason}", hint=hint, step=step, path=("tool",))


class _Teller:
    """Puts faults into words, with the place in the plan."""

    def __init__(self, step: str, holes: Placeholders, form: Shape) -> None:
        self.step = step
        self.holes = holes
        self.shape = form

    def tell(self, fault: Fault) -> Iterator[Problem]:
        if fault.keyword == "required":
            yield self._missing(fault.path, fault.detail["property"])
        elif fault.keyword in _UNEXPECTED:
            for name in fault.detail["unexpected"]:
                yield self._stranger((*fault.path, name), Severity.ERROR)
        elif fault.keyword == "falseSchema":
            yield self._stranger(fault.path, Severity.ERROR)
        elif fault.keyword == "type":
            wanted = " or ".join(_TYPE_WORDS[str(each)] for each in fault.detail["types"])
            yield self._wrong("PS201", fault.path, wanted, _type_hint(fault.detail["types"]))
        elif fault.choices and all(_is_missing(branch, fault.path) for branch in fault.choices):
            names = sorted({each.detail["property"] for one in fault.choices for each in one})
            message = f"{self._name(fault.path)} needs one of {', '.join(map(repr, names))}"
            yield self._problem("PS202", message, "give one of them", fault.path)
        else:
            wanted, hint = self._wanted(fault)
            found = self._wrong("PS204", fault.path, wanted, hint)
            loose = fault.keyword == "format" and _is_loose_time(at(self.holes.value, fault.path))
            yield found.model_copy(update={"severity": Severity.WARNING}) if loose else found

    def strangers(self) -> Iterator[Problem]:
        """Arguments the schema allows only because it forgot to speak of others."""
        for path, value in objects(self.holes.value):
            place = inside(self.shape, path)
            if not place.known or place.undeclared:
                continue
            for key in value:
                declared = [_declares(form, key, top=not path) for form in place.forms]
                if not any(declared):
                    yield self._stranger((*path, key), Severity.WARNING)

    def _missing(self, path: Path, name: str) -> Problem:
        about = _first(inside(self.shape, (*path, name)))
        note = str(about.get("description") or "").strip()
        words = f": {note[:120]}" if note else ""
        message = f"the argument {name!r} is missing{words}"
        return self._problem("PS202", message, f"give {_expected(about)}", (*path, name))

    def _stranger(self, path: Path, severity: Severity) -> Problem:
        around = inside(self.shape, path[:-1])
        present = at(self.holes.value, path[:-1])
        taken = present if isinstance(present, dict) else dict[str, Json]()
        known = [name for name in _property_names(around) if name not in taken]
        name = path[-1]
        message = f"the tool has no argument {name!r}"
        near = Names(known).hint(str(name)) if known else "leave it out"
        found = self._problem("PS203", message, near, path)
        return found.model_copy(update={"severity": severity})

    def _wrong(self, code: str, path: Path, wanted: str, hint: str) -> Problem:
        message = f"{self._name(path)} should be {wanted}, not {self._shown(path)}"
        return self._problem(code, message, hint, path)

    def _wanted(self, fault: Fault) -> tuple[str, str]:
        detail, value = fault.detail, at(self.holes.value, fault.path)
        match fault.keyword:
            case "enum":
                return _one_of(detail["options"], value)
            case "const":
                return short_json(detail["expected_value"]), "use exactly this value"
            case "pattern":
                return f"a text like {detail['pattern']}", "see the pattern of the tool's schema"
            case "format":
                return f"a valid {detail['format']}", f"write it as a {detail['format']}"
            case "multipleOf":
                return f"a multiple of {detail['multiple_of']}", "choose another number"
            case "uniqueItems":
                return "a list without repetition", "take out what stands twice"
            case keyword if keyword in _BOUNDS:
                return _BOUNDS[keyword].format(detail["limit"]), "keep to the bounds of the tool"
            case _:
                reason = fault.message[:160]
                return "what the schema allows", f"the schema says: {reason}"

    def _shown(self, path: Path) -> str:
        if path in self.holes.texts:
            return "a text with a reference"
        if self.holes.has_placeholders(path):
            return "what stands there"
        value = at(self.holes.value, path)
        return f"the text {short_json(value)}" if isinstance(value, str) else short_json(value)

    def _name(self, path: Path) -> str:
        return repr(".".join(map(str, path))) if path else "the whole of the arguments"

    def _problem(self, code: str, message: str, hint: str, path: Path) -> Problem:
        where = ("inputs", *self.holes.real(path))
        return problem(code, message, hint=hint, step=self.step, path=where)


def _is_loose_time(value: Json) -> bool:
    """A date or time that people and most tools understand, short of the strict form."""
    return isinstance(value, str) and bool(_LOOSE_TIME.fullmatch(value))


def _is_missing(branch: tuple[Fault, ...], path: Path) -> bool:
    return all(fault.keyword == "required" and fault.path == path for fault in branch)


def _declares(form: Schema, key: str, *, top: bool) -> bool:
    """Whether a form speaks of a key, or says that it takes any."""
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
    """What a value of this form is called."""
    if isinstance(options := form.get("enum"), list) and options:
        return _one_of(options, None)[0]
    named = form.get("type")
    types = named if isinstance(named, list) else [named]
    words = [_TYPE_WORDS[each] for each in types if isinstance(each, str) and each in _TYPE_WORDS]
    return " or ".join(words) or "a value"


def _type_hint(types: list[str]) -> str:
    return "write it with quotes" if types == ["string"] else "change the value"


def _one_of(options: list[Json], value: Json) -> tuple[str, str]:
    shown = ", ".join(short_json(each) for each in options[:8])
    more = f" or {len(options) - 8} others" if len(options) > 8 else ""
    texts = [each for each in options if isinstance(each, str)]
    name = value if isinstance(value, str) else ""
    return f"one of {shown}{more}", did_you_mean(name, texts, otherwise="choose one of them")


def short_json(value: Json) -> str:
    """A value as a person reads it in the middle of a sentence."""
    return clip(json.dumps(value, ensure_ascii=False), 60)
