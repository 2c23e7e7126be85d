"""JSON Schemas: compiled once, with a bound on their work, and what they allow at a place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import jsonschema_rs

from plansmith.plan.data import Json, Path, canonical_json, kind_of_value, objects_in, plain_numbers

_FAILURES: Final = (ValueError, TypeError, OverflowError, RecursionError)
_ALL_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
_TABLES: Final = ("properties", "patternProperties", "$defs", "definitions", *_DEPENDENT)
_MAX_FORMS: Final = 32
_DEEPEST_FORM: Final = 32
_MAX_KEPT: Final = 2048
_CHOICES: Final = ("anyOf", "oneOf")
_LINKS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that say which fields an object may have beside those that are listed.
SAYS_WHAT_ELSE: Final = {"additionalProperties", "unevaluatedProperties", "patternProperties"}
# Keywords that may add properties which this module does not see.
_ADDS_PROPERTIES: Final = ("if", *_DEPENDENT, "$dynamicRef", "$recursiveRef")
# Keywords whose schemas are applied to the value; one of them to each part; all to each part.
_TO_ITSELF: Final = ("allOf", *_CHOICES, "not", "if", "then", "else", *_DEPENDENT)
_BY_KEY: Final = ("properties", "additionalProperties", "items", "prefixItems", "additionalItems")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_TO_EACH: Final = ("patternProperties", "propertyNames", "contains", *_UNEVALUATED)
_GROWING: Final = {*_LINKS, *_UNEVALUATED}
_INNER: Final = {*_LINKS, *_TO_ITSELF, *_BY_KEY, *_TO_EACH, *_TABLES}
# How often schemas may be applied to the parts of a value: to tell if it is valid (30 ns each), and
# why it is not (20 µs each, for some parts). Links to choices multiply: 1 kB could take a minute.
_MAX_WORK: Final = 4_000_000
_MAX_REASONS: Final = 20_000
_MAX_WRONG: Final = 50
_MAX_COUNTED: Final = 300_000
_MAX_TARGETS: Final = 50  # of a link

Schema = dict[str, Json]
_UNDECLARED: Final[Schema] = {"undeclared": True}


class BadSchema(ValueError):
    """A schema that cannot be used: invalid, too much work, or part of it is elsewhere."""


class Compiled(NamedTuple):
    """A compiled schema; `flaw` says why it is unusable, or which links had to be removed."""

    validator: jsonschema_rs.Validator | None
    flaw: str = ""

    def is_cut(self, value: Json) -> bool:
        """Tells whether only the surface of a value is checked, since all is too much work."""
        check: object = self.validator
        return isinstance(check, _Bounded) and check.explaining(value) is not check.whole


class _Bounded:
    """A validator whose work can grow without bound: it counts it, and does not begin too much."""

    def __init__(self, schema: Schema, made: list[jsonschema_rs.Validator]) -> None:
        self.work = WholeSchema(schema).work
        self.whole, self.surface, self.nothing = made

    def explaining(self, value: Json) -> jsonschema_rs.Validator:
        """Returns what can quickly say why a value is not valid: all, its surface, or nothing."""
        work = self.work(value)
        if work > _MAX_WORK:
            return self.surface
        if work <= _MAX_REASONS or self.work(value, _MAX_WRONG) <= _MAX_REASONS:
            return self.whole
        if self.whole.is_valid(value):
            return self.whole
        return self.nothing if self.surface.is_valid(value) else self.surface

    def is_valid(self, value: Json) -> bool:
        return (self.surface if self.work(value) > _MAX_WORK else self.whole).is_valid(value)

    def iter_errors(self, value: Json) -> Iterator[jsonschema_rs.ValidationError]:
        return self.explaining(value).iter_errors(value)

    def validate(self, value: Json) -> None:
        for error in self.iter_errors(value):
            raise error


def validator(
    schema: Mapping[str, Any], *, formats: bool = False, mask: str | None = None
) -> jsonschema_rs.Validator:
    """Compiles a schema; never reads from the network or a file."""
    try:
        plain = cast("dict[str, Any]", plain_numbers(dict(schema)))
        grows = any(not _GROWING.isdisjoint(node) for node in objects_in(plain))
        parts = (plain, _surface(plain), False) if grows else (plain,)
        options: Any = {"validate_formats": formats or None, "mask": mask, "offline": True}
        made = [jsonschema_rs.validator_for(each, **options) for each in parts]
    except jsonschema_rs.ValidationError as error:
        raise BadSchema(error.message) from error
    except (*_FAILURES, jsonschema_rs.ReferencingError) as error:
        raise BadSchema(str(error)) from error
    return cast("jsonschema_rs.Validator", _Bounded(plain, made)) if grows else made[0]


def _surface(schema: Json, *, is_whole: bool = True) -> Schema:
    """Returns what a schema says of a value and its members, without links and choices."""
    if not isinstance(schema, dict) or "$ref" in schema:  # may hide what is beside it
        return {}
    surface = {key: each for key, each in schema.items() if key not in _INNER}
    if is_whole and isinstance(named := schema.get("properties"), dict):
        surface["properties"] = {key: _surface(named[key], is_whole=False) for key in named}
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            surface["additionalProperties"] = False
    return surface


def compiled(schema: Schema) -> Compiled:
    """Compiles a schema for the draft that its `$schema` names; formats are checked."""
    try:
        return _compile(canonical_json(schema))
    except _FAILURES as error:
        return Compiled(None, str(error))


@lru_cache(maxsize=2048)
def _compile(text: bytes) -> Compiled:
    schema: Schema = json.loads(text)
    try:
        return Compiled(validator(schema, formats=True))
    except BadSchema as error:
        message = str(error)
    # An unknown `$schema`, such as "the latest draft", is no error.
    if message.startswith("Unknown meta-schema") and "draft-03" not in message:
        del schema["$schema"]
        return compiled(schema)
    if message.startswith("Resource ") and (outside := _cut_links(schema)):
        flaw = f"it refers to {outside}, and nothing is fetched for a schema"
        return compiled(schema)._replace(flaw=flaw)
    return Compiled(None, message)


def _cut_links(schema: Json) -> str:
    """Removes every link to another document; returns the first of them."""
    first = ""
    for node in objects_in(schema):
        for key in _LINKS:
            link = node.get(key)
            if isinstance(link, str) and not link.startswith("#"):
                first = first or link
                del node[key]
    return first


def at(value: Json, path: Path) -> Json:
    """Returns the part of a value at a path."""
    for key in path:
        if isinstance(value, dict):
            value = value[str(key)]
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return value


def _inner(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _schemas(schema: Schema, *keywords: str) -> list[Json]:
    """Returns the schemas of keywords, whether these take one, a list or a table of them."""
    found: list[Json] = []
    for keyword in keywords:
        given = schema.get(keyword)
        is_one = isinstance(given, dict) and keyword not in _TABLES
        found += [given] if is_one else _inner(given)
    return found


class WholeSchema:
    """A whole schema: follows its links, and unfolds or counts each part of it once."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._unfolded: dict[str, list[Schema]] = {}
        self._rows: dict[int, dict[int, int]] = {-1: {}}

    def work(self, value: Json, most: int = _MAX_WORK + 1) -> int:
        """Counts how often schemas are applied to a value's parts, or to some of each level."""
        work, depth, level = 0, 0, [value]
        while level and work <= _MAX_WORK:
            if not self._graph or len(self._graph) * depth > _MAX_COUNTED:
                return _MAX_WORK + 1
            if depth not in self._rows:
                # How often each schema leads to one that is applied so many levels further down.
                above, row = self._rows[depth - 1], dict[int, int]()
                for key, (size, itself, parts) in self._graph.items():
                    times = sum(row[each] for each in itself) + (0 if depth else size)
                    times += sum(max(above.get(each, 0) for each in group) for group in parts)
                    row[key] = min(times, _MAX_WORK + 1)
                self._rows[depth] = row
            times = self._rows[depth][id(self.schema)]
            if not times:
                break
            work, depth = work + min(len(level), most) * times, depth + 1
            level = [inner for each in level for inner in _inner(each)]
        return work

    @cached_property
    def _graph(self) -> dict[int, tuple[int, list[int], list[list[int]]]]:
        """The size of each schema, and what it applies, which comes first; empty if not known."""
        found: dict[int, tuple[int, list[int], list[list[int]]]] = {}
        stack = [self.schema]
        while stack:
            if id(node := stack.pop()) in found:
                continue
            schema = node if isinstance(node, dict) else Schema()
            links = [self._targets(link) for key in _LINKS if (link := schema.get(key)) is not None]
            if not all(links):
                return {}
            # To know what is left to `unevaluated…`, the others are applied twice more.
            often = 1 if schema.keys().isdisjoint(_UNEVALUATED) else 3
            itself = [*chain(*links), *_schemas(schema, *_TO_ITSELF)] * often
            parts = [_schemas(schema, *_BY_KEY), *([each] for each in _schemas(schema, *_TO_EACH))]
            size = 1 + sum(len(each) for each in schema.values() if isinstance(each, list))
            found[id(node)] = size, [*map(id, itself)], [[*map(id, each)] for each in parts if each]
            stack += chain(itself, *parts)
        order = TopologicalSorter({key: each[1] for key, each in found.items()})
        with suppress(CycleError):
            return {key: found[key] for key in order.static_order()}
        return {}

    def _targets(self, link: Json) -> list[Json]:
        """Returns the schemas that a link may mean: its pointer in each that has a name."""
        rest = str(link).partition("#")[2]
        pointer = rest if rest.startswith("/") else ""
        found = self._named.get("" if pointer else unquote(rest), [])
        if len(found) > _MAX_TARGETS:
            return []
        targets = [_pointed(each, pointer) for each in found]
        return [*{id(each): each for each in targets if each is not None}.values()]

    @cached_property
    def _named(self) -> dict[str, list[Json]]:
        """The schemas with each anchor; at "", the whole and all that have any name."""
        table: dict[str, list[Json]] = {"": [self.schema]}
        for node in objects_in(self.schema):
            for key in ("$id", "id", "$anchor", "$dynamicAnchor"):
                if isinstance(name := node.get(key), str):
                    table[""].append(node)
                    table.setdefault(unquote(name.rpartition("#")[2]), []).append(node)
        return table

    def forms(self, schema: Json, depth: int = 0) -> list[Schema]:
        """Returns what a schema allows: one of several forms, each a schema without choices."""
        if not isinstance(schema, dict) or depth > _DEEPEST_FORM:
            return [] if schema is False else [{}]
        own = {key: each for key, each in schema.items() if key not in ("allOf", "$ref", *_CHOICES)}
        if any(key in schema for key in _ADDS_PROPERTIES):
            own["additionalProperties"] = True
        # Each of these lists adds one of its forms.
        several: list[list[Schema]] = []
        if isinstance(link := schema.get("$ref"), str):
            if link not in self._unfolded:
                self._unfolded[link] = [{}]  # for a link to itself
                target = self._targets(link) if link.startswith("#") else []
                linked: Json = target[0] if len(target) == 1 else {"additionalProperties": True}
                self._unfolded[link] = self.forms(linked, depth + 1)
            several.append(self._unfolded[link])
        several += [self.forms(part, depth + 1) for part in _schemas(schema, "allOf")]
        for choices in (schema.get(keyword) for keyword in _CHOICES):
            if isinstance(choices, list):
                several.append([form for each in choices for form in self.forms(each, depth + 1)])
        forms = [own]
        for more in several:
            many = len(forms) * len(more) > _MAX_FORMS
            joined = [] if many else [_joined(one, other) for one in forms for other in more]
            forms = [Schema()] if many else joined
        return forms


