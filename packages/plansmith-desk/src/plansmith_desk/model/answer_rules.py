"""Answers by rules where the shape of a result tells all: rows, numbers, dates, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from plansmith.plan.refs import pieces, value_text
from plansmith.plan.sentence import language_of
from plansmith.ports import ReplyBrief
from plansmith.report.result_text import Language, number_text, table
from plansmith_desk.calendar.moments import in_words

Fields = Mapping[str, Any]
MAX_NAMES: Final = 12
MAX_ROWS: Final = 20
_MAX_LINES: Final = 5
_MAX_NOTE: Final = 400  # letters of a note that a built-in tool writes


class Task(NamedTuple):
    """A request to be answered, and the results by step; without a request they are quoted.

    `writes` if the request says what text to write: that text alone is wanted.
    """

    request: str
    results: Mapping[str, str]
    language: Language = "en"
    writes: bool = False

    @classmethod
    def of(cls, brief: ReplyBrief) -> Task:
        writes = brief.style == "worded"
        words: list[str] = []
        texts: dict[str, list[str]] = {}
        for each in pieces(brief.instruction):
            if isinstance(each, str):
                words.append(each)
                continue
            value = brief.results.get(str(each))
            # A number keeps its place; a text might read as an order there.
            if writes and isinstance(value, int | float):
                words.append(value_text(value))
            texts.setdefault(each.step, []).append(value_text(value))
        results = {step: "\n".join(dict.fromkeys(some)) for step, some in texts.items()}
        request = " ".join("".join(words).split())
        return cls(request, results, cast("Language", language_of(brief.locale)), writes)

    @property
    def source(self) -> str:
        """What an answer may take its numbers and names from."""
        # Line ends and quotation marks within JSON are written in two signs.
        plain = [re.sub(r"\\[nt]", " ", each).replace('\\"', '"') for each in self.results.values()]
        return "\n".join([self.request, *plain])

    def text(self, english: str, chinese: str) -> str:
        return chinese if self.language == "zh" else english

    def joined(self, names: Sequence[object]) -> str:
        return self.text(", ", "、").join(map(str, names))

    def labelled(self, name: str, text: str) -> str:
        return f"{name}{self.text(': ', '：')}{text}"

    def with_notes(self, text: object, *notes: object) -> str:
        words = self.text(", ", "，").join(map(str, notes))
        return self.text(f"{text} ({words})", f"{text}（{words}）")

    def more(self, count: int, unit: str = "个") -> list[str]:
        line = self.text(f"(+ {count} more)", f"（还有 {count} {unit}）")
        return [line] if count > 0 else []


class Answer(NamedTuple):
    """What a result says, by rules; `effect` if something was written, moved or deleted."""

    text: str
    effect: bool = False


def rule_answer(value: Any, task: Task) -> Answer | None:
    """Returns what a result says; None where its text must be read, or its shape is not known."""
    fields: Fields = cast("Fields", value) if isinstance(value, dict) else {}
    for names, rule in _RULES:
        if not fields.keys() >= set(names.split()):
            continue
        try:
            text = rule(fields, task)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # a tool of somebody else may give other things the same names
        if text is not None:
            notes = notes_of(value, task)
            # A line below a table would be a row of it.
            space = [""] if notes and text.split("\n")[-1].startswith("|") else []
            return Answer("\n".join([text, *space, *notes]), rule is _effect)
    return None


def notes_of(value: Any, task: Task) -> list[str]:
    """Returns what a tool says was left out or else has to be known, a line each."""
    fields: Fields = cast("Fields", value) if isinstance(value, dict) else {}
    left_out, notes = fields.get("left_out"), fields.get("notes")
    texts = [str(each) for each in cast("list[object]", notes)] if isinstance(notes, list) else []
    if isinstance(left_out, int) and left_out:
        texts.append(task.text(f"{left_out} more were left out.", f"另有 {left_out} 个未列出。"))
    return [task.text(f"Note: {each}", f"注意：{_in_chinese(each)}") for each in texts]


@cache
def _note_patterns() -> list[tuple[re.Pattern[str], str]]:
    lines = Path(__file__).with_name("notes.zh.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" | ") for line in lines)
    return [(re.compile(pattern, re.DOTALL), words) for pattern, words in pairs]


def _in_chinese(note: str) -> str:
    """Returns the Chinese of a note in English; one of no built-in tool stays as it is."""
    for pattern, words in _note_patterns() if len(note) <= _MAX_NOTE else ():
        if found := pattern.fullmatch(note):
            return words.format(*found.groups())
    return note


def _table(rows: Sequence[Fields], labels: Mapping[str, str]) -> list[str]:
    """Writes rows as a table under these labels; under the names if two labels are alike."""
    names = list(labels)
    headings = list(labels.values()) if len({*labels.values()}) == len(names) else names
    cells = [dict(zip(headings, map(row.get, names), strict=True)) for row in rows]
    return list(table(cells, headings))


def _list(fields: Fields, name: str) -> list[Any]:
    """Returns the list that a field holds; refuses anything else."""
    if not isinstance(fields[name], list):
        raise TypeError(name)
    return list(cast("Sequence[Any]", fields[name]))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _words(english: str, chinese: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE)


# Names of columns that SQL works out: sum(amount), total_amount, order_count; `max_speed` is none.
_AGGREGATES: Final = {
    **dict.fromkeys(("count", "cnt"), ("Count", "数量")),
    **dict.fromkeys(("sum", "total"), ("Total", "合计")),
    **dict.fromkeys(("avg", "average", "mean"), ("Average", "平均")),
    "max": ("Maximum", "最大"),
    "min": ("Minimum", "最小"),
}
_AGGREGATE: Final = re.compile(
    r"\s*(?P<call>count|sum|avg|total|max|min)\s*+\((?P<of>.*)\)\s*"
    r"|(?P<first>count|cnt|sum|total|avg|average|mean)_(?P<behind>.+)"
    r"|(?P<before>.+)_(?P<last>count|cnt|sum|total|avg|average|mean)"
    r"|(?P<alone>count|cnt|sum|total|avg|average|mean|max|min)",
    re.IGNORECASE,
)
# Numbers that name something are not grouped: a year, an id, a telephone number.
_NAMING: Final = re.compile(r"id$|year|code|phone|number$|no$|zip|年|号|编码|电话", re.IGNORECASE)


def _heading(name: str, task: Task) -> str:
    """Returns a column's name, with the usual word for what was worked out."""
    found = _AGGREGATE.fullmatch(name)
    if found is None:
        return name
    word = found["call"] or found["first"] or found["last"] or found["alone"]
    column = (found["of"] or "").strip().strip("\"'`")
    column = "" if column in ("*", "1") else column  # of count(*) there is nothing to name
    of = found["behind"] or found["before"] or column
    english, chinese = _AGGREGATES[word.casefold()]
    if found["call"] or found["first"]:
        plain = of if found["call"] else of.replace("_", " ")
        return task.text(f"{english} {plain}".strip(), f"{of}{chinese}")
    return task.text(name, f"{of}{chinese}")


