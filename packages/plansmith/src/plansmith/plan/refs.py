"""References of steps to results and secrets: finds them and fills them in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, cast

import msgspec

from plansmith.errors import ReferenceFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.data import Json, Path, json_text, leaves, map_leaves
from plansmith.plan.sentence import Sentence
from plansmith.text import WIDTH, clip, safe

FROM: Final = "$from"
PATH: Final = "$path"
LITERAL: Final = "$literal"
# Means the first of several results whose step was not skipped: so branches can join.
FIRST: Final = "$first"
ITEM: Final = "item"
PARAMS: Final = "params"
RESERVED: Final = frozenset({ITEM, PARAMS})
# References to results of earlier runs begin with it: `run:<run>/<step>`.
EARLIER: Final = "run:"

STEP_ID: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"
_RUN_ID: Final = r"""[^\s/{}"\\]{1,200}"""
_SOURCE_ID: Final = rf"(?:{EARLIER}{_RUN_ID}/)?{STEP_ID}"
_SOURCE: Final = re.compile(_SOURCE_ID)
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_KEY: Final = r"""[^\s.\[\]{}"]+"""
_PART: Final = re.compile(rf"\.({_KEY})|\[(\d{{1,9}})\]|\[({_QUOTED})\]")
_TOKEN: Final = re.compile(
    rf"\{{\{{\s*(?:({_QUOTED})|({_SOURCE_ID})((?:\.{_KEY}|\[\d{{1,9}}\]|\[{_QUOTED}\])*))\s*\}}\}}"
)
_BRACES: Final = re.compile(r"\{\{[^{}]*\}\}")
_PLAIN: Final = frozenset({int, float, bool, type(None)})
_PLAIN_KEY: Final = re.compile(_KEY)
_MALFORMED: Final = Sentence(
    '"$from" takes the id of a step or "run:<run id>/<step id>", "$path" keys and positions from 0'
)
_FIRST_ALONE: Final = Sentence('"$first" takes a list of references and stands alone')


class Ref(NamedTuple):
    """The output of a step, or a part of it; `step` may be a step of an earlier run."""

    step: str
    path: Path = ()

    def __str__(self) -> str:
        return "{{" + self.step + "".join(map(_path_text, self.path)) + "}}"

    def to_json(self) -> dict[str, Json]:
        value: dict[str, Json] = {FROM: self.step}
        if self.path:
            value[PATH] = list(self.path)
        return value


def is_earlier(source: str) -> bool:
    """Tells whether the source of a reference is a result of an earlier run."""
    return source.startswith(EARLIER)


def earlier_source(run: str, step: str) -> str:
    """Returns how a result of an earlier run is named; empty if its id cannot be written."""
    source = f"{EARLIER}{run}/{step}"
    return source if _SOURCE.fullmatch(source) else ""


def earlier_parts(source: str) -> tuple[str, str]:
    """Returns the run and the step that the source of a reference names."""
    run, _, step = source.removeprefix(EARLIER).rpartition("/")
    return run, step


class Found(msgspec.Struct, frozen=True, gc=False):
    """A reference, or a failed attempt at one (braces in a text, or an object), and its place."""

    where: Path
    ref: Ref | None
    flaw: str = ""
    in_text: bool = False


def find_refs(value: Json, where: Path = ()) -> list[Found]:
    """Returns every reference in a JSON value; malformed ones have a `flaw`."""
    if isinstance(value, str):
        return _find_in_text(value, where) if "{{" in value else []
    if isinstance(value, list):
        return _find_in(enumerate(value), where)
    if not isinstance(value, dict):
        return []
    if FROM in value:
        ref = ref_of(value)
        return [Found(where, ref, "" if ref else _MALFORMED)]
    if FIRST in value and not first_refs(value):
        return [Found(where, None, _FIRST_ALONE)]
    return [] if _is_literal(value) else _find_in(value.items(), where)


def _find_in(children: Iterable[tuple[str | int, Json]], where: Path) -> list[Found]:
    found: list[Found] = []
    for key, child in children:
        if not has_no_refs(child):
            found += find_refs(child, (*where, key))
    return found


def _find_in_text(text: str, where: Path) -> list[Found]:
    found = [Found(where, piece) for piece in pieces(text) if isinstance(piece, Ref)]
    rest = _TOKEN.sub("", text)
    return found + [_no_ref(where, each) for each in _BRACES.findall(rest)] if rest else found


def has_no_refs(value: Json) -> bool:
    """Tells whether there is surely no reference in it, as in numbers and most texts."""
    return "{{" not in value if isinstance(value, str) else type(value) in _PLAIN


def _no_ref(where: Path, text: str) -> Found:
    about = {"text": text, "example": "{{step.name}}"}
    flaw = Sentence("{text} is not a reference such as {example}", **about)
    return Found(where, None, flaw, in_text=True)


def _is_literal(value: dict[str, Json]) -> bool:
    return len(value) == 1 and LITERAL in value


def ref_of(value: dict[str, Json]) -> Ref | None:
    """Returns the reference that an object is, or None if it is not a well-formed one."""
    step, path = value[FROM], value.get(PATH, [])
    whole = _whole_output(step) if isinstance(step, str) else None
    if whole is None or len(value) == 1:
        return whole
    if value.keys() != {FROM, PATH} or not isinstance(path, list) or not all(map(_is_key, path)):
        return None
    return whole._replace(path=tuple(cast("list[str | int]", path))) if path else whole


@lru_cache(maxsize=4096)
def _whole_output(step: str) -> Ref | None:
    return Ref(step) if _SOURCE.fullmatch(step) else None


def _is_key(key: Json) -> bool:
    is_position = isinstance(key, int) and not isinstance(key, bool) and key >= 0
    return isinstance(key, str) or is_position


def first_refs(value: dict[str, Json]) -> list[Ref]:
    """Returns the references of a `$first`; none if it is not a list of references alone."""
    given = value.get(FIRST)
    if len(value) != 1 or not isinstance(given, list):
        return []
    found = [whole_ref(each) for each in given]
    return [] if None in found else cast("list[Ref]", found)


def whole_ref(value: Json) -> Ref | None:
    """Returns the reference that a value is and nothing else, as an object or as a text."""
    if isinstance(value, dict):
        return ref_of(value) if FROM in value else None
    parts = pieces(value) if isinstance(value, str) else []
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Ref) else None


