"""JSON values: their type, limits, canonical text and hash; records that are checked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Never,
    Self,
    TypeVar,
    cast,
)

import msgspec
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from plansmith.plan.sentence import Sentence

Json = JsonValue
_T = TypeVar("_T")
Flag = Annotated[bool, Strict()]
StrictInt = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Instant = Annotated[AwareDatetime, AfterValidator(lambda at: at.astimezone(UTC))]
Path = tuple[str | int, ...]

MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 4096
CALL_MARK_DIGITS: Final = 16  # digits of a hash
HASH_DIGITS: Final = 64
# Refuses a NaN, which msgspec writes as null. Its text is thrown away, so it may write anything
# (here a number) for objects that it does not know.
_refuse_nan: Final = json.JSONEncoder(allow_nan=False, default=id).encode


class Record(BaseModel):
    """An immutable value; two are equal when their JSON is equal."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,
        ignored_types=(cached_property,),
    )

    @classmethod
    def with_defaults(cls) -> Self:
        """Returns the record whose fields all have their default value, which needs no check."""
        # This does not make the validator of the class, which takes milliseconds.
        return cls.model_construct()

    def to_json(self) -> dict[str, Json]:
        """Returns the value as plain JSON, without fields that have their default value."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the JSON with sentences as text in a language."""
        return self.model_dump(mode="json", exclude_defaults=True, context={"locale": locale})

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed; the copy is validated."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate(fields | changes)

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        """Returns a record with these values, not validated, which nobody can change any more."""
        given = {name: _frozen(each) for name, each in values.items()}
        return super().model_construct(_fields_set, **given)

    # pydantic copies all of `__dict__`, also properties that were computed from the old fields.
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy with some fields changed, not validated."""
        given = {name: _frozen(each) for name, each in (update or {}).items()}
        copied = super().model_copy(update=given, deep=deep)
        for name in vars(copied).keys() - type(self).model_fields.keys():
            del vars(copied)[name]
        return copied

    @cached_property
    def stored_text(self) -> bytes:
        """The canonical text in which the record is stored, without default values."""
        # Not by `to_json`: that of a subclass may add default values for readers.
        return canonical_json(self.model_dump(mode="json", exclude_defaults=True))

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        raise AttributeError(f"a {kind} cannot be changed: make another by .replace({name}=…)")

    # pydantic treats True, 1 and 1.0 as equal; tools do not.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return type(self) is type(other) and self._canonical() == other._canonical()

    def __hash__(self) -> int:
        return hash(self._canonical())

    def _canonical(self) -> bytes:
        return canonical_json(self.model_dump(mode="json"))


class WrittenNumber(float):
    """A number that keeps the digits it was written with, such as 55.00."""

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        return (self.text,)

    def __repr__(self) -> str:
        return self.text


def written_number(text: str) -> float:
    """Reads a number of JSON; it is a plain one if it would be written with the same digits."""
    number = float(text)
    return number if _ordered(number) == text.encode() else WrittenNumber(text)


def canonical_json(value: object) -> bytes:
    """Returns the one canonical text of a JSON value; ARCHITECTURE.md says how it is written."""
    text = _sorted(value)
    return _without_nan(value, text) if b"null" in text else text


def stored_json(value: object) -> bytes:
    """Returns the text in which a value is stored: canonical, but with its keys in their order."""
    text = _ordered(value)
    return _without_nan(value, text) if b"null" in text else text


def json_text(value: object, indent: int = 0) -> str:
    """Writes a value for readers: keys in their order, numbers with their digits."""
    try:
        return msgspec.json.format(stored_json(value), indent=indent).decode()
    except UnicodeEncodeError:  # half of a character: written as an escape
        return json.dumps(value, ensure_ascii=False, indent=indent or None)


def _without_nan(value: object, text: bytes) -> bytes:
    _refuse_nan(value)
    return text


def as_plain(value: object) -> object:
    """Writes a text or number of another class, as numpy has them, as text or number."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, WrittenNumber):
        return msgspec.Raw(value.text.encode())
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"a {type(value).__name__} cannot be stored")


_sorted: Final = msgspec.json.Encoder(enc_hook=as_plain, order="sorted").encode
_ordered: Final = msgspec.json.Encoder(enc_hook=as_plain).encode
_decode: Final = msgspec.json.Decoder(float_hook=written_number).decode


