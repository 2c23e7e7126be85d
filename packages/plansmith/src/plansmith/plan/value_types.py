"""Python types and JSON: the schema of a type, and values read as one and written as one."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import typing_extensions
from pydantic import (
    ConfigDict,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import to_json

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json

T = TypeVar("T")
_MARKS: Final[tuple[Any, Any]] = (typing_extensions.Required, typing_extensions.NotRequired)
_OPEN: Final = "x-more-keys"
_MORE_KEYS: Final = ConfigDict(extra="allow", json_schema_extra={_OPEN: True})


def adapter_of(kind: object) -> TypeAdapter[Any]:
    """Returns what reads and writes values of a type; raises `Misconfigured` for one of no JSON."""
    try:
        return _adapter(kind)
    except TypeError:  # a type that cannot be hashed, such as one annotated with a list
        return _adapter.__wrapped__(kind)


@lru_cache(maxsize=512)
def _adapter(kind: object) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(_readable(kind))
    except (PydanticSchemaGenerationError, PydanticUserError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        hint = "a dataclass, a TypedDict, a pydantic model or a plain type such as list[str]"
        raise Misconfigured(f"{_name(kind)} is no type of JSON: {first}", hint=hint) from None


def read_as(value: Json, kind: type[T]) -> T:
    """Returns a JSON value as a value of a type; raises `ValueError` that says what misfits."""
    adapter = adapter_of(kind)
    try:
        # As text, so that the rules of JSON hold: a date is a text, a tuple is a list.
        return cast("T", adapter.validate_json(to_json(value)))
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        place = "".join(f".{each}" for each in flaw["loc"]).lstrip(".")
        where = f"{place}: " if place else ""
        raise ValueError(f"no {_name(kind)}: {where}{flaw['msg']}") from None


def output_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Returns the JSON Schema of what is written; an object has the declared fields and no others.

    That is how values are written, and so a reference to another field is surely wrong. Only a
    `TypedDict` may have further keys.
    """
    schema = adapter.json_schema(mode="serialization")
    for form in (schema, *cast("dict[str, dict[str, Any]]", schema.get("$defs", {})).values()):
        if form.pop(_OPEN, False):
            form.pop("additionalProperties", None)
        elif "properties" in form:
            form.setdefault("additionalProperties", False)
    return schema


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _readable(kind: object, around: tuple[object, ...] = ()) -> Any:
    """Returns the type with each `TypedDict` as one that pydantic reads on every Python.

    Of one that contains itself (it is in `around`) the inner one may be any object.
    """
    if kind in around:
        return dict[str, Any]
    if typing_extensions.is_typeddict(kind):
        return _typed_dict(cast("type[Any]", kind), around)
    origin, given = get_origin(kind), get_args(kind)
    if origin is None or not given or origin is typing.Literal:
        return kind
    if origin is Annotated:
        return Annotated[(_readable(given[0], around), *given[1:])]
    inner = tuple(_readable(each, around) for each in given)
    if inner == given:
        return kind
    return Union[inner] if origin in (Union, types.UnionType) else origin[inner]  # noqa: UP007


def _typed_dict(kind: type[Any], around: tuple[object, ...]) -> Any:
    """Returns a copy that keeps further keys: to type checkers too, a value may have them."""
    hints: Mapping[str, Any] = get_type_hints(kind, include_extras=True)
    needed = cast("frozenset[str]", getattr(kind, "__required_keys__", frozenset(hints)))
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        # Where annotations are texts, only the resolved hint says whether a key is required.
        is_marked = get_origin(hint) in _MARKS
        mark = get_origin(hint) if is_marked else _MARKS[name not in needed]
        plain = get_args(hint)[0] if is_marked else hint
        fields[name] = mark[_readable(plain, (*around, kind))]
    make: Any = typing_extensions.TypedDict  # checkers want the fields written out
    made = make(kind.__name__, fields)
    made.__module__, made.__doc__ = kind.__module__, kind.__doc__
    made.__pydantic_config__ = getattr(kind, "__pydantic_config__", _MORE_KEYS)
    return made
