"""Plansmith's own plan language: reads and writes JSON and YAML; has a flat JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from pydantic import ValidationError

from plansmith.errors import PlanInvalid
from plansmith.formats.text import read_text, write_yaml
from plansmith.plan.data import FLAWLESS, Json, Path, flaws
from plansmith.plan.plan import MAX_STEPS, SCHEMA_VERSION, Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import FROM, PATH
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.plan.steps import (
    KIND_BY_FIELD,
    KINDS,
    SAY,
    STEP_TYPES,
    AskStep,
    Instead,
    MapStep,
    Repeat,
    Retry,
    StepFields,
    Undo,
)
from plansmith.plan.timing import Timing
from plansmith.plan.validation_errors import broken_rule

_FLAW_CODES: Final = {"deep": "PS007", "text": "PS008", "number": "PS009", "kind": "PS005"}
_FLAW_HINTS: Final = {
    "deep": Sentence("flatten the value, or pass it by file"),
    "text": Sentence("remove the broken character"),
    "number": Sentence("use a finite number or null"),
    "kind": Sentence("use plain JSON: objects, lists, text, numbers, true, false, null"),
}
_FORMS: Final[dict[str | int, str]] = {
    "id": Sentence("use up to 64 letters, digits, - and _"),
    "daily_at": Sentence("use hours and minutes, such as 09:30"),
    "when": Sentence("write for example {example}", example='{"below": ["{{step.key}}", 10]}'),
    "until": Sentence(
        "write for example {example}", example='{"equals": ["{{step.key}}", "done"]}'
    ),
    "otherwise": Sentence("give {form}", form='{"value": …}'),
    "repeat": Sentence("give {form}", form='{"until": …, "at_most": 5, "every": 60}'),
    "retry": Sentence("give {form}", form='{"at_most": 3, "every": 10}'),
    "on_error": Sentence("give {form}", form='"fail", "skip", "collect", {"value": …}'),
    "undo_with": Sentence("give {form}", form='{"tool": …, "inputs": {…}}'),
}
_ANY_FORM: Final = Sentence("`plansmith check --schema` shows what is allowed")
_STEP_FIELDS: Final = (SAY, *(name for kind in STEP_TYPES for name in kind.model_fields))
_MAX_PROBLEMS: Final = 100


def read_plan(source: object) -> Plan:
    """Reads a plan from JSON or YAML text, bytes or a plain value.

    Args:
        source: The text, or a dictionary as JSON has it; a `Plan` is returned as it is.

    Raises:
        PlanInvalid: It is no plan; `problems` says why. `try_read_plan` returns them instead.

    Examples:
        >>> from plansmith import read_plan
        >>> plan = read_plan({"goal": "Greet", "steps": [{"id": "hello", "say": "Hello!"}]})
        >>> plan.goal
        'Greet'
    """
    found = try_read_plan(source)
    if not isinstance(found, Plan):
        raise PlanInvalid(found)
    return found


def try_read_plan(source: object) -> Plan | list[Problem]:
    """Reads a plan from JSON or YAML text, bytes or a plain value; else returns its problems.

    Args:
        source: What `read_plan` takes.

    Examples:
        >>> from plansmith import try_read_plan
        >>> for problem in try_read_plan({"steps": [{"id": "hello", "sya": "Hello!"}]}):
        ...     print(problem)
        error PS005 wrong-value: hello: this is not a step of a known kind (did you mean 'say'?)
    """
    if isinstance(source, Plan):
        return source
    if isinstance(source, (str, bytes)):
        value = read_text(source)
        return [value] if isinstance(value, Problem) else read(value)
    return read(source)


def read(value: object) -> Plan | list[Problem]:
    """Reads a plan from a plain value."""
    found = [
        problem(_FLAW_CODES[flaw.kind], flaw.message, hint=_FLAW_HINTS[flaw.kind], path=flaw.path)
        for flaw in flaws(value)
    ]
    if found:
        return _shortened(found)
    if not isinstance(value, dict):
        message = Sentence("a plan is an object, not a {kind}", kind=type(value).__name__)
        return [problem("PS001", message, hint=Sentence('give an object with "goal" and "steps"'))]
    return _read_object(cast("dict[str, Json]", value))


def _read_object(value: dict[str, Json]) -> Plan | list[Problem]:
    version, steps = value.get("schema_version", SCHEMA_VERSION), value.get("steps")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        message = Sentence(
            "the plan language is {known} here and {given} in the plan",
            known=SCHEMA_VERSION,
            given=version,
        )
        hint = Sentence("upgrade Plansmith")
        return [problem("PS012", message, hint=hint, path=("schema_version",))]
    if "steps" not in value:
        hint = Sentence('give the steps as a list under "steps"')
        return [problem("PS004", Sentence("the plan has no steps"), hint=hint, path=("steps",))]
    if isinstance(steps, list) and len(steps) > MAX_STEPS:
        message = Sentence("ps.many_steps", count=len(steps), most=MAX_STEPS)
        hint = Sentence("use map steps or templates")
        return [problem("PS006", message, hint=hint, path=("steps",))]
    # `show --json` prints the hash of a plan with it.
    stated = value.get("hash")
    given = {name: each for name, each in value.items() if name != "hash"} if stated else value
    try:
        plan = Plan.model_validate(given, context=FLAWLESS)
        if stated is None or stated == plan.hash:
            return plan
        message = Sentence("hash is not the hash of this plan")
        hint = Sentence("remove it: plansmith check --json prints the right one")
        return [problem("PS003", message, hint=hint, path=("hash",))]
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        # Each form that `on_error` may have finds it wrong: one problem is enough.
        relevant = [each for each in details if Instead.__name__ not in each["loc"]]
        return _shortened([_problem_of(detail, value) for detail in relevant or details])


def to_json(plan: Plan) -> str:
    """Returns the plan as JSON for people and files."""
    return json.dumps(plan.to_json(), indent=2, ensure_ascii=False) + "\n"


def to_yaml(plan: Plan) -> str:
    """Returns the plan as YAML for people to edit."""
    return write_yaml(plan.to_json())


def _shortened(problems: list[Problem]) -> list[Problem]:
    rest = len(problems) - _MAX_PROBLEMS
    if rest <= 0:
        return problems
    message = Sentence("and {count} more problems", count=rest)
    last = problem("PS001", message, hint=Sentence("correct these first"))
    return [*problems[:_MAX_PROBLEMS], last]


def _problem_of(detail: Mapping[str, Any], value: dict[str, Json]) -> Problem:
    path = inside = _without_tags(detail["loc"])
    step: str | None = None
    steps, in_step = value.get("steps"), path[:1] == ("steps",)
    if in_step and len(path) > 1 and isinstance(steps, list):
        given = steps[cast("int", path[1])]
        named = given.get("id") if isinstance(given, dict) else None
        step, inside = (named, path[2:]) if isinstance(named, str) else (None, path)
    name = path[-1] if path else ""
    code, hint = "PS005", _FORMS.get(name, _ANY_FORM)
    match detail["type"]:
        case "extra_forbidden":
            known = _STEP_FIELDS if in_step else Plan.model_fields
            if not in_step and (inside[:-1] == ("schedule",) or inside[:1] == ("schedules",)):
                known = Timing.model_fields
            other = Sentence("remove it, or put it into inputs")
            code, hint = "PS003", did_you_mean(str(name), known, otherwise=other)
            message = Sentence("unknown field '{name}'", name=str(name))
        case "missing":
            code, hint = "PS004", Sentence("add '{name}'", name=str(name))
            message = Sentence("the field '{name}' is missing", name=str(name))
        case "union_tag_not_found" | "union_tag_invalid" | "model_attributes_type":
            message, hint = Sentence("this is not a step of a known kind"), _kind_hint(path, value)
        case _:
            reason = broken_rule(detail)
            if not isinstance(reason, Sentence):  # words of pydantic, which have no translation
                reason = f"{reason[:1].lower()}{reason[1:]}"
            message = Sentence("'{name}' does not fit: {reason}", name=str(name), reason=reason)
    return problem(code, message, hint=hint, step=step, path=inside)


def _kind_hint(path: Path, value: Mapping[str, Json]) -> str:
    """Says what makes a step one of a known kind: the right name of a field like one of its own."""
    given: Any = value
    for part in path:
        given = given[part]
    names = list(cast("dict[str, object]", given)) if isinstance(given, dict) else list[str]()
    hint: str = Sentence('give "kind" as one of {kinds}', kinds=[*KINDS])
    for name in (each for each in names if each not in _STEP_FIELDS):
        hint = did_you_mean(name, KIND_BY_FIELD, otherwise=hint)
    return hint


def _without_tags(loc: tuple[str | int, ...]) -> Path:
    """Returns the place without the names that pydantic adds for the kinds of steps."""
    path: list[str | int] = []
    for index, part in enumerate(loc):
        behind_step = index == 2 and loc[0] == "steps"
        behind_each = index > 2 and loc[index - 1] == "each" and loc[index - 2] == "map"
        if index > 2 and loc[index - 1] == "on_error":  # here follows the name of a form
            break
        if not (part in KINDS and (behind_step or behind_each)):
            path.append(part)
    return tuple(path)


def schema(*, for_models: bool = False) -> dict[str, Json]:
    """Returns the JSON Schema of a plan: no references, no unions, one object for all steps.

    Decoders that constrain a model support few features of JSON Schema. This one allows too much,
    such as a tool step without `tool`; the reader reports that. A large model gets no `style` for
    replies: it writes the style into the instruction.
    """
    without = {"style"} if for_models else set[str]()
    step = _flat(STEP_TYPES, without)
    inner = [each for each in STEP_TYPES if each not in (AskStep, MapStep)]
    cast("dict[str, Json]", step["properties"])["each"] = cast("Json", _flat(inner, without))
    timing = _form(Timing)
    properties = {**_fields(Plan), "schedule": timing}
    properties["schedules"] = {"type": "object", "additionalProperties": timing}
    if for_models:  # decoders cannot constrain an object whose names are open
        del properties["schedules"]
    properties["steps"] = {"type": "array", "maxItems": MAX_STEPS, "items": step}
    return plan_schema("Plansmith plan", properties, ("goal", "steps"))


def closed(
    properties: Mapping[str, Json], required: Sequence[str] | None = None
) -> dict[str, Json]:
    """Returns the JSON Schema of an object with only these fields, by default all required."""
    made: dict[str, Json] = {"type": "object", "properties": dict(properties)}
    wanted: list[Json] = [*(properties if required is None else required)]
    if wanted:
        made["required"] = wanted
    return made | {"additionalProperties": False}


def plan_schema(
    title: str, properties: Mapping[str, Json], required: Sequence[str] | None = None
) -> dict[str, Json]:
    """Returns the JSON Schema of a whole plan."""
    head: dict[str, Json] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | {"title": title} | closed(properties, required)


_RULES: Final = {"otherwise": Instead, "repeat": Repeat, "retry": Retry, "undo_with": Undo}
_ON_ERROR: Final[Json] = {"description": '"fail", "skip", "collect" or {"value": …}'}
_KEPT: Final = ("type", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "minLength")


def _flat(kinds: Iterable[type[StepFields]], without: Container[str]) -> dict[str, Json]:
    """Returns the schema of an object with the fields of all these kinds of steps."""
    properties: dict[str, Json] = {}
    for kind in kinds:
        for name, each in _fields(kind).items():
            if name not in without:
                properties.setdefault(name, _form(_RULES[name]) if name in _RULES else each)
    properties["on_error"] = _ON_ERROR
    names: list[Json] = [str(kind.model_fields["kind"].default) for kind in kinds]
    properties["kind"] = {"type": "string", "enum": names}
    if MapStep in kinds:
        properties["over"] = {"description": f'a list, or {{"{FROM}": step, "{PATH}": [...]}}'}
    properties[SAY] = {"type": "string"}
    return closed(properties, ("id", "kind"))


@cache  # pydantic takes long to make it, and every request for a plan needs it
def _definitions() -> dict[str, dict[str, Any]]:
    whole = Plan.model_json_schema()
    return {Plan.__name__: whole, **whole["$defs"]}


def _form(model: type[Any]) -> dict[str, Json]:
    return closed(_fields(model), _definitions()[model.__name__].get("required", ()))


def _fields(model: type[Any]) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    for name, field in _definitions()[model.__name__]["properties"].items():
        choices = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
        form = {**choices[0], **field} if choices else field
        fields[name] = kept = {key: form[key] for key in _KEPT if key in form}
        if form.get("type") == "array":
            kept["items"] = {"type": "string"}
    return fields