def parse_json(text: bytes | str) -> Json:
    """Parses JSON; keys keep their order, numbers their digits. Every call returns a new object."""
    value: Json = _decode(text)
    return value


# A value has two hashes. This one ignores the order of keys: it compares plans, calls, and what a
# person allowed. The digest of a `Content` keeps that order: values are stored and found by it, so
# that a table read again has its columns in place.
def canonical_hash(value: object) -> str:
    """The SHA-256 of a value's canonical text: the same for every order of keys."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class Content(NamedTuple):
    """A value as it is stored, and the SHA-256 of that text, by which it is found.

    A text that is shorter than a hash, such as `{"x":1}`, is its own digest, and is stored nowhere
    else. The length of a digest tells which of the two it is.
    """

    digest: str
    text: bytes

    @property
    def is_short(self) -> bool:
        return len(self.text) < HASH_DIGITS

    def value(self) -> Json:
        """Parses the text; every call returns a new object."""
        return parse_json(self.text)


def content_of(value: Json | Content) -> Content:
    """Returns the content of a value; returns a Content unchanged."""
    if isinstance(value, Content):
        return value
    text = stored_json(value)
    short = len(text) < HASH_DIGITS
    return Content(text.decode() if short else hashlib.sha256(text).hexdigest(), text)


def full_hash(digest: str) -> str:
    """Returns the SHA-256 that a digest stands for: a short text is hashed, a hash stays."""
    is_short = 0 < len(digest) < HASH_DIGITS
    return hashlib.sha256(digest.encode()).hexdigest() if is_short else digest


def call_mark(inputs: Json) -> str:
    """Returns what identifies a call: the same for equal inputs, in any order of keys."""
    return canonical_hash(inputs)[:CALL_MARK_DIGITS]


def same(left: Json, right: Json) -> bool:
    """Tells whether two JSON values are the same; True, 1 and 1.0 are three values."""
    return canonical_json(left) == canonical_json(right)


def kind_of_value(value: Json) -> str:
    """Returns the JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def leaves(value: Json) -> Iterator[Json]:
    """Yields every text, number, boolean and null in a value, in order."""
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    else:
        yield value


