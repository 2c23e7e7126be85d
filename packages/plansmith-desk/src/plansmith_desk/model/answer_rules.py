"""Answers by rules where the shape of a result tells all: rows, numbers, dates, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from plansmith.report.result_text import Language, number_text, table

Fields = Mapping[str, Any]
MOST_NAMES: Final = 12
MOST_ROWS: Final = 20
_MOST_LINES: Final = 5
_LONGEST_NOTE: Final = 400  # letters of a note that a built-in tool writes


class Answer(NamedTuple):
    """What a result says, by rules; `effect` if something was written, moved or deleted."""

    text: str
    effect: bool = False


class Asked(NamedTuple):
    """A request and the language of its answer."""

    request: str
    language: Language

    def say(self, english: str, chinese: str) -> str:
        return chinese if self.language == "zh" else english

    def joined(self, names: Sequence[str]) -> str:
        return self.say(", ", "、").join(names)

    def named(self, name: str, text: str) -> str:
        return f"{name}{self.say(': ', '：')}{text}"

    def noted(self, text: str, *notes: str) -> str:
        return self.say(f"{text} ({', '.join(notes)})", f"{text}（{'，'.join(notes)}）")

    def more(self, count: int, unit: str = "个") -> list[str]:
        """Returns a line about what is not shown."""
        line = self.say(f"(+ {count} more)", f"（还有 {count} {unit}）")
        return [line] if count > 0 else []

    def speaks_of(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(self.request) is not None


def _table(rows: Sequence[Fields], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Writes rows as a table whose columns have other names; their own if two would be alike."""
    if len(set(labels)) < len(names):
        return list(table(rows, names))
    shown = [dict(zip(labels, map(row.get, names), strict=True)) for row in rows]
    return list(table(shown, labels))


def _list(fields: Fields, name: str) -> list[Any]:
    """Returns the list that a field holds; refuses anything else."""
    if not isinstance(fields[name], list):
        raise TypeError(name)
    return list(cast("Sequence[Any]", fields[name]))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _words(english: str, chinese: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE)


_WEEK: Final = _words("week", "第几周")
_DETAILS: Final = _words(
    "sizes?|bytes?|how (?:big|large)|(?:larg|bigg|small)er|modified|changed|dates?|when|newer|older"
    "|recent(?:ly)?",
    "大小|多大|大于|小于|超过|修改|日期|时间|早于|晚于",
)
_WORDS: Final = _words("words?", "单词|词数|多少(?:个)?词")
_LETTERS: Final = _words("characters?|letters", "字符|字数|多少(?:个)?字")
# The first file by size or date, the largest and latest or the smallest and oldest.
_ORDERS: Final = (
    (_words("(?:larg|bigg)est", "最大"), "size", True),
    (_words("smallest", "最小"), "size", False),
    (
        _words("newest|latest|(?:most|last) (?:recent|changed|modified)", "最新|最近|最晚"),
        "modified",
        True,
    ),
    (_words("oldest|earliest", "最旧|最早|最老"), "modified", False),
)
# Names of columns that SQL works out, such as sum(amount), total_amount or order_count.
_AGGREGATE: Final = re.compile(r"(count|sum|avg|total|max|min)\s*+\((.*)\)", re.IGNORECASE)
_AGGREGATES: Final = {
    **dict.fromkeys(("count", "cnt"), ("Count", "数量")),
    **dict.fromkeys(("sum", "total"), ("Total", "合计")),
    **dict.fromkeys(("avg", "average", "mean"), ("Average", "平均")),
    "max": ("Maximum", "最大"),
    "min": ("Minimum", "最小"),
}
_COLUMNS_ALONE: Final = ("max", "min")  # `max_speed` is a column
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
_HEADINGS: Final = {"path": "文件", "size": "大小（字节）", "modified": "修改时间", "count": "行数"}


