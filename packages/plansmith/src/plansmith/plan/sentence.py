"""Sentences for people: stored as a code with fields, shown in the reader's language."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast

from pydantic import (
    PlainSerializer,
    SerializationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import from_json

_PLACE: Final = re.compile(r"\{(\w+)\}")
LANGUAGES: Final = ("en", "zh")
_DEEPEST: Final = 50
_COMMA: Final = {"en": ", ", "zh": "、"}


class Sentence(str):
    """A sentence: a code of `sentences.json` and the values of its fields.

    As a string it is the English text, so that programs can use it as one. A field is a text, a
    number, another sentence, or a list of these.
    """

    __slots__ = ("code", "fields")
    code: str
    fields: Mapping[str, Any]

    def __new__(cls, code: str, /, **fields: Any) -> Self:
        made = super().__new__(cls, _text(code, fields, "en"))
        made.code, made.fields = code, fields
        return made

    def __str__(self) -> str:
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.code,), dict(self.fields)


def in_language(text: str, locale: str) -> str:
    """Returns a sentence in the reader's language; other text stays as it is."""
    return _text(text.code, text.fields, locale) if isinstance(text, Sentence) else text


def in_language_if(text: str, code: str, locale: str) -> str:
    """Returns a text in the reader's language if it is what a code says in another one."""
    own = sentence_texts()[code]
    return own[language_of(locale)] if text in own.values() else text


def joined(parts: Sequence[str], code: str = "text.both") -> str:
    """Joins texts two at a time with the sentence of the code; empty when there are no texts."""
    texts = [each for each in parts if each]
    # Halves in halves: one in the other a thousand times would be too deep to show.
    while len(texts) > 2:
        texts = [joined(texts[at : at + 2], code) for at in range(0, len(texts), 2)]
    match texts:
        case [first, then]:
            return Sentence(code, first=first, then=then)
        case _:
            return texts[0] if texts else ""


def with_hint(message: str, hint: str) -> str:
    """Returns what went wrong with what helps, if there is such a hint."""
    return Sentence("error.with_hint", message=message, hint=hint) if hint else message


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Returns a hint with the known name most like a wrong one, else the other hint."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return Sentence("hint.mean", names=Sentence("ps.quoted", text=near[0])) if near else otherwise


def language_of(locale: str) -> str:
    """Returns the language to use for a locale: Chinese or, for all others, English."""
    return "zh" if locale.lower().startswith("zh") else "en"


@cache
def sentence_texts() -> Mapping[str, Mapping[str, str]]:
    """Returns the text of every code, by language."""
    path = Path(__file__).with_name("sentences.json")
    # Every command reads this table: `json` takes twice as long.
    return cast("Mapping[str, Mapping[str, str]]", from_json(path.read_bytes()))


@cache
def texts_under(prefix: str, language: str) -> Mapping[str, str]:
    """Returns the texts whose codes start with a prefix, by the rest of the code."""
    return {
        code.removeprefix(prefix): texts[language]
        for code, texts in sentence_texts().items()
        if code.startswith(prefix)
    }


@lru_cache(maxsize=4096)
def _pieces(code: str, language: str) -> Sequence[str]:
    """Returns the text of a code, in turn plain text and the name of a field; empty if unknown."""
    text = sentence_texts().get(code, {}).get(language)
    return () if text is None else _PLACE.split(text)


def _text(code: str, fields: Mapping[str, Any], locale: str) -> str:
    language = locale if locale in LANGUAGES else language_of(locale)
    pieces = [*_pieces(code, language)]
    if not pieces:  # a journal of a newer release may hold a code that is not known here
        return f"{code} ({_field_text([*fields.values()], language)})" if fields else code
    for place in range(1, len(pieces), 2):
        value = fields.get(pieces[place], "")
        pieces[place] = value if type(value) is str else _field_text(value, language)
    return "".join(pieces)


def _field_text(value: Any, language: str) -> str:
    if isinstance(value, (list, tuple)):
        return _COMMA[language].join(
            _field_text(each, language) for each in cast("list[Any]", value)
        )
    if isinstance(value, int):
        return f"{value:,}"
    return in_language(value, language) if isinstance(value, str) else str(value)


def _write(value: Any, info: SerializationInfo) -> Any:
    """Writes a sentence as stored, or as text if the context names the reader's language."""
    context: Any = info.context
    locale = context.get("locale", "") if context else ""
    return in_language(value, locale) if locale else stored_sentence(value)


def stored_sentence(value: Any) -> Any:
    """Returns a sentence as it is stored: its code and its fields."""
    if isinstance(value, Sentence):
        if not value.fields:
            return {"code": value.code}
        fields = {
            name: each if type(each) is str else stored_sentence(each)
            for name, each in value.fields.items()
        }
        return {"code": value.code, "fields": fields}
    if isinstance(value, (list, tuple)):
        return [stored_sentence(each) for each in cast("list[Any]", value)]
    # A path or an exception is shown as its text, and stored as it is shown.
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _read(value: object, handler: ValidatorFunctionWrapHandler) -> str:
    """Reads a stored text: an object is a sentence, a string is words as they were given."""
    if isinstance(value, Sentence):
        return value
    return read_sentence(cast("object", value)) if isinstance(value, dict) else str(handler(value))


def read_sentence(value: object) -> str:
    """Reads a stored sentence, or text that was stored as it is."""
    return _sentence(value, Sentence)


def check_sentence(value: object) -> str:
    """Reads as `read_sentence` does, with the same errors, but makes no text: it returns codes."""
    return _sentence(value, _code_alone)


def _code_alone(code: str, /, **_: Any) -> str:
    return code


def _sentence(value: object, make: Callable[..., str]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return cast("str", _read_field(value, make))
    raise ValueError("a text is a string, or a code with fields")


def _read_field(value: Any, make: Callable[..., str], depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError("sentences are too deep in one another")
    match value:
        case [*items]:
            return [_read_field(each, make, depth + 1) for each in items]
        case {"code": str(code), "fields": fields, **rest} if not rest and isinstance(fields, dict):
            given = cast("dict[str, Any]", fields)
            read = {
                name: each if type(each) is str else _read_field(each, make, depth + 1)
                for name, each in given.items()
            }
            return make(code, **read)
        case {"code": str(code), **rest} if not rest:
            return make(code)
        case str() | int() | float() | None:
            return value
        case _:
            pass
    raise ValueError("a text is a string, or a code with fields")


# A sentence of ours, or words as a person, a model or a tool gave them.
ShownText = Annotated[
    str, WrapValidator(_read), PlainSerializer(_write), WithJsonSchema({"type": "string"})
]
