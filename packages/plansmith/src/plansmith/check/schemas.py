"""JSON Schemas: compiled once, with a bound on their work, and what they allow at a place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import jsonschema_rs

from plansmith.check.placeholders import at
from plansmith.plan.data import Json, Path, canonical_json, kind_of_value, plain_numbers

_ALL_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_TABLES: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_MOST_CUTS: Final = 16
_MOST_FORMS: Final = 32
_DEEPEST_FORM: Final = 32
_MOST_KEPT: Final = 2048
# How much of a value that is known is looked at.
_DEEPEST: Final = 4
_MOST_ITEMS: Final = 200
_CHOICES: Final = ("anyOf", "oneOf")
_LINKS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that may add properties which this module does not see.
_OPENERS: Final = ("if", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef")
# The keywords whose schemas are applied to the value itself, and to its parts.
_TO_ITSELF: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_TO_PARTS: Final = (
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
    "propertyNames", "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
)  # fmt: skip
# How often schemas may be applied to one part of a value, and for values of which depth this is
# counted if there is none yet. Links to choices multiply: a schema of 1 kB could take a minute.
_MOST_WORK: Final = 4000
_USUAL_DEPTH: Final = 3
TOO_MUCH: Final = "it has too many choices inside of one another"

Schema = dict[str, Json]


class BadSchema(ValueError):
    """A schema that cannot be used: invalid, too much work, or part of it is elsewhere."""


class Compiled(NamedTuple):
    """A compiled schema; `flaw` says what had to be removed, or why it is unusable."""

    validator: jsonschema_rs.Validator | None
    flaw: str = ""
    # If the schema has links, so that its work is not bounded by its size.
    linked: Document | None = None

    def takes_too_long(self, value: Json) -> bool:
        """Tells whether checking a value would be too much work."""
        return self.linked is not None and self.linked.work(_depth(value)) > _MOST_WORK


def validator(
    schema: Mapping[str, Any], *, formats: bool = False, mask: str | None = None
) -> jsonschema_rs.Validator:
    """Compiles a schema; never reads from the network or a file."""
    try:
        plain = cast("dict[str, Any]", plain_numbers(dict(schema)))
        made = jsonschema_rs.validator_for(
            plain, validate_formats=formats or None, mask=mask, offline=True
        )
        linked = _linked(plain)
        work = 0 if linked is None else linked.work(_USUAL_DEPTH)
    except jsonschema_rs.ValidationError as error:
        raise BadSchema(error.message) from error
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        jsonschema_rs.ReferencingError,
    ) as error:
        raise BadSchema(str(error)) from error
    if work > _MOST_WORK:
        raise BadSchema(TOO_MUCH)
    return made


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
            return Compiled(validator(schema, formats=True), flaw, _linked(schema))
        except BadSchema as error:
            message, cause = str(error), error.__cause__
        if not isinstance(cause, jsonschema_rs.ValidationError):
            return Compiled(None, message)
        # An unknown `$schema`, such as "the latest draft", is no error.
        if message.startswith("Unknown meta-schema") and "draft-03" not in message:
            del schema["$schema"]
            continue
        outside = _cut_links(schema) if message.startswith("Resource ") else ""
        flaw = flaw or (
            f"it refers to {outside}, and nothing is fetched for a schema" if outside else message
        )
        if not outside and not _cut(schema, cause.instance_path):
            break
    return Compiled(None, flaw or "it has too many flaws")


def _cut_links(schema: Json) -> str:
    """Removes every link to another document; returns the first of them."""
    first = ""
    for node in _nodes(schema):
        for key in _LINKS:
            link = node.get(key)
            if isinstance(link, str) and not link.startswith("#"):
                first = first or link
                del node[key]
    return first


def _nodes(value: Json) -> Iterator[Schema]:
    """Yields every object in a value."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            yield node
            stack.extend(node.values())


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