def _rows(fields: Fields, task: Task) -> str:
    rows, names = _list(fields, "rows"), [str(each["name"]) for each in _list(fields, "columns")]
    values = [[row.get(name) for name in names] for row in rows]
    if not values or all(cell is None for row in values for cell in row):
        return task.text("Nothing was found: no row matches.", "没有找到符合条件的记录。")
    headings = {name: _heading(name, task) for name in names}
    # In a sentence `total_sales` is Total sales.
    labels = list(headings.values())
    if task.language == "en":
        plain = [" ".join(each.replace("_", " ").split()) for each in labels]
        labels = [each[:1].upper() + each[1:] for each in plain]
    if len(values) == 1:
        cells = [_grouped(name, cell) for name, cell in zip(names, values[0], strict=True)]
        labelled = [task.labelled(*each) for each in zip(labels, cells, strict=True)]
        if isinstance(values[0][0], str) and 1 < len(cells) <= 4:
            return task.with_notes(cells[0], *labelled[1:])
        return task.text(", ", "，").join(labelled)
    if len(names) == 1 and len(values) <= MAX_NAMES and not fields.get("more"):
        cells = [number_text(row[0]) for row in values]
        count = task.text(f" ({len(cells)})", f"（{len(cells)} 个）")
        return task.labelled(labels[0] + count, task.joined(cells))
    more, most = task.more(len(rows) - MAX_ROWS, "行"), min(len(rows), MAX_ROWS)
    if fields.get("more"):
        more = [task.text(f"(the first {most} of many)", f"（前 {most} 行，还有更多）")]
    return "\n".join([*_table(rows[:MAX_ROWS], headings), *(["", *more] if more else [])])


