"""Writes results as text without a model, and checks what a small model adds."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

from plansmith.errors import ModelFailed
from plansmith.plan.data import Json
from plansmith.plan.refs import Ref, pieces, value_text
from plansmith.ports import Message, Prompt, ReplyBrief
from plansmith.text import clip

_MOST_LINES: Final = 40
_LONGEST: Final = 300
_LONGEST_CELL: Final = 80
_LONGEST_INLINE: Final = 100
_MOST_COLUMNS: Final = 8
# What a thing is called comes before what else is known of it.
_NAMES: Final = ("path", "name", "title", "id", "label", "url", "line", "text", "value")


def facts(text: str, cite: str = "") -> str:
    """Writes a result as text: rows as a table, lists as bullets, text as it is.

    `cite` is appended to each statement.
    """
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, str):
        lines = [line for line in value.strip().splitlines() if line.strip()]
        return "\n".join(f"{line}{cite}" for line in _clipped(lines))
    return "\n".join(_clipped(list(_block(value, cite))))


def _block(value: Json, cite: str) -> Iterator[str]:
    """Writes a whole result: lists first, then the other fields."""
    if isinstance(value, list):
        yield from _many(value, cite, columns=())
        return
    if not isinstance(value, dict):
        yield f"- {_plain(value)}{cite}"
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
    for key, each in lists.items():
        if len(lists) > 1:
            yield f"{key}:{cite}"
        yield from _many(each, cite, columns=columns if key == "rows" else ())
        yield ""
    if rest:
        yield from _bullet(rest, 0, cite)


def _column_names(value: Mapping[str, Json]) -> tuple[str, ...]:
    """Returns the columns of rows in order, if a result has both."""
    columns = value.get("columns")
    if not isinstance(columns, list) or not isinstance(value.get("rows"), list):
        return ()
    names = [each["name"] for each in columns if isinstance(each, dict) and "name" in each]
    return tuple(map(str, names)) if len(names) == len(columns) else ()


def _many(values: Sequence[Json], cite: str, *, columns: Sequence[str]) -> Iterator[str]:
    rows = [
        each for each in values if isinstance(each, dict) and not any(map(_holds, each.values()))
    ]
    names = list(columns or dict.fromkeys(key for row in rows for key in _ordered(row)))
    if len(rows) == len(values) and 1 < len(names) <= _MOST_COLUMNS and len(rows) > 1:
        yield from _table(rows, names, cite)
        return
    for each in values:
        yield from _bullet(each, 0, cite)


def _table(rows: Sequence[Mapping[str, Json]], names: Sequence[str], cite: str) -> Iterator[str]:
    yield f"| {' | '.join(map(_cell, names))}{cite} |"
    yield f"|{'---|' * len(names)}"
    for row in rows[:_MOST_LINES]:
        yield f"| {' | '.join(_cell(row.get(name)) for name in names)} |"
    if len(rows) > _MOST_LINES:
        yield ""
        yield f"({len(rows) - _MOST_LINES} more rows are not shown){cite}"


def _cell(value: Json) -> str:
    text = "" if value is None else _plain(value)
    return clip(text, _LONGEST_CELL).replace("|", "\\|")


def _bullet(value: Json, depth: int, cite: str = "") -> Iterator[str]:
    """Writes an item on one line and its contents below; only the item is cited."""
    indent = "  " * depth
    if isinstance(value, dict):
        short = {key: _inline(each) or each for key, each in value.items()}
        plain = [key for key in _ordered(short) if not _holds(short[key])]
        if plain:
            yield f"{indent}- {_fields_text(short, plain)}{cite}"
        for key in (key for key in short if _holds(short[key])):
            held = value[key]
            below = depth + bool(plain)
            if not plain or not isinstance(held, list):
                yield f"{'  ' * below}- {key}:{cite}"
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
    text = "; ".join(line[2:] for each in value for line in _bullet(each, 0))
    return text if len(text) <= _LONGEST_INLINE else ""


def _fields_text(value: Mapping[str, Json], keys: Sequence[str]) -> str:
    """Writes `todo.md (count: 1)` if the first field is a name; else all fields by name."""
    first, *others = keys
    rest = ", ".join(f"{key}: {_plain(value[key])}" for key in others)
    if first not in _NAMES or not isinstance(value[first], str | int):
        return ", ".join(f"{key}: {_plain(value[key])}" for key in keys)
    if others == ["text"]:
        return f"{_plain(value[first])}: {_plain(value['text'])}"
    return f"{_plain(value[first])} ({rest})" if rest else _plain(value[first])


def _ordered(value: Mapping[str, Json]) -> list[str]:
    return sorted(value, key=lambda key: _NAMES.index(key) if key in _NAMES else len(_NAMES))


def _holds(value: Json) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def _plain(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(" ".join(text.split()), _LONGEST)


def _clipped(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_LINES - 5
    return [*lines[:_MOST_LINES], f"… ({more + 5} more lines)"] if more > 0 else lines


_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_MARKER: Final = re.compile(r"^\s*(?:\d+[.)]|[-*])\s+", re.MULTILINE)
_CITED: Final = re.compile(r"\[step:[^\]]*\]")
_QUOTED: Final = re.compile(r"[\"“「『《`]([^\"”」』》`\n]{2,80})[\"”」』》`]")
_FILE: Final = re.compile(r"\b[\w-]+(?:[/.][\w-]+)*\.[A-Za-z]\w{0,4}\b")
_NOTHING: Final = re.compile(
    r"\b(?:no|none|not|nothing|neither|cannot|unable)\b|n't\b|没有|无法|未|不(?:存在|能|包含|含)",
    re.IGNORECASE,
)
# A list with something in it.
_FOUND: Final = re.compile(r":\s*\[\s*[^\s\]]")
_PHRASE: Final = {
    "en": "Answer the request in one short English sentence, from the results alone. Copy numbers "
    "and names exactly. Do not repeat the request.",
    "zh": "用一句简短的中文回答请求，只根据结果。数字和名称照抄，不要重复请求。",
}
_MOST_NAMES: Final = 12
_KINDS: Final = {"files": "文件", "tables": "表", "columns": "列", "folders": "文件夹"}
_ROOM: Final = 2400  # letters of results that a sentence is made from


def language_of(locale: str) -> Literal["en", "zh"]:
    """Returns the language of our sentences that is nearest to a locale."""
    return "zh" if locale.startswith("zh") else "en"


class Task(NamedTuple):
    """A request to be answered, and the results by step; without a request they are quoted."""

    request: str
    results: Mapping[str, str]
    language: Literal["en", "zh"] = "en"

    @classmethod
    def of(cls, brief: ReplyBrief) -> Task:
        """Makes the task of an instruction and the results that it refers to."""
        parts = pieces(brief.instruction)
        words = " ".join("".join(each for each in parts if isinstance(each, str)).split())
        texts: dict[str, str] = {}
        for ref in dict.fromkeys(each for each in parts if isinstance(each, Ref)):
            text = value_text(brief.results.get(str(ref)))
            texts[ref.step] = f"{texts[ref.step]}\n{text}" if ref.step in texts else text
        return cls(words, texts, language_of(brief.locale))


def phrase_messages(task: Task) -> list[Message]:
    """Returns the prompt for the one sentence that a model may add."""
    results = "\n".join(facts(text) for text in task.results.values())
    asked = f"Request: {task.request}\nResults:\n{results[:_ROOM]}"
    return [Message("system", _PHRASE[task.language]), Message("user", asked)]


def lead(task: Task) -> str | None:
    """Returns a sentence with number and names of the found items, without a model.

    Empty where a table needs no sentence; None where a single thing needs a model to describe it.
    """
    found = [each for each in map(_list, task.results.values()) if each is not None]
    if not found or len(found[-1].items) == 1:
        return None
    chinese = task.language == "zh"
    kind, items, rows = found[-1]
    names = [_name(each) for each in items]
    if not names:
        return "没有找到。" if chinese else "Nothing was found."
    if None in names or len(names) > _MOST_NAMES:
        return ""
    called = ("、" if chinese else ", ").join(filter(None, names))
    if chinese:
        before = f"{rows} 行；" if rows is not None else ""
        return f"{before}{len(names)} 个{_KINDS.get(kind, '结果')}：{called}。"
    before = f"{rows} rows; " if rows is not None else ""
    return f"{before}{len(names)} {kind or 'found'}: {called}."


class _Items(NamedTuple):
    """The list in a result: its name, and the number of rows that the result states."""

    kind: str
    items: list[Any]
    rows: int | None = None


def _list(text: str) -> _Items | None:
    """Returns the one list of a result that answers it: a table's rows, not its columns."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list):
        return _Items("", value)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    rows: Any = fields.get("rows")
    if isinstance(rows, list):
        return _Items("rows", rows)
    lists: dict[str, list[Any]] = {
        key: each for key, each in fields.items() if isinstance(each, list)
    }
    for key in sorted(lists, key=lambda key: (not lists[key], key not in _KINDS)):
        return _Items(key, lists[key], rows if isinstance(rows, int) else None)
    return None