class Document:
    """A whole schema: follows its links, and unfolds or counts each part of it once."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._unfolded: dict[str, list[Schema]] = {}
        self._counted: dict[tuple[int, int], int] = {}

    def work(self, depth: int) -> int:
        """Counts how often schemas are applied along one path into a value of this depth."""
        return self._work(self.schema, depth)

    def _work(self, schema: Json, depth: int) -> int:
        if not isinstance(schema, dict):
            return 1
        key = id(schema), depth
        if key in self._counted:
            return self._counted[key]
        self._counted[key] = 1  # for a link to itself
        links = [link for name in _LINKS if isinstance(link := schema.get(name), str)]
        parts = [part for link in links for part in self._targets(link)]
        parts += [part for name in _TO_ITSELF for part in _schemas(schema, name)]
        count = 1 + sum(self._work(part, depth) for part in parts)
        if depth and count <= _MOST_WORK:
            inner = [part for name in _TO_PARTS for part in _schemas(schema, name)]
            count += max((self._work(part, depth - 1) for part in inner), default=0)
        self._counted[key] = min(count, _MOST_WORK + 1)
        return self._counted[key]

    def _targets(self, link: str) -> list[Json]:
        """Returns the schemas that a link in this document may mean."""
        base, _, rest = link.partition("#")
        if not base and (not rest or rest.startswith("/")):
            found = _pointed(self.schema, rest)
            return [] if found is None else [found]
        starts = self._named.get(base.rpartition("/")[2], []) if base else [self.schema]
        if rest and not rest.startswith("/"):
            return [*self._named.get(f"#{rest}", [])]
        return [found for each in starts if (found := _pointed(each, rest)) is not None]

    @cached_property
    def _named(self) -> dict[str, list[Schema]]:
        """The parts of the schema that have a name of their own."""
        table: dict[str, list[Schema]] = {}
        for node in _nodes(self.schema):
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := node.get(key), str):
                    table.setdefault(f"#{name}", []).append(node)
            for key in ("$id", "id"):
                if isinstance(name := node.get(key), str):
                    base, _, anchor = name.partition("#")
                    named = base.rpartition("/")[2] or f"#{anchor}"
                    table.setdefault(named, []).append(node)
        return table

    def forms(self, schema: Json, depth: int = 0) -> list[Schema]:
        """Returns what a schema allows: one of several forms, each a schema without choices."""
        if not isinstance(schema, dict) or depth > _DEEPEST_FORM:
            return [] if schema is False else [{}]
        own = {key: each for key, each in schema.items() if key not in ("allOf", "$ref", *_CHOICES)}
        if any(key in schema for key in _OPENERS):
            own["additionalProperties"] = True
        forms = [own]
        if isinstance(link := schema.get("$ref"), str):
            forms = _product(forms, self._linked(link, depth))
        for part in _schemas(schema, "allOf"):
            forms = _product(forms, self.forms(part, depth + 1))
        for choices in (schema.get(keyword) for keyword in _CHOICES):
            if isinstance(choices, list):
                found = [form for each in choices for form in self.forms(each, depth + 1)]
                forms = _product(forms, found)
        return forms

    def _linked(self, link: str, depth: int) -> list[Schema]:
        if link not in self._unfolded:
            self._unfolded[link] = [{}]  # for a link to itself
            target = self._targets(link) if link.startswith("#") else []
            schema: Json = target[0] if len(target) == 1 else {"additionalProperties": True}
            self._unfolded[link] = self.forms(schema, depth + 1)
        return self._unfolded[link]


def _linked(schema: Schema) -> Document | None:
    has_links = any(key in node for node in _nodes(schema) for key in _LINKS)
    return Document(schema) if has_links else None


def _depth(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _schemas(schema: Schema, keyword: str) -> list[Json]:
    """Returns the schemas of a keyword, whether it takes one, a list or a table of them."""
    given = schema.get(keyword)
    if isinstance(given, list):
        return given
    if not isinstance(given, dict):
        return []
    return [*given.values()] if keyword in _TABLES else [given]


def _pointed(node: Json, pointer: str) -> Json | None:
    for part in unquote(pointer).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
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


class Shape:
    """What a place may contain: one of several forms; none mean that no value is valid.

    `lost` is how many keys of the path to it exist, if one of them is not declared. What follows
    from a shape is kept, since the steps of a plan ask for the same places again.
    """

    def __init__(self, forms: list[Schema], document: Document, lost: int | None = None) -> None:
        self.forms = forms
        self.document = document
        self.lost = lost
        # Whether the schema says anything about the place.
        self.known = bool(forms) and all(forms)
        self._below: dict[Path, Shape] = {}

    @classmethod
    def of(cls, schema: Schema) -> Shape:
        """Returns the shape of a schema's value."""
        document = Document(schema)
        return cls(document.forms(schema), document)

    @cached_property
    def kinds(self) -> list[tuple[frozenset[str], list[Json] | None]]:
        """The types of each form, and its values if it lists them all."""
        return [(types_of(form), values_of(form)) for form in self.forms]

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(kind for types, _ in self.kinds for kind in types)

    @cached_property
    def properties(self) -> list[str]:
        tables = (form.get("properties") for form in self.forms)
        return list(
            dict.fromkeys(name for each in tables if isinstance(each, dict) for name in each)
        )

    @cached_property
    def is_open(self) -> bool:
        """Whether a form mentions or allows keys that are not among the properties."""
        openers = {"additionalProperties", "unevaluatedProperties", "patternProperties"}
        return any(
            not isinstance(form.get("properties"), dict) or not openers.isdisjoint(form)
            for form in self.forms
        )

    def inside(self, path: Path) -> Shape:
        """Returns the shape of the value at a path."""
        known = self._below.get(path)
        if known is None:
            known = self._inside(path)
            if len(self._below) < _MOST_KEPT:
                self._below[path] = known
        return known

    def _inside(self, path: Path) -> Shape:
        forms = self.forms
        lost: int | None = None
        for depth, key in enumerate(path):
            found = [_member(form, key) for form in forms]
            schemas = [each for each in found if each is not None]
            declared = [each for each in schemas if each is not _UNDECLARED]
            forms = [form for each in declared for form in self.document.forms(each)]
            if lost is None and not forms:
                lost = depth
            if len(declared) < len(schemas) or len(forms) > _MOST_FORMS:
                forms = [*forms[:_MOST_FORMS], {}]
        return Shape(forms, self.document, lost)


