"""Texts of `--help` in the person's language: the code has the English, a table the Chinese."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from plansmith.cli.ui.own_locale import own_locale

# What argparse says of wrong arguments, and the same in Chinese.
_ERRORS: Final = (
    (r"the following arguments are required: (.*)", r"缺少参数：\1"),
    (r"one of the arguments (.*) is required", r"需要其中一个参数：\1"),
    (r"unrecognized arguments: (.*)", r"不认识的参数：\1"),
    (r"argument (.*?): not allowed with argument (.*)", r"参数 \1：不能与 \2 一起使用"),
    (
        r"argument (.*?): invalid choice: (.*?) \((?:choose from )(.*)\)",
        r"参数 \1：不能是 \2，可选 \3",
    ),
    (r"argument (.*?): expected one argument", r"参数 \1：需要一个值"),
    (r"argument (.*?): expected at least one argument", r"参数 \1：至少需要一个值"),
    (r"argument (.*?): expected (\d+) arguments", r"参数 \1：需要 \2 个值"),
    (r"argument (.*?): ignored explicit argument (.*)", r"参数 \1：不需要值 \2"),
    (r"argument (.*?): invalid (?:int|float) value: (.*)", r"参数 \1：\2 不是数字"),
    (r"argument (.*?): (.*) is no whole number", r"参数 \1：\2 不是整数"),
    (r"argument (.*?): (.*) is not 1 or more", r"参数 \1：\2 小于 1"),
    (r"ambiguous option: (.*) could match (.*)", r"选项 \1 不明确，可能是 \2"),
)


def is_chinese() -> bool:
    """Whether the person reads Chinese."""
    return own_locale().lower().startswith("zh")


def help_text(text: str) -> str:
    """Returns a text of the help in the person's language."""
    return chinese_texts().get(text, text) if is_chinese() else text


def error_of_arguments(message: str) -> str:
    """Returns what is wrong with the arguments, in the person's language."""
    if is_chinese():
        for pattern, chinese in _ERRORS:
            if found := re.fullmatch(pattern, message):
                return found.expand(chinese)
    return message


@cache
def chinese_texts() -> Mapping[str, str]:
    """Returns the Chinese of every English text of the help."""
    path = Path(__file__).with_name("help_zh.json")
    texts: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return texts
