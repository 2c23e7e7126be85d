"""Sentences for people: English text with fields, shown in the reader's language.

A sentence is written where it is said. One that follows from a value, such as `status.done`, or is
said in several places has a code; `sentences.json` has their English. Each package has a gettext
catalogue for Chinese, `locale/zh.po` (entry point `plansmith.catalogues`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
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

from plansmith import plugins

_PLACE: Final = re.compile(r"\{(\w+)\}")
_CODE: Final = re.compile(r"[a-z_0-9]+\.[a-z_0-9]+")
_ENTRY: Final = re.compile(r'^msgid (".+")\nmsgstr (".+")$', re.MULTILINE)
LANGUAGES: Final = ("en", "zh")
_DEEPEST: Final = 50
_STORED: Final = {"text", "fields"}
_NO_TEXT: Final = "a text is a string, or an object with text and fields"
_COMMA: Final = {"en": ", ", "zh": "、"}


class Sentence(str):
    """A sentence: English text (or a code of `sentences.json`) and the values of its fields.

    As a string it is the English text, so that programs can use it as one. A field is a text, a
    number, another sentence, or a list of these.
    """

    __slots__ = ("fields", "key")
    key: str
    fields: Mapping[str, Any]

    def __new__(cls, key: str, /, **fields: Any) -> Self:
        made = super().__new__(cls, _text(key, fields, "en"))
        made.key, made.fields = key, fields
        return made

    def __str__(self) -> str:
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.key,), dict(self.fields)


def in_language(text: str, locale: str) -> str:
    """Returns a sentence in the reader's language; other text stays as it is."""
    return _text(text.key, text.fields, locale) if isinstance(text, Sentence) else text


def in_language_if(text: str, code: str, locale: str) -> str:
    """Returns a text in the reader's language if it is what a code says in another one."""
    own = [unfilled(code, language) for language in LANGUAGES]
    return unfilled(code, language_of(locale)) if text in own else text


def joined(parts: Sequence[str], code: str = "text.both") -> str:
    """Joins texts two at a time with the sentence of the code; empty when there are no texts."""
    texts = [each for each in parts if each]
    # In pairs, then pairs of pairs: a thousand, each inside the next, are too deep to show.
    while len(texts) > 2:
        texts = [joined(texts[at : at + 2], code) for at in range(0, len(texts), 2)]
    match texts:
        case [first, then]:
            return Sentence(code, first=first, then=then)
        case _:
            return texts[0] if texts else ""


def with_hint(message: str, hint: str) -> str:
    """Returns what went wrong with what helps, if there is such a hint."""
    return Sentence("{message} ({hint})", message=message, hint=hint) if hint else message


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Returns a hint with the known name most like a wrong one, else the other hint."""
    for near in difflib.get_close_matches(name, list(known), n=1):
        return Sentence("did you mean {names}?", names=Sentence("ps.quoted", text=near))
    return otherwise


def language_of(locale: str) -> str:
    """Returns the language to use for a locale: Chinese or, for all others, English."""
    return "zh" if locale.lower().startswith("zh") else "en"


@cache
def codes() -> Mapping[str, str]:
    """Returns the English text of every code."""
    path = Path(__file__).with_name("sentences.json")
    # Every command reads this table, and `json` would take twice as long.
    return cast("Mapping[str, str]", from_json(path.read_bytes()))


@cache
def _catalogue(language: str) -> Mapping[str, str]:
    """Returns what all installed packages translate into a language, by text or code."""
    found: dict[str, str] = {}
    for package in plugins.names("catalogues"):
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder, "locale", f"{language}.po")
            if path.is_file():
                pairs = _ENTRY.findall(path.read_text(encoding="utf-8"))
                found |= {from_json(one): from_json(other) for one, other in pairs}
    return found


def unfilled(key: str, language: str) -> str:
    """Returns the text of a sentence with its fields unfilled."""
    translated = _catalogue(language).get(key) if language != "en" else None
    return translated or (codes().get(key, key) if _CODE.fullmatch(key) else key)


@cache
def texts_under(prefix: str, language: str) -> Mapping[str, str]:
    """Returns the texts whose codes start with a prefix, by the rest of the code."""
    some = (code for code in codes() if code.startswith(prefix))
    return {code.removeprefix(prefix): unfilled(code, language) for code in some}


@lru_cache(maxsize=4096)
def _pieces(key: str, language: str) -> Sequence[str]:
    """Returns the text of a sentence, in turn plain text and the name of a field."""
    return _PLACE.split(unfilled(key, language))


def _text(key: str, fields: Mapping[str, Any], locale: str) -> str:
    language = locale if locale in LANGUAGES else language_of(locale)
    pieces = [*_pieces(key, language)]
    for place in range(1, len(pieces), 2):
        value = fields.get(pieces[place], "")
        pieces[place] = value if type(value) is str else _field_text(value, language)
    return "".join(pieces)


def _field_text(value: Any, language: str) -> str:
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return _COMMA[language].join(_field_text(each, language) for each in items)
    if isinstance(value, int):
        return f"{value:,}"
    return in_language(value, language) if isinstance(value, str) else str(value)


def _write(value: Any, info: SerializationInfo) -> Any:
    """Writes a sentence as stored, or as text if the context names the reader's language."""
    context: Any = info.context
    locale = context.get("locale", "") if context else ""
    return in_language(value, locale) if locale else stored_sentence(value)


def stored_sentence(value: Any) -> Any:
    """Returns a sentence as it is stored: its text and its fields."""
    if isinstance(value, Sentence):
        fields = {
            name: each if type(each) is str else stored_sentence(each)
            for name, each in value.fields.items()
        }
        return {"text": value.key, "fields": fields} if fields else {"text": value.key}
    if isinstance(value, (list, tuple)):
        return [stored_sentence(each) for each in cast("list[Any]", value)]
    # A path or an exception is shown as its text, and stored as it is shown.
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _read(value: object, handler: ValidatorFunctionWrapHandler) -> str:
    """Reads a stored text: an object is a sentence, a string is words as they were given."""
    if isinstance(value, Sentence):
        return value
    return read_sentence(cast("object", value)) if isinstance(value, dict) else str(handler(value))


def read_sentence(value: object, make: Callable[..., str] = Sentence) -> str:
    """Reads a stored sentence, or text that was stored as it is; `make` makes sentences."""
    if isinstance(value, (str, dict)):
        return cast("str", _read_field(value, make))
    raise ValueError(_NO_TEXT)


def check_sentence(value: object) -> str:
    """Raises `ValueError` if a sentence cannot be read; makes none."""
    return read_sentence(value, _unmade)


def _unmade(key: str, /, **_: object) -> str:
    return key


def _read_field(value: Any, make: Callable[..., str], depth: int = 0) -> Any:
    if type(value) is str:
        return value
    if depth > _DEEPEST:
        raise ValueError("sentences are too deep in one another")
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return [_read_field(each, make, depth + 1) for each in items]
    if isinstance(value, dict):
        stored = cast("dict[str, Any]", value)
        key, fields = stored.get("text"), stored.get("fields", {})
        if isinstance(key, str) and isinstance(fields, dict) and stored.keys() <= _STORED:
            given = cast("dict[str, Any]", fields)
            return make(
                key, **{name: _read_field(each, make, depth + 1) for name, each in given.items()}
            )
    elif value is None or isinstance(value, (str, int, float)):
        return value
    raise ValueError(_NO_TEXT)


# A sentence of ours, or words as a person, a model or a tool gave them.
ShownText = Annotated[
    str, WrapValidator(_read), PlainSerializer(_write), WithJsonSchema({"type": "string"})
]