def _grouped(name: str, cell: Any) -> str:
    """Writes a number for reading: thousands are grouped unless it names something."""
    text = "—" if cell is None else number_text(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float) or _NAMING.search(name):
        return text
    whole, dot, rest = text.partition(".")
    large = abs(cell) >= 10_000 and whole.lstrip("-").isdecimal()
    return f"{int(whole):,}{dot}{rest}" if large else text


_DESCRIBED: Final = {
    "name": "列", "type": "类型", "min": "最小", "max": "最大", "mean": "平均", "missing": "缺失",
    "distinct": "不同值",
}  # fmt: skip
_TYPES: Final = {
    "text": "文本", "integer": "整数", "number": "数字", "boolean": "是/否", "date": "日期",
    "datetime": "时间", "null": "空", "json": "JSON",
}  # fmt: skip


def _described(fields: Fields, task: Task) -> str | None:
    rows, columns = fields["rows"], _list(fields, "columns")
    if not isinstance(rows, int):
        return None
    names = task.joined([each.get("name") for each in columns])
    summary = task.text(
        f"{_count(rows, 'row')}, {_count(len(columns), 'column')}: {names}.",
        f"{rows} 行，{len(columns)} 列：{names}。",
    )
    keys = [key for key in _DESCRIBED if any(each.get(key) is not None for each in columns)]
    if task.language == "zh":
        columns = [{**each, "type": _TYPES.get(str(each.get("type")), "")} for each in columns]
    labels = {key: task.text(key, _DESCRIBED[key]) for key in keys}
    return "\n".join([summary, "", *_table(columns, labels)])


def _computed(fields: Fields, task: Task) -> str:
    unit = f" {fields['unit']}" if fields.get("unit") else ""
    if fields["exact"]:
        exact = f"{fields['text']}{unit}"
        return task.text(f"The result is {exact}.", f"结果是 {exact}。")
    near = f"{fields['value']:.10g}{unit}"
    return task.text(f"The result is about {near}.", f"结果约为 {near}。")


def _day(fields: Fields, task: Task) -> str:
    return str(in_words(date.fromisoformat(str(fields["date"])))[task.language])


def _until(fields: Fields, task: Task) -> str | None:
    days = fields["days"]
    if not isinstance(days, int):
        return None
    day, away = _day(fields, task), _count(abs(days), "day")
    if days == 0:
        return task.text(f"That is today, {day}.", f"就是今天，{day}。")
    if days < 0:
        return task.text(f"{away} ago, on {day}.", f"{-days} 天前，{day}。")
    return task.text(f"{away} until {day}.", f"还有 {days} 天，{day}。")


_WEEK: Final = _words("week", "第几周")


def _moment(fields: Fields, task: Task) -> str:
    day, zone, week = _day(fields, task), fields["zone"], ""
    if _WEEK.search(task.request) and "week" in fields:
        week = task.text(f" (week {fields['week']})", f"（第 {fields['week']} 周）")
    if "T" not in str(fields["iso"]):
        return task.text(f"{day}{week}.", f"{day}{week}。")
    clock = str(fields.get("clock") or str(fields["time"])[:5])
    return task.text(f"{clock} on {day} ({zone}){week}.", f"{day} {clock}（{zone}）{week}。")


