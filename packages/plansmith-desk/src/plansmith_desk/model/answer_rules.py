"""Answers by rules where the shape of a result tells all: rows, numbers, dates, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple, cast

from plansmith.report.result_text import Language, number_text, table
from plansmith_desk.model.answer_notes import in_language

Fields = Mapping[str, Any]
MOST_NAMES: Final = 12
MOST_ROWS: Final = 20


class Answer(NamedTuple):
    """What a result says, by rules; `effect` if something was written, moved or deleted."""

    text: str
    effect: bool = False


class Asked(NamedTuple):
    """A request and the language of its answer."""

    request: str
    language: Language

    def say(self, english: str, chinese: str) -> str:
        """Returns the words in the language of the answer."""
        return chinese if self.language == "zh" else english

    def joined(self, names: Sequence[str]) -> str:
        """Returns names as a list within a sentence."""
        return self.say(", ", "、").join(names)


def table_in(rows: Sequence[Fields], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Writes rows as a table whose columns have other names; their own if two would be alike."""
    if len(set(labels)) < len(names):
        return list(table(rows, names))
    renamed = dict(zip(names, labels, strict=True))
    shown = [{renamed[name]: row.get(name) for name in names} for row in rows]
    return list(table(shown, labels))


def list_in(fields: Fields, name: str) -> list[Any]:
    """Returns the list that a field holds; refuses anything else."""
    value = fields[name]
    if not isinstance(value, list):
        raise TypeError(name)
    return list(cast("Sequence[Any]", value))


Rule = Callable[[Fields, Asked], Answer | None]


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


_MOST_LINES: Final = 5
_HEADINGS: Final = {"path": "文件", "size": "大小（字节）", "modified": "修改时间", "count": "行数"}
_LARGE: Final = re.compile(r"\b(?:larg|bigg)est\b|最大", re.IGNORECASE)
_SMALL: Final = re.compile(r"\bsmallest\b|最小", re.IGNORECASE)
_NEW: Final = re.compile(
    r"\b(?:newest|latest|most recent(?:ly)?|last (?:changed|modified))\b|最新|最近|最晚",
    re.IGNORECASE,
)
_OLD: Final = re.compile(r"\b(?:oldest|earliest)\b|最旧|最早|最老", re.IGNORECASE)
# Larger or older than something: the sizes and dates tell, no file is the answer.
_SIZE: Final = re.compile(
    r"\bsizes?\b|\bbytes?\b|\bhow (?:big|large)\b|\b(?:larg|bigg|small)er\b"
    r"|大小|多大|大于|小于|超过",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    r"\b(?:modified|changed|dates?|when|newer|older|recent(?:ly)?)\b|修改|日期|时间|早于|晚于",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"\bwords?\b|单词|词数|多少(?:个)?词", re.IGNORECASE)
_LETTERS: Final = re.compile(r"\bcharacters?\b|\bletters\b|字符|字数|多少(?:个)?字", re.IGNORECASE)
# The words of the tool that draws charts.
_DRAWN: Final = re.compile(
    r"(?P<kind>\w+) chart of (?P<names>.{1,300}) by (?P<by>.{1,200}): (?P<count>\d+) values "
    r"from (?P<low>\S+) to (?P<high>\S+)\."
)
_CHARTS: Final = {
    "bar": "柱状图", "line": "折线图", "scatter": "散点图", "pie": "饼图", "donut": "环形图",
}  # fmt: skip
_ORDERS: Final = (
    (_LARGE, "size", True),
    (_SMALL, "size", False),
    (_NEW, "modified", True),
    (_OLD, "modified", False),
)


def _files(fields: Fields, asked: Asked) -> Answer | None:
    files = list_in(fields, "files")
    folders = list_in(fields, "folders") if fields.get("folders") else []
    if not all(isinstance(each, dict) and "size" in each for each in files):
        return None
    if not files and not folders:
        return Answer(asked.say("Nothing was found.", "没有找到。"))
    ranked = _ranked(files, asked)
    if ranked:
        return Answer(ranked)
    if _SIZE.search(asked.request) or _DATE.search(asked.request):
        return Answer("\n".join(_file_table(files, asked)))
    return Answer(_named(files, folders, asked))