def objects_in(value: Json) -> Iterator[dict[str, Json]]:
    """Yields every object in a value, with that itself; does not recurse."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield each
            left += each.values()
        elif isinstance(each, list):
            left += each


def map_leaves(value: Json, change: Callable[[Json], Json]) -> Json:
    """Returns a copy in which `change` was applied to every text, number, boolean and null."""
    if isinstance(value, dict):
        return {key: map_leaves(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [map_leaves(each, change) for each in value]
    return change(value)


def plain_numbers(value: Json) -> Json:
    """Returns a value for code that knows no numbers with digits of their own."""
    return map_leaves(value, lambda leaf: float(leaf) if isinstance(leaf, WrittenNumber) else leaf)


_FlawKind = Literal["deep", "text", "number", "kind"]


class Flaw(NamedTuple):
    """Why a Python value is not usable JSON, and where."""

    kind: _FlawKind
    path: Path
    message: str


def flaws(value: object) -> Iterator[Flaw]:
    """Lists everything in a Python value that JSON cannot hold; does not recurse."""
    stack: list[tuple[object, Path]] = [] if _is_plain(value) else [(value, ())]
    while stack:
        node, path = stack.pop()
        if not isinstance(node, (dict, list)):
            if found := _scalar_flaw(node):
                yield Flaw(found[0], path, found[1])
        elif len(path) >= MAX_DEPTH:
            why = Sentence("values are nested more than {most} levels deep", most=MAX_DEPTH)
            yield Flaw("deep", path[:8], why)
            return
        else:
            table = cast("dict[Any, object]", node) if isinstance(node, dict) else {}
            yield from (_key_flaw(key, path) for key in table if not _are_texts([key]))
            items = enumerate(cast("list[object]", node)) if isinstance(node, list) else ()
            stack += [(child, (*path, key)) for key, child in (*table.items(), *items)]


def _key_flaw(key: object, path: Path) -> Flaw:
    if isinstance(key, str):
        return Flaw("text", path, Sentence("the key {key} is not valid text", key=repr(key)))
    return Flaw("kind", path, Sentence("the key {key} is not text", key=repr(key)))


def _is_plain(value: Any) -> bool:
    """Tells whether a value surely has no flaw; takes a third as long as `flaws`."""
    texts: list[Any] = []
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Json] = []
        for node in level:
            if type(node) is str:
                texts.append(node)
            elif isinstance(node, dict):
                texts += node
                below += node.values()
            elif isinstance(node, list):
                below += node
            elif _scalar_flaw(node):
                return False
        if not below:
            return _are_texts(texts)
        level = below
    return False


def _are_texts(values: list[Any]) -> bool:
    """Tells whether values are texts that UTF-8 can hold."""
    try:
        "".join(values).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _scalar_flaw(node: object) -> tuple[_FlawKind, str] | None:
    match node:
        case str() if not _are_texts([node]):
            return "text", Sentence("the text has a lone surrogate")
        case int() if node.bit_length() > MAX_INTEGER_BITS:
            return "number", Sentence("the number has too many digits")
        case float() if not math.isfinite(node):
            return "number", Sentence("{number} is not a JSON number", number=str(node))
        case None | str() | int() | float():  # a boolean is an int
            return None
        case _:
            return "kind", Sentence("a {kind} is not a JSON value", kind=type(node).__name__)


def is_deep(value: object) -> bool:
    """Tells whether a value is nested deeper than a plan may be, and than code can follow."""
    return any(flaw.kind == "deep" for flaw in flaws(value))


def require_json(value: object) -> None:
    """Raises `ValueError` for a value that JSON cannot hold."""
    for flaw in flaws(value):
        place = ".".join(map(str, flaw.path))
        raise ValueError(f"{flaw.message} (at {place})" if place else flaw.message)


class _Frozen:
    """What refuses every change in place, and is its own copy."""

    if not TYPE_CHECKING:

        def __init__(self, _=()) -> None:
            """Does nothing, however often it is called."""

        def _refuse(self, *_: object, **__: object) -> Never:
            hint = "make a changed one with step.replace(...) and plan.replace(steps=[...])"
            raise TypeError(f"a plan cannot be changed in place: {hint}")

        __setitem__ = __delitem__ = __ior__ = __iadd__ = __imul__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse
        append = extend = insert = remove = reverse = sort = _refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self


class FrozenDict(_Frozen, dict[str, _T]):
    """An object of a plan: reads like a dict, and refuses every change, at every depth."""

    if not TYPE_CHECKING:

        def __new__(cls, value=()):
            return _frozen(dict(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class FrozenList(_Frozen, list[Json]):
    """A list of a plan: reads like a list, and refuses every change, at every depth."""

    if not TYPE_CHECKING:

        def __new__(cls, value=()):
            return _frozen(list(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ([*self],)


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
# Types of values that nobody can change.
FIXED_TYPES: Final = _SCALARS | {tuple, frozenset, FrozenDict, FrozenList}


if TYPE_CHECKING:

    def _frozen(_: Json) -> Json: ...
else:  # no checker can know that these are dicts and lists whose own methods refuse

    def _frozen(value):
        if type(value) in FIXED_TYPES:
            return value
        if isinstance(value, dict):
            made = dict.__new__(FrozenDict)
            dict.update(made, value)
            for name, each in value.items():
                if type(each) not in _SCALARS:
                    dict.__setitem__(made, name, _frozen(each))
            return made
        if isinstance(value, list):
            made = list.__new__(FrozenList)
            list.extend(made, [v if type(v) in _SCALARS else _frozen(v) for v in value])
            return made
        return value


def frozen_json(value: Json) -> Json:
    """Returns a value that nobody can change; raises `ValueError` for one that JSON cannot hold."""
    require_json(value)
    return _frozen(value)


# The context of a validation whose values need no search for flaws: it was made before.
FLAWLESS: Final = object()


def _freeze(
    value: object, validate: ValidatorFunctionWrapHandler, info: ValidationInfo[object]
) -> object:
    """Refuses values that JSON cannot hold, before pydantic converts them."""
    if info.context is not FLAWLESS:
        require_json(value)
    return _frozen(cast("Json", value if isinstance(value, dict) else validate(value)))


def _text(value: str) -> str:
    if not value.isascii():
        require_json(value)
    return value


Text = Annotated[str, AfterValidator(_text)]
NonEmptyText = Annotated[str, AfterValidator(_text), Field(min_length=1)]
if TYPE_CHECKING:
    _Looked = Json
else:  # pydantic need not check again what `_freeze` has checked
    _Looked = Any
Value = Annotated[_Looked, WrapValidator(_freeze)]
JsonObject = Annotated[dict[str, _Looked], WrapValidator(_freeze)]
