"""What the built-in tools note beside a result, in the language of an answer."""

from __future__ import annotations

import re
from typing import Final

from plansmith.report.result_text import Language

# Notes are written in English by the tools; those of other people's tools stay as they are.
_CHINESE: Final = """
only the first ([\\d,]+) rows are given: there are more | 只给出前 {0} 行，还有更多
only ([\\d,]+) rows are given: all are too long together | 只给出 {0} 行：全部给出会太长
([\\d,]+) values were cut to ([\\d,]+) letters | {0} 个值截短为 {1} 个字符
columns without a name.* were renamed | 没有名称或名称重复的列已重新命名
(.+) holds texts: they are in the order of the alphabet | {0} 是文本，按字母顺序排列
left out: ([\\d,]+) rows? with the same (.+) as the last one, (.+) | 未列出：另有 {0} 行的 {1} 与最后一行相同（{2}）
left out: ([\\d,]+) rows? without (.+) | 未计入：{0} 行没有 {1}
some groups of (.+) differ in letter case alone | {0} 的某些分组仅大小写不同
(.+) is not in UTF-8: read as Windows-1252; set encoding if that is wrong | {0} 不是 UTF-8，按 Windows-1252 读取；如有误请指定编码
([\\d,]+) rows have more cells than the header: see the columns column_… | {0} 行的单元格多于表头：见 column_… 列
([\\d,]+) rows have fewer cells than the header: what is missing is empty | {0} 行的单元格少于表头：缺少的为空
(.+): (.+) is read as (.+), (.+) is read as missing | {0}：{1} 读作 {2}，{3} 视为缺失
(.+): (.+) is read as missing | {0}：{1} 视为缺失
(.+): (.+) is read as (.+) | {0}：{1} 读作 {2}
([\\d,]+) texts that a spreadsheet would run begin with ' now | {0} 处会被电子表格当作公式的文本前加了 '
(.+): the first ([\\d,]+) of ([\\d,]+) characters | {0}：仅前 {1} 个字符（共 {2} 个）
([\\d,]+) files were not looked at, from (.+) on | 从 {1} 起有 {0} 个文件没有查看
([\\d,]+) more files are counted, not listed | 另有 {0} 个文件已计入但未列出
files of ([\\d,]+) bytes and more were too many to compare | {0} 字节及以上的文件太多，没有比较
lines with (.+) count too | 含有 {0} 的行也计入
left out: there is no (.+) | 未计入：没有 {0}
left out: (.+) | 未计入：{0}
there is no (.+): the last day of the month is taken | 没有 {0}：取该月最后一天
next \\w+ is taken for the first one after today, (.+); the one after it is (.+) | 取今天之后的第一个，即 {0}；再下一个是 {1}
"""  # noqa: E501 - a pattern and its words stand on one line


def _patterns() -> list[tuple[re.Pattern[str], str]]:
    rows = (line.split(" | ") for line in _CHINESE.strip().splitlines())
    return [(re.compile(pattern, re.DOTALL), words) for pattern, words in rows]


_PATTERNS: Final = _patterns()
_LONGEST: Final = 400  # letters of a note that a built-in tool writes


def in_language(note: str, language: Language) -> str:
    """Returns a note in a language; one of no built-in tool stays as it is."""
    if language == "en" or len(note) > _LONGEST:
        return note
    for pattern, words in _PATTERNS:
        found = pattern.fullmatch(note)
        if found:
            return words.format(*found.groups())
    return note
