"""Answers by rules where the shape of a result tells all: rows, numbers, dates, files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any, Final, cast

from plansmith.report.result_text import Language, number_text
from plansmith_desk.model.answer_notes import in_language
from plansmith_desk.model.answer_shape import (
    MOST_NAMES,
    MOST_ROWS,
    Answer,
    Asked,
    Fields,
    Rule,
    list_in,
    table_in,
)
from plansmith_desk.model.file_answers import FILE_RULES

_COLUMNS: Final = re.compile(
    r"\b(?:describe|types?|structure|schema|overview|about|missing|distinct|min|max|mean|average|"
    r"statistics|stats|range|contains?)\b|描述|类型|结构|概况|概览|缺失|统计|范围|平均",
    re.IGNORECASE,
)
_AGGREGATE: Final = re.compile(r"(count|sum|avg|total|max|min)\s*+\((.*)\)", re.IGNORECASE)
_AGGREGATES: Final = {
    "count": ("Count", "数量"),
    "sum": ("Total", "合计"),
    "total": ("Total", "合计"),
    "avg": ("Average", "平均"),
    "max": ("Maximum", "最大"),
    "min": ("Minimum", "最小"),
    "average": ("Average", "平均"),
    "mean": ("Average", "平均"),
    "num": ("Count", "数量"),
    "cnt": ("Count", "数量"),
}
# Words that name what was worked out where they are a part of a name; `max_speed` is a column.
_SUMS: Final = frozenset({"count", "cnt", "sum", "total", "avg", "average", "mean"})
_DESCRIBED: Final = {
    "name": "列", "type": "类型", "min": "最小", "max": "最大", "mean": "平均", "missing": "缺失",
    "distinct": "不同值",
}  # fmt: skip
_TYPES: Final = {
    "text": "文本", "integer": "整数", "number": "数字", "boolean": "是/否", "date": "日期",
    "datetime": "时间", "null": "空", "json": "JSON",
}  # fmt: skip
_LENGTHS: Final = {
    "years": "年", "months": "个月", "days": "天", "hours": "小时", "minutes": "分钟",
    "seconds": "秒",
}  # fmt: skip
# Numbers that name something are not grouped: a year, an id, a telephone number.
_NAMING: Final = re.compile(r"id$|year|code|phone|number$|no$|zip|年|号|编码|电话", re.IGNORECASE)
_WEEKDAYS: Final = {
    "Monday": "星期一", "Tuesday": "星期二", "Wednesday": "星期三", "Thursday": "星期四",
    "Friday": "星期五", "Saturday": "星期六", "Sunday": "星期日",
}  # fmt: skip


def rule_answer(value: Any, request: str, language: Language) -> Answer | None:
    """Returns what a result says; None where its text must be read, or its shape is not known."""
    if not isinstance(value, dict):
        return None
    fields = cast("Fields", value)
    rules = [rule for names, rule in _RULES if names <= fields.keys()]
    for found in (_tried(rule, fields, Asked(request, language)) for rule in rules):
        if found is not None:
            notes = notes_of(value, language)
            # A line below a table would be a row of it.
            space = [""] if notes and found.text.split("\n")[-1].startswith("|") else []
            return found._replace(text="\n".join([found.text, *space, *notes]))
    return None


def _tried(rule: Rule, fields: Fields, asked: Asked) -> Answer | None:
    """Applies a rule; a tool of somebody else may give other things the same names."""
    try:
        return rule(fields, asked)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def notes_of(value: Any, language: Language) -> list[str]:
    """Returns what a tool says was left out or else has to be known, a line each."""
    if not isinstance(value, dict):
        return []
    fields = cast("Fields", value)
    asked = Asked("", language)
    left_out = fields.get("left_out")
    listed = isinstance(fields.get("notes"), list)
    said = [str(each) for each in list_in(fields, "notes")] if listed else []
    if isinstance(left_out, int) and left_out:
        said.append(asked.say(f"{left_out} more were left out.", f"另有 {left_out} 个未列出。"))
    return [asked.say("Note: ", "注意：") + in_language(each, language) for each in said]


def _rows(fields: Fields, asked: Asked) -> Answer | None:
    rows, columns = list_in(fields, "rows"), list_in(fields, "columns")
    names = [str(each["name"]) for each in columns]
    values = [[row.get(name) for name in names] for row in rows]
    if not values or all(cell is None for row in values for cell in row):
        return Answer(asked.say("Nothing was found: no row matches.", "没有找到符合条件的记录。"))
    if len(values) == 1:
        return Answer(_one_row(names, values[0], asked))
    if len(names) == 1 and len(values) <= MOST_NAMES and not fields.get("more"):
        cells = [number_text(row[0]) for row in values]
        count = asked.say(f" ({len(cells)})", f"（{len(cells)} 个）")
        return Answer(
            f"{_label(names[0], asked)}{count}{asked.say(': ', '：')}{asked.joined(cells)}"
        )
    shown = [dict(zip(names, row, strict=True)) for row in values[:MOST_ROWS]]
    lines = table_in(shown, names, [_heading(name, asked) for name in names])
    left = len(values) - len(shown)
    if fields.get("more"):
        lines += [
            "",
            asked.say(f"(the first {len(shown)} of many)", f"（前 {len(shown)} 行，还有更多）"),
        ]
    elif left:
        lines += ["", asked.say(f"(+ {left} more)", f"（还有 {left} 行）")]
    return Answer("\n".join(lines))


def _one_row(names: Sequence[str], row: Sequence[Any], asked: Asked) -> str:
    colon = asked.say(": ", "：")
    cells = [_grouped(name, cell) for name, cell in zip(names, row, strict=True)]
    if len(cells) == 1:
        return f"{_label(names[0], asked)}{colon}{cells[0]}"
    labelled = [
        f"{_label(name, asked)}{colon}{cell}" for name, cell in zip(names, cells, strict=True)
    ]
    if isinstance(row[0], str) and len(cells) <= 4:
        rest = asked.say(", ", "，").join(labelled[1:])
        return asked.say(f"{cells[0]} ({rest})", f"{cells[0]}（{rest}）")
    return asked.say(", ", "，").join(labelled)


def _grouped(name: str, cell: Any) -> str:
    """Writes a number for reading: thousands are grouped unless it names something."""
    text = "—" if cell is None else number_text(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float) or _NAMING.search(name):
        return text
    whole, dot, rest = text.partition(".")
    return (
        f"{int(whole):,}{dot}{rest}"
        if abs(cell) >= 10_000 and whole.lstrip("-").isdecimal()
        else text
    )


def _label(name: str, asked: Asked) -> str:
    """Returns a column's name: `total_sales` is Total sales; in Chinese it is told as it is."""
    found = _AGGREGATE.fullmatch(name.strip())
    if asked.language == "zh":
        return _heading(name, asked)
    if found:
        return f"{_AGGREGATES[found[1].lower()][0]} {_measured(found[2].strip())}".strip()
    plain = " ".join(name.replace("_", " ").split())
    return plain[:1].upper() + plain[1:]