def _name(value: Any) -> str | None:
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    names = [fields[key] for key in ("path", "name", "title") if isinstance(fields.get(key), str)]
    return value if isinstance(value, str) else next(iter(names), None)


def worded(task: Task, sentence: str) -> str:
    """Returns the answer: a sentence if it agrees with the facts, then the facts.

    Without a request it is the facts alone, for a file or a message.
    """
    if not task.request:
        return "\n\n".join(filter(None, map(facts, task.results.values())))
    source = "\n".join([task.request, *task.results.values()])
    idle = not sentence.strip() or _normalized(sentence).strip(".。 ") in _normalized(task.request)
    cited = "".join(f" [step:{step}]" for step in task.results)
    ours = sentence == lead(task)
    wrong = idle or (not ours and (unfounded(sentence, source) or _denies(sentence, task)))
    parts = [] if wrong else [f"{sentence.strip()}{cited}"]
    parts += [facts(text, f" [step:{step}]") for step, text in task.results.items()]
    return "\n\n".join(filter(None, parts))


def _denies(sentence: str, task: Task) -> bool:
    """Whether a sentence says that nothing was found although something was."""
    found = any(_FOUND.search(text) for text in task.results.values())
    return found and bool(_NOTHING.search(sentence)) and not _NOTHING.search(task.request)


