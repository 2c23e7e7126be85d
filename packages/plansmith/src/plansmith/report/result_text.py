"""Writes results as Markdown: rows as tables, lists as bullets; their texts are never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from plansmith.plan.data import Json, WrittenNumber, parse_json
from plansmith.plan.refs import value_text
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import clip, visible

Language = Literal["en", "zh"]
_MAX_LINES: Final = 40
_LEEWAY: Final = 15  # for the head of a table, and what is told beside its rows
_MAX_LENGTH: Final = 300
_MAX_CELL: Final = 80
_MAX_INLINE: Final = 100
_MAX_COLUMNS: Final = 8
_LARGEST: Final = 1e15  # where a float still has each whole number
_SURE_DIGITS: Final = 16  # of a written number, with its point
# What a thing is called comes before what else is known of it.
_NAMES: Final = ("path", "name", "title", "id", "label", "url", "line", "text", "value")

_ESCAPED: Final = re.compile(r"[\\`*\[\]~|]|(?<![^\W_])_|_(?![^\W_])|!(?=\[)")
_LINE_START: Final = re.compile(
    r"^([^\S\n]*)(#{1,6}(?=\s|$)|[-+](?=\s|$)|[=>-](?=[=> \t-]*$)|>)", re.MULTILINE
)
_NUMBERED: Final = re.compile(r"^([^\S\n]*\d{1,9})([.)])(?=\s|$)", re.MULTILINE)
_TICKS: Final = re.compile(r"`+")


def plain(text: str) -> str:
    """Escapes a text for Markdown: no markup, no HTML, no links."""
    if text.isascii() and text.isalnum():
        return text
    escaped = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _unmarked(escaped)


def _unmarked(text: str) -> str:
    """Escapes what `read_prose` would read as markup; HTML is text to it."""
    escaped = _ESCAPED.sub(lambda found: f"\\{found[0]}", text)
    return _NUMBERED.sub(r"\1\\\2", _LINE_START.sub(r"\1\\\2", escaped))


def line(text: str) -> str:
    """Escapes a text for Markdown, on one line."""
    return plain(" ".join(visible(text).split()))


def coded(text: str) -> str:
    """Returns a text as inline code, between enough backticks."""
    escaped = " ".join(visible(text).split())
    ticks = "`" * (max((len(run) for run in _TICKS.findall(escaped)), default=0) + 1)
    pad = " " if escaped.startswith("`") or escaped.endswith("`") else ""
    return f"{ticks}{pad}{escaped}{pad}{ticks}" if escaped else ""


def listing(text: str) -> str:
    """Returns a text as a code block with a fence that it cannot close."""
    escaped = visible(text)
    longest = max((len(run) for run in _TICKS.findall(escaped)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{escaped}\n{fence}"


def facts(text: str, cite: str = "", language: str = "en") -> str:
    """Writes a result as Markdown: rows as a table, lists as bullets, indented text as a block.

    `cite` is appended to each statement.
    """
    try:
        value: Any = parse_json(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, str):
        return _text(value, cite, language)
    return "\n".join(_clipped(list(_block(value, cite, language)), language))


def _text(text: str, cite: str, language: str) -> str:
    lines = text.strip("\r\n").splitlines()
    if any(line[:1].isspace() for line in lines if line.strip()):
        block = listing("\n".join(_clipped(lines, language)))
        return f"{block}\n{cite.strip()}" if cite else block
    escaped = [f"{_unmarked(line)}{cite}" if line.strip() else "" for line in lines]
    return "\n".join(_clipped(escaped, language))


def _block(value: Json, cite: str, language: str) -> Iterator[str]:
    if isinstance(value, list):
        yield from _many(value, cite, columns=(), language=language)
        return
    if not isinstance(value, dict):
        yield f"{_plain(value)}{cite}"
        return
    columns = _column_names(value)
    lists = {key: each for key, each in value.items() if isinstance(each, list) and each}
    if columns:
        lists.pop("columns")
    kept = {key for key in value if key not in lists and not (columns and key == "columns")}
    rest = {key: each for key, each in value.items() if key in kept}
    if isinstance(value.get("rows"), int):
        yield f"rows: {rest.pop('rows')}{cite}"
        yield ""
    for key, items in lists.items():
        if len(lists) > 1:
            yield f"{_unmarked(key)}:{cite}"
        named = columns if key == "rows" else ()
        yield from _many(items, cite, columns=named, language=language)
        yield ""
    if rest:
        yield from _bullet(rest, 0, cite)


def _column_names(value: Mapping[str, Json]) -> tuple[str, ...]:
    columns = value.get("columns")
    if not isinstance(columns, list) or not isinstance(value.get("rows"), list):
        return ()
    names = [each["name"] for each in columns if isinstance(each, dict) and "name" in each]
    return tuple(map(str, names)) if len(names) == len(columns) else ()


def _many(
    values: Sequence[Json], cite: str, *, columns: Sequence[str], language: str
) -> Iterator[str]:
    rows = [
        each for each in values if isinstance(each, dict) and not any(map(_holds, each.values()))
    ]
    names = list(columns or dict.fromkeys(key for row in rows for key in _ordered(row)))
    # A list that was clipped ends with how many more there are.
    more = [each for each in values[-1:] if isinstance(each, str)]
    if len(rows) + len(more) == len(values) and 1 < len(names) <= _MAX_COLUMNS and len(rows) > 1:
        yield from table(rows, names, cite, language)
        yield from ("", *more) if more else ()
        return
    for each in values:
        yield from _bullet(each, 0, cite)


def table(
    rows: Sequence[Mapping[str, Json]], names: Sequence[str], cite: str = "", language: str = "en"
) -> Iterator[str]:
    """Writes rows as a table in Markdown, with a word where rows are left out."""
    yield f"| {' | '.join(map(_cell, names))}{cite} |"
    yield f"|{'---|' * len(names)}"
    for row in rows[:_MAX_LINES]:
        yield f"| {' | '.join(_cell(row.get(name)) for name in names)} |"
    if len(rows) > _MAX_LINES:
        yield ""
        more = len(rows) - _MAX_LINES
        note = Sentence("({more} more rows; `plansmith show RUN --json` has all)", more=more)
        yield f"{in_language(note, language)}{cite}"


def _cell(value: Json) -> str:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST
    text = "" if value is None else repr(value) if whole else number_text(value)
    return _unmarked(clip(text, _MAX_CELL))


def _bullet(value: Json, depth: int, cite: str = "") -> Iterator[str]:
    """Writes an item on one line and its contents below; only the item is cited."""
    indent = "  " * depth
    if isinstance(value, dict):
        inline = {key: text for key, each in value.items() if (text := _inline(each))}
        plain = [key for key in _ordered(value) if key in inline or not _holds(value[key])]
        if plain:
            yield f"{indent}- {_fields_text(value, plain, inline)}{cite}"
        for key in (key for key in value if key not in plain):
            held = value[key]
            below = depth + bool(plain)
            if not plain or not isinstance(held, list):
                yield f"{'  ' * below}- {_unmarked(key)}:{cite}"
                below += 1
            for each in held if isinstance(held, list) else [held]:
                yield from _bullet(each, below)
    elif isinstance(value, list):
        for each in value:
            yield from _bullet(each, depth, cite)
    else:
        yield f"{indent}- {_plain(value)}{cite}"


def _inline(value: Json) -> str:
    """Writes a short list on the line of its item, unless it holds texts."""
    if not isinstance(value, list) or not value:
        return ""
    if any(isinstance(each, list) or (isinstance(each, dict) and "text" in each) for each in value):
        return ""
    text = "; ".join(line[2:] for item in value for line in _bullet(item, 0))
    return text if len(text) <= _MAX_INLINE else ""


def _fields_text(value: Mapping[str, Json], keys: Sequence[str], inline: Mapping[str, str]) -> str:
    """Writes `todo.md (count: 1)` if the first field is a name; else all fields by name.

    `inline` are short lists, written already.
    """
    first, *others = keys
    fields = [f"{_unmarked(key)}: {inline.get(key) or _plain(value[key])}" for key in keys]
    rest = ", ".join(fields[1:])
    if first not in _NAMES or not isinstance(value[first], str | int):
        return ", ".join(fields)
    if others == ["text"]:
        return f"{_plain(value[first])}: {_plain(value['text'])}"
    return f"{_plain(value[first])} ({rest})" if rest else _plain(value[first])


def _ordered(value: Mapping[str, Json]) -> list[str]:
    return sorted(value, key=lambda key: _NAMES.index(key) if key in _NAMES else len(_NAMES))


def _holds(value: Json) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def number_text(value: Json) -> str:
    """Writes a value on one line, with its digits; fewer of a fraction that arithmetic made."""
    if isinstance(value, WrittenNumber):
        return value.text
    if isinstance(value, float) and abs(value) < _LARGEST and len(repr(value)) > _SURE_DIGITS:
        value = round(value, 2) if abs(value) >= 1 else float(f"{value:.4g}")
    if isinstance(value, float) and abs(value) < _LARGEST and value.is_integer():
        value = int(value)
    return " ".join(value_text(value).split())


def _plain(value: Json) -> str:
    return _unmarked(clip(number_text(value), _MAX_LENGTH))


def _clipped(lines: list[str], language: str) -> list[str]:
    more = len(lines) - _MAX_LINES
    if more <= _LEEWAY:
        return lines
    note = Sentence("… ({more} more lines)", more=more)
    return [*lines[:_MAX_LINES], in_language(note, language)]
