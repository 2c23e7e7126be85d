"""The base of all event bodies: fast records whose canonical text is written once."""

from __future__ import annotations

import re
from abc import ABCMeta
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, cast

import msgspec

from plansmith.plan import sentence
from plansmith.plan.data import Json, Record, as_plain, canonical_json, parse_json, stored_json
from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    ShownField = str
    JsonField = Json
else:
    JsonField = Any

    # msgspec calls hooks only for types that it does not know, so it must not know this one as str.
    class ShownField(metaclass=ABCMeta):  # noqa: B024 - nothing is ever made of it
        """The type of a field with a sentence, or with words that were given as they are."""

    ShownField.register(str)  # what the hook returns must be an instance of the type


Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class FrozenStruct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An immutable value that costs little to make; nothing is validated when it is made."""

    def replace(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)


class EventPart(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value inside of an event, such as a problem of a plan; it may hold sentences."""

    def to_json(self) -> dict[str, Json]:
        """Returns the value as it is stored."""
        return cast("dict[str, Json]", parse_json(encode_body(self)))

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the value with sentences as text in a language."""
        return shown(self, locale)


def shown(value: object, locale: str) -> dict[str, Json]:
    """Returns a body or a part of one as JSON, with sentences as text in a language."""

    def write(value: object) -> object:
        if isinstance(value, Sentence):
            return sentence.in_language(value, locale)
        return Record.shown_json(value, locale) if isinstance(value, Record) else _write(value)

    return cast("dict[str, Json]", parse_json(msgspec.json.encode(value, enc_hook=write)))


def type_name(name: str) -> str:
    """Returns the type of a body from the name of its class."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class EventBody(
    FrozenStruct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What happened. Its `type` comes from the name of the class, and is stored beside it.

    Code that makes a body gives fields of the right types; only what is read is validated. Fields
    such as `inputs`, `result`, `values` and `record` hold no values but their content hashes, by
    which the store keeps them; a shorter text stands there itself (`data.Content`).
    """

    type: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.type = type_name(cls.__name__)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads a body from its JSON; raises `ValueError` if it does not fit."""
        try:
            return msgspec.convert(dict(value), cls, dec_hook=read_field)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    def to_json(self) -> dict[str, Json]:
        """Returns the body as it is stored, without default values."""
        return cast("dict[str, Json]", parse_json(self.canonical()))

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the body with sentences as text in a language."""
        return shown(self._with_default_objects(), locale)

    def canonical(self) -> bytes:
        """Returns the canonical text that is hashed, chained and stored."""
        compared, any_json = _special_fields(type(self))
        body = self._with_default_objects() if compared else self
        if not any_json:
            return encode_body(body)
        ordered = {
            name: msgspec.Raw(stored_json(value))
            for name in any_json
            if isinstance(value := cast("Json", getattr(self, name)), (dict, list))
        }
        if not ordered:
            return encode_body(body)
        built = msgspec.to_builtins(body, enc_hook=_write, builtin_types=(msgspec.Raw,))
        return canonical_json(built | ordered)

    def _with_default_objects(self) -> Self:
        """Returns the body with what equals a default replaced by it, which is not written."""
        same = {
            name: default
            for name, default in _special_fields(type(self))[0]
            if (value := getattr(self, name)) is not default and value == default
        }
        return self.replace(**same) if same else self


@cache
def _special_fields(kind: type[EventBody]) -> tuple[list[tuple[str, object]], list[str]]:
    """Returns two groups of fields that msgspec alone does not write canonically.

    Those with a text or record as default: msgspec leaves them out only if they are that very
    object. And those of any JSON, whose keys keep their order.
    """
    fields = msgspec.structs.fields(kind)
    compared: list[tuple[str, object]] = [
        (field.name, field.default)
        for field in fields
        if isinstance(field.default, (str, Record)) and field.default != ""
    ]
    return compared, [field.name for field in fields if field.type is Any]


def read_field(kind: type[Any], value: object) -> object:
    """Reads a field that is a sentence or a validated record."""
    if kind is ShownField:
        return sentence.read_sentence(value)
    if issubclass(kind, Record):
        return kind.model_validate(value)
    raise TypeError(f"a field of the type {kind.__name__} cannot be read")


def check_field(kind: type[Any], value: object) -> object:
    """Checks that a field can be read; a record was validated when it was made."""
    if kind is ShownField:
        return sentence.check_sentence(value)
    return _empty(kind) if issubclass(kind, Record) else read_field(kind, value)


@cache
def _empty(kind: type[Record]) -> Record:
    return kind.model_construct()


def _write(value: object) -> object:
    if isinstance(value, Sentence):
        return sentence.stored_sentence(value)
    if isinstance(value, Record):  # a record keeps this text once it is made
        return msgspec.Raw(value.stored_text)
    return value if isinstance(value, msgspec.Raw) else as_plain(value)


encode_body: Final = msgspec.json.Encoder(enc_hook=_write, order="sorted").encode
_encode_time: Final = msgspec.json.Encoder().encode


def moment(at: datetime) -> str:
    """Returns a time in UTC in the form in which it is stored."""
    return moment_text(at).decode()


def moment_text(at: datetime) -> bytes:
    """Returns what `moment` returns as UTF-8; all times are equally long, so that they sort."""
    text = _encode_time(at)[1:-1]
    return text if at.microsecond else text.replace(b"Z", b".000000Z")


@lru_cache(maxsize=256)
def read_moment(text: str) -> datetime:
    """Reads what `moment` wrote."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"the time {text!r} has no time zone")
    return at if at.tzinfo is UTC else at.astimezone(UTC)


@lru_cache(maxsize=256)
def run_text(run: str) -> bytes:
    """Returns the canonical text of a run's id."""
    return canonical_json(run)


# The canonical text of an event, made of the texts of its parts.
_EVENT: Final = b'{"at":"%b","before":"%b","body":%b,"by":%b,"number":%d,"run":%b,"type":"%b"}'


def hash_of(
    at: bytes, before: str, body: bytes, by: bytes, number: int, run: bytes, kind: str
) -> str:
    """Returns the hash of an event; `before` is the hash of the event before it."""
    return sha256(_EVENT % (at, before.encode(), body, by, number, run, kind.encode())).hexdigest()