def _named(files: Sequence[Fields], folders: Sequence[str], asked: Asked) -> str:
    paths = [str(each["path"]) for each in files]
    if len(paths) > MOST_NAMES:
        head = asked.say(f"{len(paths)} files:", f"{len(paths)} 个文件：")
        more = len(paths) - MOST_ROWS
        rest = [asked.say(f"(+ {more} more)", f"（还有 {more} 个）")] if more > 0 else []
        said = "\n".join([head, *(f"- {path}" for path in paths[:MOST_ROWS]), *rest])
    else:
        word = asked.say("file" if len(paths) == 1 else "files", "个文件")
        said = f"{len(paths)} {word}{asked.say(': ', '：')}{asked.joined(paths)}" if paths else ""
    if not folders:
        return said
    names = asked.joined([str(each) for each in folders[:MOST_ROWS]])
    word = asked.say("folder" if len(folders) == 1 else "folders", "个文件夹")
    return "\n".join(filter(None, [said, f"{len(folders)} {word}{asked.say(': ', '：')}{names}"]))


def _ranked(files: Sequence[Fields], asked: Asked) -> str:
    """Answers which file is the largest, smallest, newest or oldest."""
    for pattern, key, most in _ORDERS:
        if files and pattern.search(asked.request):
            return _first(_by(files, key, most=most), key, asked)
    return ""


def _by(files: Sequence[Fields], key: str, *, most: bool) -> list[Fields]:
    return sorted(files, key=lambda each: each.get(key) or 0, reverse=most)


def _first(files: Sequence[Fields], key: str, asked: Asked) -> str:
    path, size = files[0]["path"], files[0]["size"]
    what = files[0].get("modified")
    if key == "size":
        what = asked.say(f"{size:,} bytes", f"{size:,} 字节")
    lead = asked.say(f"{path} ({what})", f"{path}（{what}）")
    rows = "\n".join(_file_table(files, asked))
    return lead if len(files) == 1 else f"{lead}\n\n{rows}"


def _file_table(files: Sequence[Fields], asked: Asked) -> list[str]:
    names = ["path", "size", "modified"]
    labels = [asked.say(name, _HEADINGS[name]) for name in names]
    lines = table_in(files[:MOST_ROWS], names, labels)
    left = len(files) - MOST_ROWS
    return [*lines, "", asked.say(f"(+ {left} more)", f"（还有 {left} 个）")] if left > 0 else lines


def _searched(fields: Fields, asked: Asked) -> Answer | None:
    files, text = list_in(fields, "files"), str(fields["text"])
    if not files:
        count, other = fields["searched"], fields.get("not_text")
        unread = asked.say(f", {other} are no text", f"，另有 {other} 个不是文本") if other else ""
        return Answer(
            asked.say(
                f'No file mentions "{text}" ({count} searched{unread}).',
                f"没有文件提到“{text}”（共查找 {count} 个{unread}）。",
            )
        )
    names = asked.joined([str(each["path"]) for each in files[:MOST_ROWS]])
    some = "file mentions" if len(files) == 1 else "files mention"
    said = asked.say(
        f'{len(files)} {some} "{text}": {names}.', f"{len(files)} 个文件提到“{text}”：{names}。"
    )
    found = [
        f"- {each['path']}: {' '.join(str(line['text']).split())[:160]}"
        for each in files
        for line in (list_in(each, "lines") if "lines" in each else [])[:2]
    ]
    return Answer("\n".join([said, *found[:_MOST_LINES]]))


def _counted(fields: Fields, asked: Asked) -> Answer | None:
    files = list_in(fields, "files")
    words, letters = fields.get("words"), fields.get("characters")
    if isinstance(words, int) and _WORDS.search(asked.request):
        said = asked.say(f"{words:,} words", f"{words:,} 个词")
    elif isinstance(letters, int) and _LETTERS.search(asked.request):
        said = asked.say(f"{letters:,} characters", f"{letters:,} 个字符")
    else:
        count = fields["count"]
        said = asked.say(f"{count:,} {'line' if count == 1 else 'lines'}", f"{count:,} 行")
    if len(files) == 1:
        path = files[0]["path"]
        return Answer(asked.say(f"{said} ({path}).", f"{said}（{path}）。"))
    if not files:
        return Answer(asked.say(f"{said}.", f"{said}。"))
    head = asked.say(f"{said} in {len(files)} files:", f"{len(files)} 个文件共 {said}：")
    names = ["path", "count"]
    labels = [asked.say(name, _HEADINGS[name]) for name in names]
    return Answer("\n".join([head, "", *table_in(files[:MOST_ROWS], names, labels)]))