def _pointed(node: Json, pointer: str) -> Json | None:
    for part in unquote(pointer).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and len(key) < 10 and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


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
        both = _types({"type": one["type"]}) & _types({"type": other["type"]})
        joined["type"] = [*sorted(both)]
    return joined


class Shape:
    """What a place may contain: one of several forms; none mean that no value is valid.

    `lost` is how many keys of the path to it exist, if one of them is not declared. What follows
    from a shape is kept, since the steps of a plan ask for the same places again.
    """

    def __init__(self, forms: list[Schema], whole: WholeSchema, lost: int | None = None) -> None:
        self.forms = forms
        self.whole = whole
        self.lost = lost
        # Whether the schema says anything about the place.
        self.known = bool(forms) and all(forms)
        self._below: dict[Path, Shape] = {}

    @classmethod
    def of(cls, schema: Schema) -> Shape:
        """Returns the shape of a schema's value."""
        whole = WholeSchema(schema)
        return cls(whole.forms(schema), whole)

    @cached_property
    def kinds(self) -> list[tuple[frozenset[str], list[Json] | None]]:
        """The types of each form, and its values if it lists them all."""
        return [(_types(form), _values(form)) for form in self.forms]

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(kind for types, _ in self.kinds for kind in types)

    @cached_property
    def properties(self) -> list[str]:
        tables = (form.get("properties") for form in self.forms)
        return [*dict.fromkeys(key for table in tables if isinstance(table, dict) for key in table)]

    @cached_property
    def is_open(self) -> bool:
        """Whether a form mentions or allows keys that are not among the properties."""
        return any(
            not isinstance(form.get("properties"), dict) or not SAYS_WHAT_ELSE.isdisjoint(form)
            for form in self.forms
        )

    def inside(self, path: Path) -> Shape:
        """Returns the shape of the value at a path."""
        if not path or path in self._below:
            return self._below[path] if path else self
        forms, lost = self.forms, None
        for depth, key in enumerate(path):
            found = [_member(form, key) for form in forms]
            schemas = [each for each in found if each is not None]
            declared = [each for each in schemas if each is not _UNDECLARED]
            forms = [form for schema in declared for form in self.whole.forms(schema)]
            if lost is None and not forms:
                lost = depth
            if len(declared) < len(schemas) or len(forms) > _MAX_FORMS:
                forms = [*forms[:_MAX_FORMS], {}]
        shape = Shape(forms, self.whole, lost)
        if len(self._below) < _MAX_KEPT:
            self._below[path] = shape
        return shape