def shape_of(value: Json) -> Shape:
    """Returns the shape of a value that is known; a single value is exactly that one."""
    if isinstance(value, dict | list):
        return Shape.of(_schema_of(value, _DEEPEST))
    return Shape([{"enum": [value]}], Document({}))


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


def types_of(form: Schema) -> frozenset[str]:
    """Returns the JSON types that a form allows; `number` includes `integer`."""
    named = form.get("type")
    types = named if isinstance(named, list) else [named]
    # An unknown type, such as "any" or "float", allows anything.
    allowed = _ALL_TYPES.intersection(each for each in types if isinstance(each, str)) or _ALL_TYPES
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


_UNDECLARED: Final[Schema] = {"undeclared": True}


def _member(form: Schema, key: str | int) -> Json | None:
    """Returns the schema of a key or position; None if there can be none."""
    types = types_of(form)
    is_position = isinstance(key, int) or (key.isascii() and key.isdigit() and len(key) < 10)
    if is_position and "array" in types:
        return _item(form, int(key))
    if "object" not in types:
        return None
    properties = form.get("properties")
    if isinstance(properties, dict) and str(key) in properties:
        found = properties[str(key)]
    elif "patternProperties" in form:
        return {}
    elif "additionalProperties" in form:
        found = form["additionalProperties"]
    else:
        return _UNDECLARED if isinstance(properties, dict) and properties else {}
    return None if found is False else found


def _item(form: Schema, position: int) -> Json | None:
    most, first, rest = form.get("maxItems"), form.get("prefixItems"), form.get("items", {})
    if isinstance(most, int) and position >= most:
        return None
    if isinstance(rest, list):
        first, rest = rest, form.get("additionalItems", {})
    if isinstance(first, list) and position < len(first):
        return first[position]
    return None if rest is False else rest
