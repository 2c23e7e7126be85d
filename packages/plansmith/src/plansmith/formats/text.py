"""Reads strict JSON and a JSON-like subset of YAML into plain values or problems.

YAML is for people: comments, block texts, no quotes. Its surprises are left out: everything but
`true`, `false`, `null` and JSON numbers is text, and anchors, tags and several documents are
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Never, cast

import yaml

from plansmith.plan.data import MAX_DEPTH, Json, Path
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence

MAX_CHARACTERS: Final = 20_000_000
_WORDS: Final[dict[str, Json]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class _Refused(Exception):
    """Raised for a text that cannot be read."""

    def __init__(self, code: str, message: Sentence, hint: Sentence, path: Path = ()) -> None:
        super().__init__(message)
        self.found = problem(code, message, hint=hint, path=path)


def read_text(text: str | bytes) -> Json | Problem:
    """Reads a text: as JSON if it begins with a bracket, else as YAML."""
    try:
        decoded = _decode(text)
        is_json = decoded.lstrip()[:1] in ("{", "[")
        return _read_json(decoded) if is_json else _read_yaml(decoded)
    except _Refused as refused:
        return refused.found
    except yaml.YAMLError as error:
        return _yaml_syntax(error)


def _decode(text: str | bytes) -> str:
    if len(text) > MAX_CHARACTERS:
        message = Sentence(
            "the text has {size} characters, more than {most}", size=len(text), most=MAX_CHARACTERS
        )
        raise _Refused("PS006", message, Sentence("pass large data by file or by reference"))
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        decoded.encode()
    except UnicodeError as error:
        message = Sentence("not valid UTF-8 text: {reason}", reason=str(error))
        raise _Refused("PS008", message, Sentence("save the text as UTF-8")) from None
    return decoded.removeprefix("\ufeff")


def _read_json(text: str) -> Json:
    try:
        value = _json.decode(text)
    except json.JSONDecodeError as error:
        message = Sentence(
            "not valid JSON: {reason} at line {line}, column {column}",
            reason=error.msg,
            line=error.lineno,
            column=error.colno,
        )
        raise _Refused("PS002", message, Sentence("correct the text there")) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        _refuse_number(Sentence("a number of thousands of digits"))
    return cast("Json", value)


def _object(items: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    table: dict[str, Json] = {}
    for key, value in items:
        if key in table:
            message = Sentence("the key '{key}' appears twice in one object", key=key)
            raise _Refused("PS010", message, Sentence("keep one of the two"), (key,))
        table[key] = value
    return table


def _refuse_number(word: str) -> Never:
    message = Sentence("{number} is not a JSON number", number=word)
    raise _Refused("PS009", message, Sentence("use a finite number or null")) from None


_json: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_number)


def _too_deep() -> _Refused:
    message = Sentence("values are nested more than {most} levels deep", most=MAX_DEPTH)
    return _Refused("PS007", message, Sentence("flatten the value"))


_parse_events: Any = vars(yaml)["parse"]  # yaml's type stubs do not describe its events
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _read_yaml(text: str) -> Json:
    """Builds a value from YAML events, without recursion."""
    values: list[list[Json]] = [[]]  # the items of each list or mapping that is open
    for event in _parse_events(text, Loader=_Loader):
        match event:
            case yaml.ScalarEvent():
                _check_plain(event)
                values[-1].append(_scalar(event))
            case yaml.AliasEvent() | yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                _check_plain(event)
                if len(values) > MAX_DEPTH:
                    raise _too_deep()
                values.append([])
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                items = values.pop()
                is_table = isinstance(event, yaml.MappingEndEvent)
                values[-1].append(_table(items, event) if is_table else items)
            case _:
                pass
    if len(values[0]) != 1:
        what = Sentence(
            "several documents in one text" if values[0] else "there is nothing in the text"
        )
        raise _Refused("PS001", what, Sentence("give one plan as JSON or YAML"))
    return values[0][0]


def _check_plain(event: Any) -> None:
    line, tag = event.start_mark.line + 1, getattr(event, "tag", None)
    if isinstance(event, yaml.AliasEvent):
        message = Sentence(
            "*{anchor} on line {line} repeats another value", anchor=event.anchor, line=line
        )
        raise _Refused("PS011", message, Sentence("write the value out"))
    if event.anchor or (tag and tag != "!"):
        mark = f"&{event.anchor}" if event.anchor else tag
        message = Sentence("{mark} on line {line} has no meaning in a plan", mark=mark, line=line)
        raise _Refused("PS011", message, Sentence("write the value without it"))


def _table(items: list[Json], end: Any) -> dict[str, Json]:
    for key in items[::2]:
        if not isinstance(key, str):
            line = end.start_mark.line + 1
            message = Sentence(
                "a key before line {line} is not text: {key}", line=line, key=repr(key)
            )
            raise _Refused("PS005", message, Sentence("put the key in quotes"))
    return _object(zip(cast("list[str]", items[::2]), items[1::2], strict=True))


def _scalar(event: Any) -> Json:
    text: str = event.value
    if event.style not in (None, "") or event.tag is not None:
        return text
    if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.title()):
        return _WORDS[text.lower()]
    if _NO_NUMBER.fullmatch(text):
        _refuse_number(text)
    if not _NUMBER.fullmatch(text):
        return text
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        _refuse_number(Sentence("a number of thousands of digits"))


def _yaml_syntax(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None)
    place = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
    message = Sentence(
        "not valid YAML: {reason} at line {line}, column {column}"
        if mark
        else "not valid YAML: {reason}",
        reason=what or Sentence("not readable"),
        **place,
    )
    return problem("PS002", message, hint=Sentence("give the plan as JSON or YAML"))


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


def _represent_text(dumper: Any, text: str) -> Any:
    lines = text.split("\n")
    # A block text has to keep every character of a line.
    kept = all(line == line.strip() and line.isprintable() for line in lines)
    block = len(lines) > 1 and lines[0] != "" and kept
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else None)


def _no_aliases(*_: object) -> bool:
    return True


_Dumper: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
# YAML 1.1 reads 1e5 as text, but we read it as a number, so such a text needs quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-0123456789"))
_Dumper.add_representer(str, _represent_text)
_Dumper.ignore_aliases = _no_aliases
