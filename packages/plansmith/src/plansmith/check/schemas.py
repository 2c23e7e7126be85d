"""Compiles JSON Schemas, once per content, and says what they allow at a place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import jsonschema_rs

from plansmith.check.placeholders import at
from plansmith.plan.data import Json, Path, canonical_json, kind_of_value, plain_numbers

_ALL_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_TABLES: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_MOST_CUTS: Final = 16
_MOST_FORMS: Final = 32
_MOST_LINKS: Final = 24
_MOST_KEPT: Final = 2048
# How much of a value that is known is looked at.
_DEEPEST: Final = 4
_MOST_ITEMS: Final = 200
_CHOICES: Final = ("anyOf", "oneOf")
_LINKS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that may add properties which this module does not see.
_OPENERS: Final = ("if", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef")

Schema = dict[str, Json]


class Unusable(NamedTuple):
    """Why a schema cannot be used."""

    reason: str


class BadSchema(ValueError):
    """A schema that cannot be used: it is invalid, or it refers to another document."""


class Compiled(NamedTuple):
    """A compiled schema; `flaw` says what had to be removed, or why it is unusable."""

    validator: jsonschema_rs.Validator | None
    flaw: str = ""


def validator(
    schema: Mapping[str, Any], *, formats: bool = False, mask: str | None = None
) -> jsonschema_rs.Validator:
    """Compiles a schema; never reads from the network or a file."""
    try:
        plain = cast("dict[str, Any]", plain_numbers(dict(schema)))
        return jsonschema_rs.validator_for(
            plain, validate_formats=formats or None, mask=mask, offline=True
        )
    except jsonschema_rs.ValidationError as error:
        raise BadSchema(error.message) from error
    except (ValueError, TypeError, OverflowError, jsonschema_rs.ReferencingError) as error:
        raise BadSchema(str(error)) from error


def compiled(schema: Schema) -> Compiled:
    """Compiles a schema for the draft that its `$schema` names; formats are checked.

    Published schemas have mistakes, such as an `enum` that is a text. Invalid parts are removed,
    so that the rest can still be used.
    """
    try:
        return _compile(canonical_json(schema))
    except (ValueError, TypeError, RecursionError) as error:
        return Compiled(None, str(error))


@lru_cache(maxsize=2048)
def _compile(text: bytes) -> Compiled:
    schema, flaw = cast("Schema", json.loads(text)), ""
    for _ in range(_MOST_CUTS):
        try:
            return Compiled(validator(schema, formats=True), flaw)
        except BadSchema as error:
            message, cause = str(error), error.__cause__
        if not isinstance(cause, jsonschema_rs.ValidationError):
            return Compiled(None, message)
        # An unknown `$schema`, such as "the latest draft", is no error.
        if message.startswith("Unknown meta-schema") and "draft-03" not in message:
            del schema["$schema"]
            continue
        outside = _cut_links(schema) if message.startswith("Resource ") else ""
        told = f"it refers to {outside}, and nothing is fetched for a schema"
        flaw = flaw or (told if outside else message)
        if not outside and not _cut(schema, cause.instance_path):
            break
    return Compiled(None, flaw or "it has too many flaws")


def _cut_links(schema: Json) -> str:
    """Removes every link to another document; returns the first of them."""
    first, stack = "", [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            for key in _LINKS:
                link = node.get(key)
                if isinstance(link, str) and not link.startswith("#"):
                    first = first or link
                    del node[key]
            stack.extend(node.values())
    return first


def _cut(schema: Schema, place: list[str | int]) -> bool:
    """Removes what is wrong at a place; a wrong whole schema becomes one that allows anything."""
    while place and isinstance(place[-1], int):
        place = place[:-1]
    parent = at(schema, tuple(place[:-1]))
    if not place or not isinstance(parent, dict) or place[-1] not in parent:
        return False
    if len(place) > 1 and place[-2] in _TABLES:
        parent[str(place[-1])] = {}
    else:
        del parent[str(place[-1])]
    return True


@dataclass(frozen=True, slots=True)
class Shape:
    """What a place may contain: one of several forms, each a schema without choices.

    Results are cached, since the steps of a plan ask for the same places again.
    """

    forms: list[Schema]
    root: Schema
    undeclared: bool = False
    below: dict[Path, Shape] = field(default_factory=dict["Path", "Shape"], repr=False)

    @property
    def known(self) -> bool:
        """Whether the schema says anything about the place."""
        return bool(self.forms) and all(self.forms)

    @property
    def types(self) -> frozenset[str]:
        return frozenset(kind for form in self.forms for kind in types_of(form))

    @property
    def properties(self) -> list[str]:
        tables = (form.get("properties") for form in self.forms)
        return list(
            dict.fromkeys(name for each in tables if isinstance(each, dict) for name in each)
        )


def shape_of(value: Json) -> Shape:
    """Returns the shape of a value that is known; a single value is exactly that one."""
    if isinstance(value, dict | list):
        return shape(_schema_of(value, _DEEPEST), {})
    return Shape([{"enum": [value]}], {})


def _schema_of(value: Json, deeper: int) -> Schema:
    if isinstance(value, dict) and deeper:
        inner = {key: _schema_of(each, deeper - 1) for key, each in value.items()}
        return {"type": "object", "properties": {**inner}, "additionalProperties": False}
    form: Schema = {"type": kinds_of(value)[0]}
    if isinstance(value, list) and deeper and len(value) <= _MOST_ITEMS:
        items = [_schema_of(each, deeper - 1) for each in value]
        kinds = {json.dumps(each, sort_keys=True): each for each in items}
        form |= {"maxItems": len(value)}
        form |= {"items": {"anyOf": [*kinds.values()]}} if 0 < len(kinds) <= _MOST_FORMS else {}
    return form


def shape(schema: Json, root: Schema) -> Shape:
    """Returns the shape of a schema's value; no forms mean that no value is valid."""
    return Shape(_forms(schema, root, _MOST_LINKS), root)


