"""Turns values of a plan into parameters, and fills parameters in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from plansmith.errors import Refused
from plansmith.plan import refs as plan_refs
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, Path, kind_of_value, same
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import REF_FIELDS, ToolStep

NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_PART: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_KEPT: Final = ("type", "enum", "format", "minimum", "maximum", "pattern", "description", "items")
_PROSE: Final = frozenset({"goal", "title", "why"})
_FIELDS: Final = {"title", "why", *REF_FIELDS}


class Place(NamedTuple):
    """A value of a plan that may become a parameter, and its place."""

    where: str
    value: Json


class Parametrised(NamedTuple):
    """A plan with references to parameters, and the JSON Schema of an object of them."""

    plan: Plan
    parameters: dict[str, Json]


def places(plan: Plan) -> Iterator[Place]:
    """Yields every value in the inputs of a plan that is not a reference."""
    for step in plan.steps:
        for field, template in step.to_json().items():
            if field == "inputs":
                yield from _leaves(template, f"{step.id}.inputs")
            elif field == "each":
                inner = cast("dict[str, Json]", template).get("inputs", {})
                yield from _leaves(inner, f"{step.id}.each.inputs")


def _leaves(value: Json, where: str) -> Iterator[Place]:
    if isinstance(value, dict) and not {plan_refs.FROM, plan_refs.LITERAL} & value.keys():
        for key, child in value.items():
            yield from _leaves(child, f"{where}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, f"{where}[{index}]")
    elif not isinstance(value, dict) and not list(plan_refs.find_refs(value)):
        yield Place(where, value)


def parametrise(
    plan: Plan,
    chosen: Mapping[str, Sequence[str]],
    *,
    tools: Mapping[str, ToolSpec],
    required: Sequence[str] = (),
) -> Parametrised:
    """Turns values of a plan into parameters; the first place gives the type and the default.

    Each further place must have the same value, or be a text that contains it.
    """
    tree = plan.to_json()
    properties: dict[str, Json] = {}
    for name, wheres in chosen.items():
        if not re.fullmatch(NAME, name):
            why = Sentence("'{name}' is not a valid parameter name", name=name)
            raise Refused(why, hint=Sentence("use letters and _"))
        if not wheres:
            why = Sentence("the parameter '{name}' has no place in the plan", name=name)
            raise Refused(why, hint=Sentence("name a value"))
        holder, key = _holder(tree, wheres[0])
        value = holder[key]
        if any(plan_refs.find_refs(value)):
            why = Sentence("{place} is not a value: it comes from another step", place=wheres[0])
            raise Refused(why)
        kept: dict[str, Json] = {"examples": [value]} if name in required else {"default": value}
        properties[name] = _schema_of(plan, _path(wheres[0]), value, tools) | kept
        for where in wheres:
            _replace(tree, where, value, str(plan_refs.Ref(plan_refs.PARAMS, (name,))))
    unknown = sorted(set(required) - chosen.keys())
    if unknown:
        why = Sentence("there is no parameter '{name}'", name=unknown[0])
        raise Refused(why, hint=Sentence("choose a value for it first"))
    schema: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": [name for name in chosen if name in required],
        "additionalProperties": False,
    }
    return Parametrised(Plan.model_validate(tree), schema)


def _path(where: str) -> Path:
    found = _PART.findall(where)
    return tuple(int(position) if position else key for key, position in found)


def _holder(tree: dict[str, Json], where: str) -> tuple[dict[str | int, Json], str | int]:
    """Returns the object or list that has a value at a place, and its key there."""
    path = _path(where)
    node: Json = tree
    if path != ("goal",):
        steps = cast("list[dict[str, Json]]", tree["steps"])
        node = next((step for step in steps if path[:1] == (step["id"],)), None)
        if node is None:
            step = path[0] if path else ""
            why = Sentence("{place}: the plan has no step '{step}'", place=where, step=step)
            raise Refused(why)
        path = path[1:]
        field = path[1:2] if path[:1] == ("each",) else path[:1]
        if not field or field[0] not in _FIELDS:
            raise Refused(
                Sentence("{place} is not the place of a value", place=where),
                hint=Sentence("write it like oslo.inputs.city"),
            )
    holder = node
    for key in path:
        is_item = isinstance(node, list) and isinstance(key, int) and key < len(node)
        if not is_item and not (isinstance(node, dict) and key in node):
            raise Refused(
                Sentence("there is nothing at {place}", place=where),
                hint=Sentence("`templates save --list` lists the values"),
            )
        holder, node = node, cast("dict[str | int, Json]", node)[key]
    return cast("dict[str | int, Json]", holder), path[-1]


def _replace(tree: dict[str, Json], where: str, value: Json, mark: str) -> None:
    """Puts a reference in the place of a value, or into a text that has it as whole words."""
    holder, key = _holder(tree, where)
    old, word = holder[key], plan_refs.value_text(value)
    start = r"(?<!\w)" if word[:1].isascii() and word[:1].isalnum() else ""
    end = r"(?!\w)" if word[-1:].isascii() and word[-1:].isalnum() else ""
    pattern = re.compile(start + re.escape(word) + end)
    if same(old, value):
        holder[key] = mark
    elif word and isinstance(old, str) and pattern.search(old):
        holder[key] = pattern.sub(lambda _: mark, old)
    else:
        was, other = plan_refs.value_text(old)[:60], word[:60]
        why = Sentence("{place} is '{old}' and not '{value}'", place=where, old=was, value=other)
        raise Refused(
            why, hint=Sentence("a parameter has one value; use another one for this place")
        )


def _schema_of(
    plan: Plan, path: Path, value: Json, tools: Mapping[str, ToolSpec]
) -> dict[str, Json]:
    """Returns the schema of an argument by its tool, else by the type of its value."""
    step = plan.by_id.get(str(path[0]))
    spec = tools.get(step.tool) if isinstance(step, ToolStep) else None
    if spec is not None and path[1:2] == ("inputs",) and len(path) == 3:
        declared = cast("Json", spec.input_schema.get("properties"))
        found = declared.get(str(path[2])) if isinstance(declared, dict) else None
        if isinstance(found, dict) and not {"$ref", "anyOf", "oneOf", "allOf"} & found.keys():
            kept: dict[str, Json] = {key: found[key] for key in _KEPT if key in found}
            if kept:
                return kept
    if value is None:
        return {}
    return {"type": "integer" if type(value) is int else kind_of_value(value)}


def parameter_names(plan: Plan) -> set[str]:
    """Returns the parameters that a plan refers to."""
    refs = (found.ref for step in plan.steps for found in step.references)
    return {str(ref.path[0]) for ref in refs if ref and ref.step == plan_refs.PARAMS and ref.path}


def bind(plan: Plan, values: Mapping[str, Json]) -> Plan:
    """Returns the plan with the values of its parameters; nothing in them becomes a reference."""
    tree, params = plan.to_json(), {plan_refs.PARAMS: dict[str, Json](values)}
    # A goal, title or reason has no other references.
    marks = {
        str(plan_refs.Ref(plan_refs.PARAMS, (name,))): plan_refs.value_text(value)
        for name, value in values.items()
    }
    in_prose = re.compile("|".join(map(re.escape, marks)) or r"(?!)")
    steps = cast("list[dict[str, Json]]", tree["steps"])
    inner = [cast("dict[str, Json]", step["each"]) for step in steps if "each" in step]
    for owner in (tree, *steps, *inner):
        for field in owner.keys() & {"goal", *_FIELDS}:
            given = owner[field]
            if field in _PROSE:
                owner[field] = in_prose.sub(lambda found: marks[found[0]], str(given))
            elif isinstance(given, str) and field != "over":
                owner[field] = _bound_text(given, params)
            else:
                owner[field] = _bound(given, params)
    return Plan.model_validate(tree)


def _bound(template: Json, params: Mapping[str, Json]) -> Json:
    ref = plan_refs.whole_ref(template)
    if ref is not None and ref.step == plan_refs.PARAMS:
        return plan_refs.literal(plan_refs.lookup(ref, params))
    if isinstance(template, str):
        return _bound_text(template, params)
    if isinstance(template, list):
        return [_bound(child, params) for child in template]
    if (
        not isinstance(template, dict)
        or plan_refs.FROM in template
        or template.keys() == {plan_refs.LITERAL}
    ):
        return template
    return {key: _bound(child, params) for key, child in template.items()}


def _bound_text(text: str, params: Mapping[str, Json]) -> str:
    """Fills the parameters in a text; only references to steps remain."""
    if "{{" not in text:
        return text
    bound = ""
    for piece in plan_refs.pieces(text):
        if isinstance(piece, plan_refs.Ref) and piece.step != plan_refs.PARAMS:
            bound += str(piece)
        else:
            filled = (
                piece
                if isinstance(piece, str)
                else plan_refs.value_text(plan_refs.lookup(piece, params))
            )
            bound += plan_refs.escape_text(filled)
    return bound