def pieces(text: str) -> list[str | Ref]:
    """Splits a text into plain pieces and references."""
    if "{{" not in text:
        return [text]
    result: list[str | Ref] = []
    end = 0
    for token in _TOKEN.finditer(text):
        literal, step, path = token.groups()
        piece = _unquote(literal) if literal else Ref(step, _parse_path(path))
        if piece is not None:
            result += [text[end : token.start()], piece]
            end = token.end()
    return [piece for piece in [*result, text[end:]] if piece] or [""]


def _parse_path(text: str) -> Path:
    return tuple(
        int(position) if position else key or _unquote(quoted) or ""
        for key, position, quoted in _PART.findall(text)
    )


def _unquote(text: str) -> str | None:
    try:
        return cast("str", json.loads(text, strict=False))
    except ValueError:
        return None


def fill(value: Json, values: Mapping[str, Json]) -> Json:
    """Returns the value with references replaced; inserted values are not searched again.

    A text that is one reference and nothing else becomes the value itself.
    """
    if isinstance(value, str):
        if "{{" not in value:
            return value
        ref = whole_ref(value)
        return fill_text(value, values) if ref is None else lookup(ref, values)
    if isinstance(value, list):
        return [fill(child, values) for child in value]
    return _fill_object(value, values) if isinstance(value, dict) else value


def _fill_object(value: dict[str, Json], values: Mapping[str, Json]) -> Json:
    if FROM in value:
        ref = ref_of(value)
        if ref is None:
            raise ReferenceFailed(_MALFORMED)
        return lookup(ref, values)
    if _is_literal(value):
        return value[LITERAL]
    if FIRST not in value:
        return {key: fill(child, values) for key, child in value.items()}
    refs = first_refs(value)
    for ref in refs:
        if ref.step in values:
            return lookup(ref, values)
    none = Sentence("none of {refs} has a result", refs=[*map(str, refs)])
    raise ReferenceFailed(none if refs else _FIRST_ALONE)


def fill_text(text: str, values: Mapping[str, Json]) -> str:
    """Returns the text with every reference replaced by its value as text."""
    return "".join(
        value_text(lookup(part, values)) if isinstance(part, Ref) else part for part in pieces(text)
    )


