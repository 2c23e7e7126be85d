"""JSON values: their type, limits, canonical text and hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, JsonValue, Strict

from plansmith.plan.sentence import Sentence

Json = JsonValue
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Instant = Annotated[AwareDatetime, AfterValidator(lambda at: at.astimezone(UTC))]
Path = tuple[str | int, ...]

MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 4096
# `json.dumps` would make a new encoder for every call.
_encode: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode


class Record(BaseModel):
    """An immutable value; two are equal when their JSON is equal."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def to_json(self) -> dict[str, Json]:
        """Returns the value as plain JSON, without fields that have their default value."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the JSON with sentences as text in a language; as stored when none is given."""
        return self.model_dump(mode="json", exclude_defaults=True, context={"locale": locale})

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed; the copy is validated."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate(fields | changes)

    # pydantic treats True, 1 and 1.0 as equal; tools do not.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return type(self) is type(other) and self._canonical() == other._canonical()

    def __hash__(self) -> int:
        return hash(self._canonical())

    def _canonical(self) -> bytes:
        return canonical_json(self.model_dump(mode="json"))


def canonical_json(value: object) -> bytes:
    """Returns the one canonical text of a JSON value: sorted keys, no spaces, UTF-8."""
    return _encode(value).encode()


def content_hash(value: object) -> str:
    """The SHA-256 of a value's canonical text, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class Content(NamedTuple):
    """A value as canonical text together with its content hash."""

    digest: str
    text: bytes

    def value(self) -> Json:
        """Parses the text; every call returns a new object."""
        return cast("Json", json.loads(self.text))


def content_of(value: Json | Content) -> Content:
    """Returns the content of a value; returns a Content unchanged."""
    if isinstance(value, Content):
        return value
    text = canonical_json(value)
    return Content(hashlib.sha256(text).hexdigest(), text)


def same(left: Json, right: Json) -> bool:
    """Whether two JSON values are the same; True, 1 and 1.0 are three values."""
    return canonical_json(left) == canonical_json(right)


def leaves(value: Json) -> Iterator[Json]:
    """Yields every text, number, boolean and null in a value, in order."""
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    else:
        yield value


def map_leaves(value: Json, change: Callable[[Json], Json]) -> Json:
    """Returns a copy in which `change` was applied to every text, number, boolean and null."""
    if isinstance(value, dict):
        return {key: map_leaves(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [map_leaves(each, change) for each in value]
    return change(value)


class Flaw(NamedTuple):
    """Why a Python value is not usable JSON, and where."""

    kind: Literal["deep", "text", "number", "kind"]
    path: Path
    message: str


def flaws(value: object) -> Iterator[Flaw]:
    """Lists everything in a Python value that JSON cannot hold; does not recurse."""
    stack: list[tuple[object, Path]] = [(value, ())]
    while stack:
        node, path = stack.pop()
        if not isinstance(node, (dict, list)):
            flaw = _scalar_flaw(node, path)
        elif len(path) >= MAX_DEPTH:
            yield Flaw("deep", path[:8], Sentence("json.deep", most=MAX_DEPTH))
            return
        elif isinstance(node, list):
            children = cast("list[object]", node)
            stack.extend((child, (*path, index)) for index, child in enumerate(children))
            continue
        else:
            table = cast("dict[object, object]", node)
            flaw = next((found for key in table if (found := _key_flaw(key, path))), None)
            stack.extend((child, (*path, str(key))) for key, child in table.items())
        if flaw is not None:
            yield flaw


def _key_flaw(key: object, path: Path) -> Flaw | None:
    if not isinstance(key, str):
        return Flaw("kind", path, Sentence("json.key_not_text", key=repr(key)))
    return (
        None if _is_text(key) else Flaw("text", path, Sentence("json.key_bad_text", key=repr(key)))
    )


def _scalar_flaw(node: object, path: Path) -> Flaw | None:
    if node is None or isinstance(node, bool):
        return None
    if isinstance(node, str):
        return None if _is_text(node) else Flaw("text", path, Sentence("json.bad_text"))
    if isinstance(node, int):
        fits = node.bit_length() <= MAX_INTEGER_BITS
        return None if fits else Flaw("number", path, Sentence("json.digits"))
    if isinstance(node, float):
        finite = math.isfinite(node)
        return None if finite else Flaw("number", path, Sentence("json.number", number=str(node)))
    return Flaw("kind", path, Sentence("json.kind", kind=type(node).__name__))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
