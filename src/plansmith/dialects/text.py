"""Strict JSON and a JSON-like subset of YAML, read into plain values or into problems.

YAML is for people: comments, block texts, no quotes. What makes YAML surprising is left out:
only `true`, `false`, `null` and JSON numbers are anything but text, and anchors, tags and
several documents are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import yaml

from plansmith.plan.data import MAX_DEPTH, Json, Path
from plansmith.plan.problem import Problem, problem

MAX_CHARACTERS: Final = 20_000_000
_WORDS: Final[dict[str, Json]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class Reading(NamedTuple):
    """A value read from a text; it counts only when there are no problems."""

    value: Json
    problems: list[Problem]


class _Refused(Exception):
    """A text that cannot be read on."""

    def __init__(self, found: Problem) -> None:
        super().__init__(found.message)
        self.found = found


def read_text(text: str | bytes) -> Reading:
    """The value of a text: JSON when it begins with a bracket, else YAML."""
    try:
        decoded = _decode(text)
        is_json = decoded.lstrip()[:1] in ("{", "[")
        return _read_json(decoded) if is_json else Reading(_Yaml(decoded).read(), [])
    except _Refused as refused:
        return Reading(None, [refused.found])


def write_yaml(value: Json) -> str:
    """A value as YAML that `read_text` reads back as the same value."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=True,
        sort_keys=False,
        width=100,
        default_flow_style=False,
    )


def _decode(text: str | bytes) -> str:
    if len(text) > MAX_CHARACTERS:
        message = f"the text has {len(text):,} characters, more than {MAX_CHARACTERS:,}"
        raise _Refused(problem("PS006", message, hint="pass large data by file or by reference"))
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        decoded.encode()
    except UnicodeError as error:
        hint = "save the text as UTF-8"
        raise _Refused(problem("PS008", f"not valid UTF-8 text: {error}", hint=hint)) from None
    return decoded.removeprefix("\ufeff")


def _read_json(text: str) -> Reading:
    problems: list[Problem] = []

    def pairs(items: list[tuple[str, Json]]) -> dict[str, Json]:
        table = dict(items)
        if len(table) < len(items):
            keys = [key for key, _ in items]
            twice = next(key for index, key in enumerate(keys) if key in keys[:index])
            problems.append(_duplicate(twice))
        return table

    def constant(word: str) -> Json:
        problems.append(_bad_number(word))
        return None

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        message = f"not valid JSON: {error.msg} at {place}"
        return Reading(None, [problem("PS002", message, hint="mend the text there")])
    except RecursionError:
        return Reading(None, [_too_deep(())])
    except ValueError:
        return Reading(None, [_bad_number("a number of thousands of digits")])
    return Reading(cast("Json", value), problems)


def _duplicate(key: str) -> Problem:
    message = f"the key {key!r} stands twice in one object"
    return problem("PS010", message, hint="keep one of the two", path=(key,))


def _bad_number(word: str) -> Problem:
    return problem("PS009", f"{word} is not a JSON number", hint="use a finite number or null")


def _too_deep(path: Path) -> Problem:
    message = f"values are nested more than {MAX_DEPTH} levels deep"
    return problem("PS007", message, hint="flatten the value", path=path[:8])


_parse_events: Any = vars(yaml)["parse"]  # yaml's own types leave its events unknown
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Yaml:
    """A value built from YAML's events, one after the other, without recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: list[list[Json]] = [[]]
        self.handlers: dict[type[object], Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceEndEvent: self._end_list,
            yaml.MappingEndEvent: self._end_mapping,
            yaml.AliasEvent: self._refuse_alias,
        }

    def read(self) -> Json:
        try:
            for event in _parse_events(self.text, Loader=_Loader):
                handler = self.handlers.get(cast("type[object]", type(event)))
                if handler is not None:
                    handler(event)
        except yaml.YAMLError as error:
            raise _Refused(_yaml_syntax(error)) from None
        found = self.values[0]
        if len(found) != 1:
            what = "there is nothing in the text" if not found else "several documents in one text"
            raise _Refused(problem("PS001", what, hint="give one plan as JSON or YAML"))
        return found[0]

    def _refuse_alias(self, event: Any) -> None:
        message = f"*{event.anchor} on line {event.start_mark.line + 1} repeats another value"
        raise _Refused(problem("PS011", message, hint="write the value out"))

    def _check_plain(self, event: Any) -> None:
        if event.anchor or (event.tag and event.tag != "!"):
            mark = f"&{event.anchor}" if event.anchor else event.tag
            message = f"{mark} on line {event.start_mark.line + 1} has no meaning in a plan"
            raise _Refused(problem("PS011", message, hint="write the value without it"))

    def _open(self, event: Any) -> None:
        self._check_plain(event)
        if len(self.values) > MAX_DEPTH:
            raise _Refused(_too_deep(()))
        self.values.append([])

    def _end_list(self, _: Any) -> None:
        items = self.values.pop()
        self.values[-1].append(items)

    def _end_mapping(self, event: Any) -> None:
        items = self.values.pop()
        table: dict[str, Json] = {}
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                message = f"a key before line {event.start_mark.line + 1} is not text: {key!r}"
                raise _Refused(problem("PS005", message, hint="put the key in quotes"))
            if key in table:
                raise _Refused(_duplicate(key))
            table[key] = value
        self.values[-1].append(table)

    def _scalar(self, event: Any) -> None:
        self._check_plain(event)
        plain = event.style in (None, "") and event.tag is None
        self.values[-1].append(_plain_scalar(event.value) if plain else event.value)


def _plain_scalar(text: str) -> Json:
    if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.title()):
        return _WORDS[text.lower()]
    if _NO_NUMBER.fullmatch(text):
        raise _Refused(_bad_number(text))
    if not _NUMBER.fullmatch(text):
        return text
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise _Refused(_bad_number("a number of thousands of digits")) from None


def _yaml_syntax(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
    message = f"not valid YAML: {what}{place}"
    return problem("PS002", message, hint="give the plan as JSON or YAML")


_Dumper: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
# YAML 1.1 takes 1e5 for text and we take it for a number, so such a text needs quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-0123456789"))


def _is_block_line(line: str) -> bool:
    """Whether a line keeps its every character in a block text."""
    return line == line.strip() and line.isprintable()


def _represent_text(dumper: Any, text: str) -> Any:
    lines = text.split("\n")
    block = len(lines) > 1 and lines[0] != "" and all(map(_is_block_line, lines))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else None)


_Dumper.add_representer(str, _represent_text)


def _never(*_: Any) -> bool:
    return True


_Dumper.ignore_aliases = _never