def lookup(ref: Ref, values: Mapping[str, Json]) -> Json:
    """Returns the value that a reference points at."""
    if ref.step not in values:
        why = Sentence("{ref}: there is no result of '{step}'", ref=str(ref), step=ref.step)
        if is_earlier(ref.step):
            run, step = earlier_parts(ref.step)
            why = Sentence(
                "the result of step '{step}' of the earlier run {run} is not there any more",
                run=run,
                step=step,
            )
        raise ReferenceFailed(why)
    value = values[ref.step]
    for depth, key in enumerate(ref.path):
        try:
            value = _member(value, key)
        except (KeyError, IndexError, TypeError):
            here = Ref(ref.step, ref.path[:depth])
            about = {"ref": str(ref), "key": _path_text(key), "here": str(here)}
            about["parts"] = _members(value)
            why = Sentence("{ref}: nothing at {key} ({here} has {parts})", **about)
            raise ReferenceFailed(why) from None
    return value


def _member(value: Json, key: str | int) -> Json:
    if isinstance(value, dict):
        return value[str(key)]
    if isinstance(value, list) and (isinstance(key, int) or (key.isascii() and key.isdigit())):
        return value[int(key)]
    raise TypeError(type(value))


def _members(value: Json) -> Sentence:
    if isinstance(value, dict):
        names = ", ".join(list(value)[:8])
        return Sentence("the keys {names}", names=names) if names else Sentence("no keys")
    if isinstance(value, list):
        return Sentence("{count} items", count=len(value))
    return Sentence("no parts: it is {value}", value=repr(value_text(value)[:40]))


def _path_text(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def rename_refs(value: Json, names: Mapping[str, str]) -> Json:
    """Returns the value with references pointing to the renamed steps."""

    def renamed(token: re.Match[str]) -> str:
        name = token[2]
        return token[0].replace(name, names[name], 1) if name in names else token[0]

    if isinstance(value, str):
        return _TOKEN.sub(renamed, value)
    if isinstance(value, list):
        return [rename_refs(child, names) for child in value]
    if not isinstance(value, dict) or _is_literal(value):
        return value
    source = value.get(FROM)
    if isinstance(source, str):
        return value | {FROM: names.get(source, source)}
    return {key: rename_refs(child, names) for key, child in value.items()}


def escape_text(text: str) -> str:
    """Escapes a text so that nothing in it is read as a reference."""
    return text.replace("{{", '{{"{{"}}')


def literal(value: Json) -> Json:
    """Wraps a JSON value so that nothing in it is read as a reference."""
    text = json.dumps(value)
    marks = (f'"{FROM}"', f'"{LITERAL}"', f'"{FIRST}"', "{{")
    return {LITERAL: value} if any(mark in text for mark in marks) else value


def value_text(value: Json) -> str:
    """Returns a value as it is written inside a text; equal before and after storing."""
    return value if isinstance(value, str) else json_text(value)


def value_line(value: Json, width: int = WIDTH) -> str:
    """Returns a JSON value on one line; a reference as it is written in text."""
    ref = whole_ref(value)
    return clip(safe(json_text(value) if ref is None else str(ref)), width)


def fill_by_ref_text(instruction: str, results: Mapping[str, Json]) -> str:
    """Returns the instruction with its references replaced; inserted text is never parsed again."""
    return "".join(
        value_text(results[str(piece)])
        if isinstance(piece, Ref) and str(piece) in results
        else str(piece)
        for piece in pieces(instruction)
    )


def with_words(instruction: str, words: Mapping[str, str]) -> str:
    """Returns an instruction with words (by step) in place of references to these steps."""
    parts = [
        words.get(piece.step, piece) if isinstance(piece, Ref) else piece
        for piece in pieces(instruction)
    ]
    return "".join(str(each) if isinstance(each, Ref) else escape_text(each) for each in parts)


SECRET_MARK: Final = b"${secret:"
_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")


def secret_names(value: Json) -> list[str]:
    """Returns the names of the secrets in a value, each once."""
    texts = (each for each in leaves(value) if isinstance(each, str))
    return list(dict.fromkeys(name for text in texts for name in _SECRET.findall(text)))


def put_secrets(value: Json, values: Mapping[str, str]) -> Json:
    """Returns the value with its secrets filled in; secret values are never references.

    Only the plan's own text can name secrets: references are filled in afterwards.
    """

    def put(leaf: Json) -> Json:
        if not isinstance(leaf, str):
            return leaf
        return _SECRET.sub(lambda found: escape_text(values[found[1]]), leaf)

    return map_leaves(value, put)


CITATION: Final = lazy_pattern(r"\[step:([^\[\]\n]{1,400})\]")
_WITH_SPACE: Final = lazy_pattern(r"(?<![ \t])[ \t]*+\[step:[^\[\]\n]{1,400}\]")


def without_citations(text: str) -> str:
    """Returns a reply as a person or another step uses it: without the marks of its sources."""
    return _WITH_SPACE.sub("", text) if "[step:" in text else text