def _heading(name: str, asked: Asked) -> str:
    """Returns the name of a column, with the usual word for a sum where it begins with one."""
    if asked.language == "en":
        word, _, behind = name.partition("_")
        known = word.casefold() in _SUMS and behind
        said = behind.replace("_", " ")
        return f"{_AGGREGATES[word.casefold()][0]} {said}" if known else name
    found = _AGGREGATE.fullmatch(name.strip())
    if found:
        return f"{_measured(found[2].strip())}{_AGGREGATES[found[1].lower()][1]}"
    word = name.strip().casefold()
    if word in _AGGREGATES:
        return _AGGREGATES[word][1]
    (first, _, behind), (before, _, last) = name.partition("_"), name.rpartition("_")
    if first.casefold() in _SUMS:
        return f"{behind}{_AGGREGATES[first.casefold()][1]}"
    return f"{before}{_AGGREGATES[last.casefold()][1]}" if last.casefold() in _SUMS else name


def _measured(inside: str) -> str:
    """Returns what an aggregate is of: nothing where it counts rows."""
    return "" if inside in ("*", "1", "") else inside.strip("\"'`")


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _described(fields: Fields, asked: Asked) -> Answer | None:
    rows, columns = fields["rows"], list_in(fields, "columns")
    if not isinstance(rows, int):
        return None
    names = asked.joined([str(each.get("name")) for each in columns])
    said = asked.say(
        f"{rows:,} {_many('row', rows)}, {len(columns)} {_many('column', len(columns))}: {names}.",
        f"{rows} 行，{len(columns)} 列：{names}。",
    )
    if not _COLUMNS.search(asked.request):
        return Answer(said)
    known = ("name", "type", "min", "max", "mean", "missing", "distinct")
    shown = [key for key in known if any(each.get(key) is not None for each in columns)]
    if asked.language == "zh":
        columns = [{**each, "type": _TYPES.get(str(each.get("type")), "")} for each in columns]
    labels = [asked.say(key, _DESCRIBED[key]) for key in shown]
    return Answer("\n".join([said, "", *table_in(columns, shown, labels)]))