def _forms(schema: Json, root: Schema, links: int) -> list[Schema]:
    if schema is False:
        return []
    if not isinstance(schema, dict) or links < 0:
        return [{}]
    forms = [_own(schema)]
    for part in _parts(schema, root):
        forms = _product(forms, _forms(part, root, links - 1))
    for keyword in _CHOICES:
        choices = schema.get(keyword)
        if isinstance(choices, list):
            found = [form for each in choices for form in _forms(each, root, links - 4)]
            forms = _product(forms, found)
    return forms if len(forms) <= _MOST_FORMS else [{}]


def _own(schema: Schema) -> Schema:
    own = {key: value for key, value in schema.items() if key not in (*_CHOICES, "allOf", "$ref")}
    if any(key in schema for key in _OPENERS):
        own["additionalProperties"] = True
    return own


def _parts(schema: Schema, root: Schema) -> Iterable[Json]:
    if isinstance(link := schema.get("$ref"), str):
        yield _linked(link, root)
    if isinstance(parts := schema.get("allOf"), list):
        yield from parts


def _linked(link: str, root: Schema) -> Json:
    """Returns the schema that a link in the same document refers to, else an empty one."""
    node: Json = root
    if not link.startswith("#") or (link != "#" and not link.startswith("#/")):
        return {"additionalProperties": True}
    for part in link[2:].split("/") if link != "#" else []:
        key = part.replace("~1", "/").replace("~0", "~").replace("%25", "%").replace("%24", "$")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return {"additionalProperties": True}
    return node


def _product(left: list[Schema], right: list[Schema]) -> list[Schema]:
    if len(left) * len(right) > _MOST_FORMS:
        return [{}]
    return [_joined(one, other) for one in left for other in right]