def _types(form: Schema) -> frozenset[str]:
    """Returns the JSON types that a form allows; `number` includes `integer`."""
    named = form.get("type")
    types = named if isinstance(named, list) else [named]
    # An unknown type, such as "any" or "float", allows anything.
    allowed = _ALL_TYPES.intersection(each for each in types if isinstance(each, str)) or _ALL_TYPES
    if "number" in allowed:
        allowed |= {"integer"}
    values = _values(form)
    if values is None:
        return allowed
    return allowed & {kind for value in values for kind in _kinds(value)}


def _values(form: Schema) -> list[Json] | None:
    """Returns the values that a form lists, if it lists them all."""
    listed = [form["const"]] if "const" in form else form.get("enum")
    return listed if isinstance(listed, list) else None


def _kinds(value: Json) -> tuple[str, ...]:
    """Returns the JSON types of a value; a whole number is also an integer."""
    kind = kind_of_value(value)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return ("integer", "number") if kind == "number" and whole else (kind,)


def _member(form: Schema, key: str | int) -> Json | None:
    """Returns the schema of a key or position; None if there can be none."""
    types = _types(form)
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


def why_misfit(schema: Mapping[str, Any] | None, value: Json) -> str:
    """Says where and why a value does not fit a schema; empty if it does or nothing can tell."""
    try:
        return why_not_valid(validator(schema or {}), value)
    except BadSchema:
        return ""


def why_not_valid(check: jsonschema_rs.Validator, value: Json) -> str:
    """Says where and why a value is not valid; empty if it is or nothing can tell."""
    try:
        try:
            check.validate(value)
        except jsonschema_rs.ValidationError:
            raise
        except ValueError:  # it may have numbers that the validator does not know
            check.validate(plain_numbers(value))
    except jsonschema_rs.ValidationError as error:
        place = ".".join(map(str, error.instance_path))
        return f"{place}: {error.message}" if place else error.message
    except ValueError:
        return ""  # it is beyond what can be checked
    return ""