_LENGTHS: Final = {
    "years": "年", "months": "个月", "days": "天", "hours": "小时", "minutes": "分钟",
    "seconds": "秒",
}  # fmt: skip


def _difference_of_times(fields: Fields, task: Task) -> str:
    days = number_text(fields["days"])
    parts = [f"{count} {_LENGTHS[unit]}" for unit, count in fields["parts"].items() if count]
    whole = f"（{' '.join(parts)}）" if len(parts) > 1 or "days" not in fields["parts"] else ""
    return task.text(f"{fields['text']} ({days} days).", f"{days} 天{whole}。")


_DETAILS: Final = _words(
    "sizes?|bytes?|how (?:big|large)|(?:larg|bigg|small)er|modified|changed|dates?|when|newer|older"
    "|recent(?:ly)?",
    "大小|多大|大于|小于|超过|修改|日期|时间|早于|晚于",
)
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
_HEADINGS: Final = {"path": "文件", "size": "大小（字节）", "modified": "修改时间", "count": "行数"}


def _file_table(files: Sequence[Fields], task: Task, names: str) -> list[str]:
    labels = {name: task.text(name, _HEADINGS[name]) for name in names.split()}
    more = task.more(len(files) - MAX_ROWS)
    return [*_table(files[:MAX_ROWS], labels), *(["", *more] if more else [])]


def _files(fields: Fields, task: Task) -> str | None:
    files = _list(fields, "files")
    folders = _list(fields, "folders") if fields.get("folders") else []
    if not all(isinstance(each, dict) and "size" in each for each in files):
        return None
    if not files and not folders:
        return task.text("Nothing was found.", "没有找到。")
    order = next((each for each in _ORDERS if files and each[0].search(task.request)), None)
    if order is not None:
        _, key, most = order
        files.sort(key=lambda each: each.get(key) or 0, reverse=most)
        size, modified = f"{files[0]['size']:,}", files[0].get("modified")
        detail = task.text(f"{size} bytes", f"{size} 字节") if key == "size" else modified
        lead = task.with_notes(files[0]["path"], detail)
        below = _file_table(files, task, "path size modified")
        return "\n".join([lead, *(["", *below] if len(files) > 1 else [])])
    if _DETAILS.search(task.request):
        return "\n".join(_file_table(files, task, "path size modified"))
    paths, lines = [str(each["path"]) for each in files], list[str]()
    detail = task.text(_count(len(paths), "file"), f"{len(paths)} 个文件")
    if len(paths) > MAX_NAMES:
        lines = [task.labelled(detail, "").rstrip(), *(f"- {path}" for path in paths[:MAX_ROWS])]
        lines += task.more(len(paths) - MAX_ROWS)
    elif paths:
        lines = [task.labelled(detail, task.joined(paths))]
    if folders:
        inside = task.text(_count(len(folders), "folder"), f"{len(folders)} 个文件夹")
        lines.append(task.labelled(inside, task.joined(folders[:MAX_ROWS])))
    return "\n".join(lines)


def _searched(fields: Fields, task: Task) -> str:
    files, text = _list(fields, "files"), str(fields["text"])
    if not files:
        count, other = fields["searched"], fields.get("not_text")
        unread = task.text(f", {other} are no text", f"，另有 {other} 个不是文本") if other else ""
        return task.text(
            f'No file mentions "{text}" ({count} searched{unread}).',
            f"没有文件提到“{text}”（共查找 {count} 个{unread}）。",
        )
    paths = task.joined([each["path"] for each in files[:MAX_ROWS]])
    names = " ".join([paths, *task.more(len(files) - MAX_ROWS)])
    some = _count(len(files), "file mentions", "files mention")
    summary = task.text(f'{some} "{text}": {names}.', f"{len(files)} 个文件提到“{text}”：{names}。")
    found = [
        f"- {each['path']}: {' '.join(str(line['text']).split())[:160]}"
        for each in files
        for line in (_list(each, "lines") if "lines" in each else [])[:2]
    ]
    return "\n".join([summary, *found[:_MAX_LINES]])