def _joined(one: Schema, other: Schema) -> Schema:
    """Combines two schemas loosely: where they differ, anything is allowed."""
    joined = {**other, **one}
    mine, theirs = one.get("properties"), other.get("properties")
    if isinstance(mine, dict) and isinstance(theirs, dict):
        joined["properties"] = {**theirs, **mine}
        if one.get("additionalProperties", True) is not other.get("additionalProperties", True):
            # `false` applies only to the properties beside it, so nothing is certain here.
            joined["additionalProperties"] = True
    if "type" in one and "type" in other:
        both = types_of({"type": one["type"]}) & types_of({"type": other["type"]})
        joined["type"] = [*sorted(both)]
    return joined


def types_of(form: Schema) -> frozenset[str]:
    """Returns the JSON types that a form allows; `number` includes `integer`."""
    named = form.get("type")
    types = {named} if isinstance(named, str) else set[Json]()
    if isinstance(named, list):
        types = {each for each in named if isinstance(each, str)}
    # An unknown type, such as "any" or "float", allows anything.
    allowed = _ALL_TYPES.intersection(types) or _ALL_TYPES
    if "number" in allowed:
        allowed |= {"integer"}
    values = values_of(form)
    if values is None:
        return allowed
    return allowed & {kind for value in values for kind in kinds_of(value)}


def values_of(form: Schema) -> list[Json] | None:
    """Returns the values that a form lists, if it lists them all."""
    if "const" in form:
        return [form["const"]]
    listed = form.get("enum")
    return listed if isinstance(listed, list) else None


def kinds_of(value: Json) -> tuple[str, ...]:
    """Returns the JSON types of a value; a whole number is also an integer."""
    kind = kind_of_value(value)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return ("integer", "number") if kind == "number" and whole else (kind,)


def inside(place: Shape, path: Path) -> Shape:
    """Returns the shape of the value at a path; `undeclared` if the schema omits a key."""
    known = place.below.get(path)
    if known is None:
        known = _inside(place, path)
        if len(place.below) < _MOST_KEPT:
            place.below[path] = known
    return known


def _inside(place: Shape, path: Path) -> Shape:
    undeclared = False
    for key in path:
        found = [_member(form, key) for form in place.forms]
        schemas = [each for each in found if each is not None]
        declared = [each for each in schemas if each is not _UNDECLARED]
        undeclared = undeclared or (bool(schemas) and not declared)
        forms = [form for each in declared for form in _forms(each, place.root, _MOST_LINKS)]
        open_end = len(declared) < len(schemas) or len(forms) > _MOST_FORMS
        place = Shape([*forms[:_MOST_FORMS], *([{}] if open_end else [])], place.root)
    return Shape(place.forms, place.root, undeclared)


_UNDECLARED: Final[Schema] = {"undeclared": True}


def _member(form: Schema, key: str | int) -> Json | None:
    types = types_of(form)
    position = key if isinstance(key, int) else int(key) if _is_position(key) else None
    if position is not None and "array" in types:
        return _item(form, position)
    return _property(form, str(key)) if "object" in types else None


def _is_position(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 10


def _item(form: Schema, position: int) -> Json | None:
    most, first, rest = form.get("maxItems"), form.get("prefixItems"), form.get("items", {})
    if isinstance(most, int) and position >= most:
        return None
    if isinstance(rest, list):
        first, rest = rest, form.get("additionalItems", {})
    if isinstance(first, list) and position < len(first):
        return first[position]
    return None if rest is False else rest


def _property(form: Schema, key: str) -> Json | None:
    properties = form.get("properties")
    if isinstance(properties, dict) and key in properties:
        return None if properties[key] is False else properties[key]
    if "patternProperties" in form:
        return {}
    if "additionalProperties" in form:
        more = form["additionalProperties"]
        return None if more is False else more
    return _UNDECLARED if isinstance(properties, dict) and properties else {}