def _computed(fields: Fields, asked: Asked) -> Answer:
    unit = f" {fields['unit']}" if fields.get("unit") else ""
    exact = bool(fields["exact"])
    about = "" if exact else asked.say("about ", "约为")
    number = str(fields["text"]) if exact else f"{fields['value']:.10g}"
    return Answer(
        asked.say(f"The result is {about}{number}{unit}.", f"结果{about or '是'} {number}{unit}。")
    )


def _until(fields: Fields, asked: Asked) -> Answer | None:
    days = fields["days"]
    if not isinstance(days, int):
        return None
    day = _day(fields, asked)
    plural = "" if abs(days) == 1 else "s"
    if days == 0:
        return Answer(asked.say(f"That is today, {day}.", f"就是今天，{day}。"))
    if days < 0:
        return Answer(asked.say(f"{-days} day{plural} ago, on {day}.", f"{-days} 天前，{day}。"))
    return Answer(asked.say(f"{days} day{plural} until {day}.", f"还有 {days} 天，{day}。"))


def _day(fields: Fields, asked: Asked) -> str:
    if "spoken" in fields:
        return str(fields["spoken"][asked.language])
    weekday = str(fields["weekday"])
    day = date.fromisoformat(str(fields["date"]))
    return asked.say(
        f"{weekday}, {day.day} {day:%B} {day.year}",
        f"{day.year}年{day.month}月{day.day}日{_WEEKDAYS.get(weekday, weekday)}",
    )


def _moment(fields: Fields, asked: Asked) -> Answer:
    day = _day(fields, asked)
    more = [
        asked.say(f"week {fields['week']}", f"第 {fields['week']} 周")
        for wanted in (re.search(r"\bweek\b|第几周", asked.request, re.IGNORECASE),)
        if wanted and "week" in fields
    ]
    noted = asked.say(f" ({', '.join(more)})", f"（{'，'.join(more)}）") if more else ""
    if "T" not in str(fields["iso"]):
        return Answer(asked.say(f"{day}{noted}.", f"{day}{noted}。"))
    clock = str(fields.get("clock") or str(fields["time"])[:5])
    zone = fields["zone"]
    return Answer(
        asked.say(f"{clock} on {day} ({zone}){noted}.", f"{day} {clock}（{zone}）{noted}。")
    )


def _difference_of_times(fields: Fields, asked: Asked) -> Answer:
    days = number_text(fields["days"])
    parts = [f"{count} {_LENGTHS[unit]}" for unit, count in fields["parts"].items() if count]
    whole = f"（{' '.join(parts)}）" if len(parts) > 1 or "days" not in fields["parts"] else ""
    return Answer(asked.say(f"{fields['text']} ({days} days).", f"{days} 天{whole}。"))


_RULES: Final[tuple[tuple[frozenset[str], Rule], ...]] = (
    (frozenset({"rows", "columns"}), _rows),
    (frozenset({"rows", "columns"}), _described),
    *FILE_RULES,
    (frozenset({"value", "text", "exact"}), _computed),
    (frozenset({"days", "parts", "text"}), _difference_of_times),
    (frozenset({"date", "weekday", "days"}), _until),
    (frozenset({"iso", "date", "weekday", "zone"}), _moment),
)