def unfounded(text: str, source: str) -> list[str]:
    """Returns the numbers, quoted names and file names of a text that are not in `source`."""
    claims = _CITED.sub("", _MARKER.sub("", text))
    known = {number for each in _NUMBER.findall(_normalized(source)) for number in _spellings(each)}
    numbers = [
        each for each in _NUMBER.findall(_normalized(claims)) if not _spellings(each) & known
    ]
    plain = _normalized(source)
    names = [*_QUOTED.findall(claims), *_FILE.findall(claims)]
    return [*numbers, *(name for name in names if _normalized(name).strip() not in plain)]


def source_text(prompt: Prompt) -> str:
    """Returns the texts from which an answer may take its numbers and names."""
    brief = prompt.brief
    if not isinstance(brief, ReplyBrief):
        return prompt.text
    return "\n".join([brief.instruction, *map(value_text, brief.results.values())])


def check_wording(text: str, source: str) -> None:
    """Refuses a text with facts that are not in `source`."""
    wrong = unfounded(text, source)
    if wrong:
        shown = ", ".join(dict.fromkeys(wrong[:3]))
        raise ModelFailed(f"its text has facts that are in no result: {shown}")


def _spellings(number: str) -> set[str]:
    """Returns the ways to write a number: with and without separators and trailing zeros."""
    plain = number.replace(",", "")
    ways = {number, plain, number.replace(",", ".")}
    for each in tuple(ways):
        try:
            ways.add(f"{float(each):.10g}")
        except ValueError:
            continue
    return ways


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
