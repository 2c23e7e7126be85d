"""Verbs: those of tools that find out or change something, and those that a request begins with."""

from __future__ import annotations

import re
from typing import Final

from plansmith.check.names import words
from plansmith.lazy import lazy_pattern
from plansmith_planner.language import phrases, word_list
from plansmith_planner.language.characters import READ_BY_RULES

_READING: Final = word_list("reading")
_ACTING: Final = word_list("acting")
_READING_ZH: Final = ("查", "获取", "搜索", "检索", "计算", "读取", "列出", "分析")
# How a person begins an order.
ORDERS: Final = word_list("orders")
ORDERS_ZH: Final = phrases("orders_zh")
# What words alone cannot do, at the beginning of a clause in English and anywhere in Chinese.
_CHANGES: Final = lazy_pattern(phrases("orders_change"), re.IGNORECASE | re.MULTILINE)


def orders_change(text: str) -> bool:
    """Whether a text orders something that an answer in words would only claim to have done."""
    return _CHANGES.search(text[:READ_BY_RULES]) is not None


def reads(tool: str) -> bool:
    """Whether a tool, by its name, only finds something out."""
    if tool.startswith(_READING_ZH):
        return True
    name_words = words(tool)
    # After a leading verb most words are nouns: `get_order`, `check_file`.
    if name_words[:1] and name_words[0] in _READING:
        return "and" not in name_words
    return bool(_READING.intersection(name_words)) and not _ACTING.intersection(name_words)


# Words in the names of tools that search the world.
_SEARCH_WORDS: Final = word_list("searching")
_SEARCH_ZH: Final = ("搜索", "检索", "搜一下")


def says_it_searches(tool: str) -> bool:
    """Whether a tool, by its name, searches the world."""
    return not _SEARCH_WORDS.isdisjoint(words(tool)) or any(each in tool for each in _SEARCH_ZH)
