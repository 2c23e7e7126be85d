"""Reads strict JSON and a JSON-like subset of YAML into plain values or problems.

YAML is for people: comments, block texts, no quotes. Its surprises are left out: everything but
`true`, `false`, `null` and JSON numbers is text, and anchors, tags and several documents are
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import yaml

from plansmith.plan.data import MAX_DEPTH, Json, Path
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence

MAX_CHARACTERS: Final = 20_000_000
_WORDS: Final[dict[str, Json]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class Reading(NamedTuple):
    """A value read from a text; it is valid only if there are no problems."""

    value: Json
    problems: list[Problem]


class _Refused(Exception):
    """Raised for a text that cannot be read."""

    def __init__(self, found: Problem) -> None:
        super().__init__(found.message)
        self.found = found


def read_text(text: str | bytes) -> Reading:
    """Reads a text: as JSON if it begins with a bracket, else as YAML."""
    try:
        decoded = _decode(text)
        is_json = decoded.lstrip()[:1] in ("{", "[")
        return _read_json(decoded) if is_json else Reading(_Yaml(decoded).read(), [])
    except _Refused as refused:
        return Reading(None, [refused.found])


def write_yaml(value: Json) -> str:
    """Returns a value as YAML that `read_text` reads back unchanged."""
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
        message = Sentence(
            "the text has {size} characters, more than {most}", size=len(text), most=MAX_CHARACTERS
        )
        hint = Sentence("pass large data by file or by reference")
        raise _Refused(problem("PS006", message, hint=hint))
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        decoded.encode()
    except UnicodeError as error:
        message = Sentence("not valid UTF-8 text: {reason}", reason=str(error))
        raise _Refused(problem("PS008", message, hint=Sentence("save the text as UTF-8"))) from None
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
        place = {"line": error.lineno, "column": error.colno}
        message = Sentence(
            "not valid JSON: {reason} at line {line}, column {column}", reason=error.msg, **place
        )
        return Reading(None, [problem("PS002", message, hint=Sentence("correct the text there"))])
    except RecursionError:
        return Reading(None, [_too_deep(())])
    except ValueError:
        return Reading(None, [_bad_number(Sentence("a number of thousands of digits"))])
    return Reading(cast("Json", value), problems)


def _duplicate(key: str) -> Problem:
    message = Sentence("the key '{key}' appears twice in one object", key=key)
    return problem("PS010", message, hint=Sentence("keep one of the two"), path=(key,))


def _bad_number(word: str) -> Problem:
    message = Sentence("{number} is not a JSON number", number=word)
    return problem("PS009", message, hint=Sentence("use a finite number or null"))


def _too_deep(path: Path) -> Problem:
    message = Sentence("values are nested more than {most} levels deep", most=MAX_DEPTH)
    return problem("PS007", message, hint=Sentence("flatten the value"), path=path[:8])


_parse_events: Any = vars(yaml)["parse"]  # yaml's type stubs do not describe its events
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Yaml:
    """Builds a value from YAML events without recursion."""

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
            what = Sentence(
                "several documents in one text" if found else "there is nothing in the text"
            )
            raise _Refused(problem("PS001", what, hint=Sentence("give one plan as JSON or YAML")))
        return found[0]

    def _refuse_alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        message = Sentence(
            "*{anchor} on line {line} repeats another value", anchor=event.anchor, line=line
        )
        raise _Refused(problem("PS011", message, hint=Sentence("write the value out")))

    def _check_plain(self, event: Any) -> None:
        if event.anchor or (event.tag and event.tag != "!"):
            mark = f"&{event.anchor}" if event.anchor else event.tag
            message = Sentence(
                "{mark} on line {line} has no meaning in a plan",
                mark=mark,
                line=event.start_mark.line + 1,
            )
            raise _Refused(problem("PS011", message, hint=Sentence("write the value without it")))

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
                line = event.start_mark.line + 1
                message = Sentence(
                    "a key before line {line} is not text: {key}", line=line, key=repr(key)
                )
                raise _Refused(problem("PS005", message, hint=Sentence("put the key in quotes")))
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
        raise _Refused(_bad_number(Sentence("a number of thousands of digits"))) from None


def _yaml_syntax(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None)
    fields: dict[str, Any] = {"reason": what or Sentence("not readable")}
    if mark:
        fields |= {"line": mark.line + 1, "column": mark.column + 1}
    message = Sentence(
        "not valid YAML: {reason} at line {line}, column {column}"
        if mark
        else "not valid YAML: {reason}",
        **fields,
    )
    return problem("PS002", message, hint=Sentence("give the plan as JSON or YAML"))


_Dumper: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
# YAML 1.1 reads 1e5 as text, but we read it as a number, so such a text needs quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-0123456789"))


def _is_block_line(line: str) -> bool:
    """Whether a block text keeps every character of a line."""
    return line == line.strip() and line.isprintable()


def _represent_text(dumper: Any, text: str) -> Any:
    lines = text.split("\n")
    block = len(lines) > 1 and lines[0] != "" and all(map(_is_block_line, lines))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else None)


_Dumper.add_representer(str, _represent_text)


def _no_aliases(*_: object) -> bool:
    return True


_Dumper.ignore_aliases = _no_aliases