# What is counted besides lines, if the request speaks of it.
_COUNTED: Final = (
    ("words", _words("words?", "单词|词数|多少(?:个)?词"), "个词"),
    ("characters", _words("characters?|letters", "字符|字数|多少(?:个)?字"), "个字符"),
)


def _counted(fields: Fields, task: Task) -> str:
    files, count = _list(fields, "files"), fields["count"]
    total = task.text(_count(count, "line"), f"{count:,} 行")
    for name, pattern, chinese in _COUNTED:
        if isinstance(fields.get(name), int) and pattern.search(task.request):
            total = f"{fields[name]:,} {task.text(name, chinese)}"
            break
    if len(files) < 2:
        paths = [each["path"] for each in files]
        return (task.with_notes(total, *paths) if paths else total) + task.text(".", "。")
    head = task.text(f"{total} in {len(files)} files:", f"{len(files)} 个文件共 {total}：")
    return "\n".join([head, "", *_file_table(files, task, "path count")])


def _compared(fields: Fields, task: Task) -> str:
    if fields["same"] is True:
        return task.text("The two are the same.", "两者完全相同。")
    chinese = {"added": "新增", "removed": "删除", "changed": "修改"}
    groups = {name: _list(fields, name) for name in chinese if fields.get(name)}
    english = ", ".join(f"{len(each)} {name}" for name, each in groups.items())
    chinese_text = "，".join(f"{chinese[name]} {len(each)} 处" for name, each in groups.items())
    summary = str(fields.get("summary") or f"They differ: {english}.")
    lines = [task.text(summary, f"两者不同：{chinese_text}。" if groups else "两者内容不同。")]
    for name, each in groups.items():
        word, left = task.text(name, chinese[name]), len(each) - MAX_NAMES
        for one in each[:MAX_NAMES]:
            both = one if isinstance(one, str) else f"{one['before']} → {one['after']}"
            lines.append(f"- {task.labelled(word, both)}")
        if left > 0:
            lines.append(task.text(f"- (+ {left} more {name})", f"- （还有 {left} 处{word}）"))
    return "\n".join(lines)


def _duplicates(fields: Fields, task: Task) -> str | None:
    groups = _list(fields, "groups")
    if not all("paths" in each for each in groups):
        return None
    if not groups:
        return task.text("No duplicate files were found.", "没有重复的文件。")
    lines = [f"- {' = '.join(map(str, each['paths']))}" for each in groups[:MAX_ROWS]]
    count = _count(len(groups), "group")
    summary = task.text(f"{count} of duplicate files:", f"{len(groups)} 组重复的文件：")
    return "\n".join([summary, *lines, *task.more(len(groups) - MAX_ROWS, "组")])


def _effect(fields: Fields, task: Task) -> str:
    path, count, rows = str(fields["path"]), fields.get("replaced"), fields.get("rows")
    if "description" in fields:
        words = " ".join(str(fields["description"]).split())[:300]
        return f"{task.text('Chart: ', '图表：')}{path}\n{words}"
    if "deleted" in fields:
        return task.text("Deleted: ", "已删除：") + path
    if "from" in fields:
        english, chinese = ("Copied", "已复制") if "bytes" in fields else ("Moved", "已移动")
        return task.labelled(task.text(english, chinese), f"{fields['from']} → {path}")
    if isinstance(count, int):
        places = task.text(_count(count, "place"), f"{count} 处")
        return task.with_notes(task.text("Changed: ", "已修改：") + path, places)
    notes = [task.text(f"{rows} rows", f"{rows} 行")] if isinstance(rows, int) else []
    if fields["created"]:
        notes.append(task.text("new", "新文件"))
    elif fields.get("changed", True):
        notes.append(task.text("changed", "已更改"))
    else:
        notes.append(task.text("it was so already", "内容未变"))
    return task.with_notes(task.text("Written: ", "已写入：") + path, *notes)


# The fields that tell a shape, and the rule for it; the first that fits is taken.
_RULES: Final[tuple[tuple[str, Callable[[Fields, Task], str | None]], ...]] = (
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