def rule_answer(value: Any, request: str, language: Language) -> Answer | None:
    """Returns what a result says; None where its text must be read, or its shape is not known."""
    if not isinstance(value, dict):
        return None
    fields = cast("Fields", value)
    for names, rule in _RULES:
        if not fields.keys() >= set(names.split()):
            continue
        try:
            text = rule(fields, Asked(request, language))
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # a tool of somebody else may give other things the same names
        if text is not None:
            notes = notes_of(value, language)
            # A line below a table would be a row of it.
            space = [""] if notes and text.split("\n")[-1].startswith("|") else []
            return Answer("\n".join([text, *space, *notes]), rule is _effect)
    return None


def notes_of(value: Any, language: Language) -> list[str]:
    """Returns what a tool says was left out or else has to be known, a line each."""
    fields: Fields = cast("Fields", value) if isinstance(value, dict) else {}
    asked, left_out, notes = Asked("", language), fields.get("left_out"), fields.get("notes")
    said = [str(each) for each in cast("list[object]", notes)] if isinstance(notes, list) else []
    if isinstance(left_out, int) and left_out:
        said.append(asked.say(f"{left_out} more were left out.", f"另有 {left_out} 个未列出。"))
    return [asked.say(f"Note: {each}", f"注意：{_in_chinese(each)}") for each in said]


