"""Answers by rules about files: lists, searches, counts, comparisons, and what was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

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
FILE_RULES: Final[tuple[tuple[frozenset[str], Rule], ...]] = (
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
)