def _compared(fields: Fields, asked: Asked) -> Answer | None:
    if fields["same"] is True:
        return Answer(asked.say("The two are the same.", "两者完全相同。"))
    groups = {
        name: list_in(fields, name) for name in ("added", "removed", "changed") if name in fields
    }
    chinese = {"added": "新增", "removed": "删除", "changed": "修改"}
    counts = [(name, len(each)) for name, each in groups.items() if each]
    english = f"They differ: {', '.join(f'{count} {name}' for name, count in counts)}."
    said = asked.say(
        str(fields.get("summary") or english),
        f"两者不同：{'，'.join(f'{chinese[name]} {count} 处' for name, count in counts)}。"
        if counts
        else "两者内容不同。",
    )
    lines = [said]
    for name, each in groups.items():
        word = asked.say(name, chinese[name])
        colon = asked.say(": ", "：")
        lines += [f"- {word}{colon}{_difference(one)}" for one in each[:MOST_NAMES]]
        if len(each) > MOST_NAMES:
            left = len(each) - MOST_NAMES
            lines.append(asked.say(f"- (+ {left} more {name})", f"- （还有 {left} 处{word}）"))
    return Answer("\n".join(lines))


def _difference(one: Any) -> str:
    if isinstance(one, str):
        return one
    return f"{one['before']} → {one['after']}"


def _duplicates(fields: Fields, asked: Asked) -> Answer | None:
    groups = list_in(fields, "groups")
    if not all("paths" in each for each in groups):
        return None
    if not groups:
        return Answer(asked.say("No duplicate files were found.", "没有重复的文件。"))
    lines = [f"- {' = '.join(map(str, each['paths']))}" for each in groups[:MOST_ROWS]]
    count = len(groups)
    said = asked.say(
        f"{count} {'group' if count == 1 else 'groups'} of duplicate files:",
        f"{count} 组重复的文件：",
    )
    left = count - MOST_ROWS
    rest = [asked.say(f"(+ {left} more)", f"（还有 {left} 组）")] if left > 0 else []
    return Answer("\n".join([said, *lines, *rest]))


def _chart(fields: Fields, asked: Asked) -> Answer:
    words = " ".join(str(fields["description"]).split())[:300]
    found = _DRAWN.fullmatch(words)
    if found and asked.language == "zh":
        kind = _CHARTS.get(found["kind"].casefold(), "图")
        words = (
            f"{kind}：{found['names']}（按 {found['by']}），{found['count']} 个值，"
            f"从 {found['low']} 到 {found['high']}。"
        )
    return Answer(f"{asked.say('Chart: ', '图表：')}{fields['path']}\n{words}", effect=True)


def _written(fields: Fields, asked: Asked) -> Answer:
    rows = fields.get("rows")
    size = [asked.say(f"{rows} rows", f"{rows} 行")] if isinstance(rows, int) else []
    if fields["created"]:
        size.append(asked.say("new", "新文件"))
    elif fields.get("changed", True):
        size.append(asked.say("changed", "已更改"))
    else:
        size.append(asked.say("it was so already", "内容未变"))
    noted = asked.say(f" ({', '.join(size)})", f"（{'，'.join(size)}）")
    return Answer(f"{asked.say('Written: ', '已写入：')}{fields['path']}{noted}", effect=True)


def _replaced(fields: Fields, asked: Asked) -> Answer:
    count = fields["replaced"]
    return Answer(
        asked.say(
            f"Changed: {fields['path']} ({count} {'place' if count == 1 else 'places'})",
            f"已修改：{fields['path']}（{count} 处）",
        ),
        effect=True,
    )


def _moved(fields: Fields, asked: Asked) -> Answer:
    copied = "bytes" in fields
    said = asked.say("Copied: ", "已复制：") if copied else asked.say("Moved: ", "已移动：")
    return Answer(f"{said}{fields['from']} → {fields['path']}", effect=True)


def _deleted(fields: Fields, asked: Asked) -> Answer:
    return Answer(f"{asked.say('Deleted: ', '已删除：')}{fields['path']}", effect=True)


# The fields that tell a shape, and the rule for it; the first that fits is taken.
_RULES: Final[tuple[tuple[frozenset[str], Rule], ...]] = (
    (frozenset({"rows", "columns"}), _rows),
    (frozenset({"rows", "columns"}), _described),
    (frozenset({"path", "description", "created"}), _chart),
    (frozenset({"path", "created"}), _written),
    (frozenset({"path", "replaced"}), _replaced),
    (frozenset({"path", "from"}), _moved),
    (frozenset({"path", "deleted"}), _deleted),
    (frozenset({"count", "unit", "files"}), _counted),
    (frozenset({"text", "files", "searched"}), _searched),
    (frozenset({"same", "added", "removed"}), _compared),
    (frozenset({"groups", "count"}), _duplicates),
    (frozenset({"files"}), _files),
    (frozenset({"value", "text", "exact"}), _computed),
    (frozenset({"days", "parts", "text"}), _difference_of_times),
    (frozenset({"date", "weekday", "days"}), _until),
    (frozenset({"iso", "date", "weekday", "zone"}), _moment),
)