@cache
def _note_patterns() -> list[tuple[re.Pattern[str], str]]:
    """Returns how notes of the built-in tools, which are in English, are said in Chinese."""
    lines = Path(__file__).with_name("notes.zh.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" | ") for line in lines)
    return [(re.compile(pattern, re.DOTALL), words) for pattern, words in pairs]


def _in_chinese(note: str) -> str:
    """Returns a note in Chinese; one of no built-in tool stays as it is."""
    if len(note) <= _LONGEST_NOTE:
        for pattern, words in _note_patterns():
            if found := pattern.fullmatch(note):
                return words.format(*found.groups())
    return note


def _rows(fields: Fields, asked: Asked) -> str:
    rows, names = _list(fields, "rows"), [str(each["name"]) for each in _list(fields, "columns")]
    values = [[row.get(name) for name in names] for row in rows]
    if not values or all(cell is None for row in values for cell in row):
        return asked.say("Nothing was found: no row matches.", "没有找到符合条件的记录。")
    if len(values) == 1:
        return _one_row(names, values[0], asked)
    if len(names) == 1 and len(values) <= MOST_NAMES and not fields.get("more"):
        cells = [number_text(row[0]) for row in values]
        count = asked.say(f" ({len(cells)})", f"（{len(cells)} 个）")
        return asked.named(_label(names[0], asked) + count, asked.joined(cells))
    lines = _table(rows[:MOST_ROWS], names, [_heading(name, asked) for name in names])
    more = asked.more(len(rows) - MOST_ROWS, "行")
    if fields.get("more"):
        shown = min(len(rows), MOST_ROWS)
        more = [asked.say(f"(the first {shown} of many)", f"（前 {shown} 行，还有更多）")]
    return "\n".join([*lines, "", *more] if more else lines)


def _one_row(names: Sequence[str], row: Sequence[Any], asked: Asked) -> str:
    cells = [_grouped(name, cell) for name, cell in zip(names, row, strict=True)]
    labels = [_label(name, asked) for name in names]
    labelled = [asked.named(*each) for each in zip(labels, cells, strict=True)]
    if isinstance(row[0], str) and 1 < len(cells) <= 4:
        return asked.noted(cells[0], *labelled[1:])
    return asked.say(", ", "，").join(labelled)


def _grouped(name: str, cell: Any) -> str:
    """Writes a number for reading: thousands are grouped unless it names something."""
    text = "—" if cell is None else number_text(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float) or _NAMING.search(name):
        return text
    whole, dot, rest = text.partition(".")
    large = abs(cell) >= 10_000 and whole.lstrip("-").isdecimal()
    return f"{int(whole):,}{dot}{rest}" if large else text


def _label(name: str, asked: Asked) -> str:
    """Returns a column's name in a sentence: `total_sales` is Total sales, in Chinese sales合计."""
    heading = _heading(name, asked)
    if asked.language == "zh":
        return heading
    plain = " ".join(heading.replace("_", " ").split())
    return plain[:1].upper() + plain[1:]


def _heading(name: str, asked: Asked) -> str:
    """Returns a column's name, with the usual word for what was worked out."""
    found = _AGGREGATE.fullmatch(name.strip())
    if found is not None:
        # Of count(*) there is nothing to name.
        of = "" if found[2].strip() in ("*", "1") else found[2].strip().strip("\"'`")
        english, chinese = _AGGREGATES[found[1].lower()]
        return asked.say(f"{english} {of}".strip(), f"{of}{chinese}")
    first, _, behind = name.partition("_")
    before, _, last = name.rpartition("_")
    for word, of in ((first, behind), (last, before)):
        alone = not of or word.casefold() in _COLUMNS_ALONE
        if word.casefold() in _AGGREGATES and (not alone or name.casefold() == word.casefold()):
            english, chinese = _AGGREGATES[word.casefold()]
            in_english = f"{english} {of.replace('_', ' ')}" if of and word == first else name
            return asked.say(in_english, f"{of}{chinese}")
    return name


def _described(fields: Fields, asked: Asked) -> str | None:
    rows, columns = fields["rows"], _list(fields, "columns")
    if not isinstance(rows, int):
        return None
    names = asked.joined([str(each.get("name")) for each in columns])
    said = asked.say(
        f"{_count(rows, 'row')}, {_count(len(columns), 'column')}: {names}.",
        f"{rows} 行，{len(columns)} 列：{names}。",
    )
    shown = [key for key in _DESCRIBED if any(each.get(key) is not None for each in columns)]
    if asked.language == "zh":
        columns = [{**each, "type": _TYPES.get(str(each.get("type")), "")} for each in columns]
    labels = [asked.say(key, _DESCRIBED[key]) for key in shown]
    return "\n".join([said, "", *_table(columns, shown, labels)])


def _computed(fields: Fields, asked: Asked) -> str:
    unit = f" {fields['unit']}" if fields.get("unit") else ""
    if fields["exact"]:
        return asked.say(
            f"The result is {fields['text']}{unit}.", f"结果是 {fields['text']}{unit}。"
        )
    near = f"{fields['value']:.10g}{unit}"
    return asked.say(f"The result is about {near}.", f"结果约为 {near}。")


def _until(fields: Fields, asked: Asked) -> str | None:
    days = fields["days"]
    if not isinstance(days, int):
        return None
    day, away = _day(fields, asked), _count(abs(days), "day")
    if days == 0:
        return asked.say(f"That is today, {day}.", f"就是今天，{day}。")
    if days < 0:
        return asked.say(f"{away} ago, on {day}.", f"{-days} 天前，{day}。")
    return asked.say(f"{away} until {day}.", f"还有 {days} 天，{day}。")


def _day(fields: Fields, asked: Asked) -> str:
    if "spoken" in fields:
        return str(fields["spoken"][asked.language])
    day = date.fromisoformat(str(fields["date"]))
    weekday = "一二三四五六日"[day.weekday()]
    return asked.say(
        f"{fields['weekday']}, {day.day} {day:%B} {day.year}",
        f"{day.year}年{day.month}月{day.day}日星期{weekday}",
    )


def _moment(fields: Fields, asked: Asked) -> str:
    day, zone = _day(fields, asked), fields["zone"]
    noted = ""
    if asked.speaks_of(_WEEK) and "week" in fields:
        noted = asked.say(f" (week {fields['week']})", f"（第 {fields['week']} 周）")
    if "T" not in str(fields["iso"]):
        return asked.say(f"{day}{noted}.", f"{day}{noted}。")
    clock = str(fields.get("clock") or str(fields["time"])[:5])
    return asked.say(f"{clock} on {day} ({zone}){noted}.", f"{day} {clock}（{zone}）{noted}。")


def _difference_of_times(fields: Fields, asked: Asked) -> str:
    days = number_text(fields["days"])
    parts = [f"{count} {_LENGTHS[unit]}" for unit, count in fields["parts"].items() if count]
    whole = f"（{' '.join(parts)}）" if len(parts) > 1 or "days" not in fields["parts"] else ""
    return asked.say(f"{fields['text']} ({days} days).", f"{days} 天{whole}。")


def _files(fields: Fields, asked: Asked) -> str | None:
    files = _list(fields, "files")
    folders = _list(fields, "folders") if fields.get("folders") else []
    if not all(isinstance(each, dict) and "size" in each for each in files):
        return None
    if not files and not folders:
        return asked.say("Nothing was found.", "没有找到。")
    for pattern, key, most in _ORDERS:
        if files and asked.speaks_of(pattern):
            files.sort(key=lambda each: each.get(key) or 0, reverse=most)
            size = f"{files[0]['size']:,}"
            what = asked.say(f"{size} bytes", f"{size} 字节")
            lead = asked.noted(
                files[0]["path"], what if key == "size" else str(files[0].get("modified"))
            )
            below = ["", *_file_table(files, asked)] if len(files) > 1 else []
            return "\n".join([lead, *below])
    if asked.speaks_of(_DETAILS):
        return "\n".join(_file_table(files, asked))
    paths = [str(each["path"]) for each in files]
    said = asked.say(_count(len(paths), "file"), f"{len(paths)} 个文件")
    lines = [asked.named(said, asked.joined(paths))] if paths else []
    if len(paths) > MOST_NAMES:
        lines = [asked.named(said, "").rstrip(), *(f"- {path}" for path in paths[:MOST_ROWS])]
        lines += asked.more(len(paths) - MOST_ROWS)
    if folders:
        inside = asked.say(_count(len(folders), "folder"), f"{len(folders)} 个文件夹")
        lines.append(asked.named(inside, asked.joined(list(map(str, folders[:MOST_ROWS])))))
    return "\n".join(lines)


def _file_table(files: Sequence[Fields], asked: Asked) -> list[str]:
    names = ["path", "size", "modified"]
    labels = [asked.say(name, _HEADINGS[name]) for name in names]
    lines, more = _table(files[:MOST_ROWS], names, labels), asked.more(len(files) - MOST_ROWS)
    return [*lines, "", *more] if more else lines


def _searched(fields: Fields, asked: Asked) -> str:
    files, text = _list(fields, "files"), str(fields["text"])
    if not files:
        count, other = fields["searched"], fields.get("not_text")
        unread = asked.say(f", {other} are no text", f"，另有 {other} 个不是文本") if other else ""
        return asked.say(
            f'No file mentions "{text}" ({count} searched{unread}).',
            f"没有文件提到“{text}”（共查找 {count} 个{unread}）。",
        )
    names = asked.joined([str(each["path"]) for each in files[:MOST_ROWS]])
    some = _count(len(files), "file mentions", "files mention")
    said = asked.say(f'{some} "{text}": {names}.', f"{len(files)} 个文件提到“{text}”：{names}。")
    found = [
        f"- {each['path']}: {' '.join(str(line['text']).split())[:160]}"
        for each in files
        for line in (_list(each, "lines") if "lines" in each else [])[:2]
    ]
    return "\n".join([said, *found[:_MOST_LINES]])


def _counted(fields: Fields, asked: Asked) -> str:
    files = _list(fields, "files")
    words, letters, count = fields.get("words"), fields.get("characters"), fields["count"]
    said = asked.say(_count(count, "line"), f"{count:,} 行")
    if isinstance(words, int) and asked.speaks_of(_WORDS):
        said = asked.say(f"{words:,} words", f"{words:,} 个词")
    elif isinstance(letters, int) and asked.speaks_of(_LETTERS):
        said = asked.say(f"{letters:,} characters", f"{letters:,} 个字符")
    if len(files) < 2:
        paths = [str(each["path"]) for each in files]
        return (asked.noted(said, *paths) if paths else said) + asked.say(".", "。")
    head = asked.say(f"{said} in {len(files)} files:", f"{len(files)} 个文件共 {said}：")
    names = ["path", "count"]
    labels = [asked.say(name, _HEADINGS[name]) for name in names]
    return "\n".join([head, "", *_table(files[:MOST_ROWS], names, labels)])


def _compared(fields: Fields, asked: Asked) -> str:
    if fields["same"] is True:
        return asked.say("The two are the same.", "两者完全相同。")
    chinese = {"added": "新增", "removed": "删除", "changed": "修改"}
    groups = {name: _list(fields, name) for name in chinese if fields.get(name)}
    english = ", ".join(f"{len(each)} {name}" for name, each in groups.items())
    counted = "，".join(f"{chinese[name]} {len(each)} 处" for name, each in groups.items())
    summary = str(fields.get("summary") or f"They differ: {english}.")
    lines = [asked.say(summary, f"两者不同：{counted}。" if groups else "两者内容不同。")]
    for name, each in groups.items():
        word, left = asked.say(name, chinese[name]), len(each) - MOST_NAMES
        for one in each[:MOST_NAMES]:
            both = one if isinstance(one, str) else f"{one['before']} → {one['after']}"
            lines.append(f"- {asked.named(word, both)}")
        if left > 0:
            lines.append(asked.say(f"- (+ {left} more {name})", f"- （还有 {left} 处{word}）"))
    return "\n".join(lines)


def _duplicates(fields: Fields, asked: Asked) -> str | None:
    groups = _list(fields, "groups")
    if not all("paths" in each for each in groups):
        return None
    if not groups:
        return asked.say("No duplicate files were found.", "没有重复的文件。")
    lines = [f"- {' = '.join(map(str, each['paths']))}" for each in groups[:MOST_ROWS]]
    count = _count(len(groups), "group")
    said = asked.say(f"{count} of duplicate files:", f"{len(groups)} 组重复的文件：")
    return "\n".join([said, *lines, *asked.more(len(groups) - MOST_ROWS, "组")])


def _effect(fields: Fields, asked: Asked) -> str:
    """Tells what was drawn, written, changed, moved or deleted."""
    path, count, rows = str(fields["path"]), fields.get("replaced"), fields.get("rows")
    if "description" in fields:
        words = " ".join(str(fields["description"]).split())[:300]
        return f"{asked.say('Chart: ', '图表：')}{path}\n{words}"
    if "deleted" in fields:
        return asked.say("Deleted: ", "已删除：") + path
    if "from" in fields:
        english, chinese = ("Copied", "已复制") if "bytes" in fields else ("Moved", "已移动")
        return asked.named(asked.say(english, chinese), f"{fields['from']} → {path}")
    if isinstance(count, int):
        places = asked.say(_count(count, "place"), f"{count} 处")
        return asked.noted(asked.say("Changed: ", "已修改：") + path, places)
    notes = [asked.say(f"{rows} rows", f"{rows} 行")] if isinstance(rows, int) else []
    if fields["created"]:
        notes.append(asked.say("new", "新文件"))
    elif fields.get("changed", True):
        notes.append(asked.say("changed", "已更改"))
    else:
        notes.append(asked.say("it was so already", "内容未变"))
    return asked.noted(asked.say("Written: ", "已写入：") + path, *notes)


# The fields that tell a shape, and the rule for it; the first that fits is taken.
_RULES: Final[tuple[tuple[str, Callable[[Fields, Asked], str | None]], ...]] = (
    ("rows columns", _rows),
    ("rows columns", _described),
    ("path created", _effect),
    ("path replaced", _effect),
    ("path from", _effect),
    ("path deleted", _effect),
    ("count unit files", _counted),
    ("text files searched", _searched),
    ("same added removed", _compared),
    ("groups count", _duplicates),
    ("files", _files),
    ("value text exact", _computed),
    ("days parts text", _difference_of_times),
    ("date weekday days", _until),
    ("iso date weekday zone", _moment),
)
