"""Greetings, thanks and the question what can be done here, and courtesies around a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final

from plansmith.lazy import lazy_pattern

_GREETING: Final = lazy_pattern(
    r"(?:(?:hi|hello|hey|howdy|greetings|good (?:morning|afternoon|evening|day))"
    r"(?:,? (?:there|all|everyone|plansmith|again|team))?"
    r"(?:[,.!]? how are you(?: doing)?(?: today)?)?"
    r"|how are you(?: doing)?(?: today)?"
    r"|(?:你好|您好|嗨|哈喽|大家好|早上好|早安|早|上午好|中午好|下午好|晚上好|在吗)(?:[啊呀]|plansmith)?)"
    r"\s*[!.?~！。？～]*",
    re.IGNORECASE,
)
_THANKS: Final = lazy_pattern(
    r"(?:(?:many |ok,? |great,? |perfect,? )?(?:thanks|thank you|thx|cheers)"
    r"(?: (?:a lot|so much|very much|again|for (?:your|the) help|plansmith))?"
    r"|(?:好的?[,，]?)?(?:非常|太|十分)?(?:谢谢|多谢|感谢)(?:你|您|啦|了|帮忙|你的帮助)?)\s*[!.~！。～]*",
    re.IGNORECASE,
)
_FAREWELL: Final = lazy_pattern(
    r"(?:(?:good)?bye(?: bye)?|see you(?: later| soon| tomorrow)?|good night|再见|拜拜|晚安|回头见)"
    r"\s*[!.~！。～]*",
    re.IGNORECASE,
)
_ABOUT: Final = lazy_pattern(
    r"(?:(?:please |hi,? |hello,? )?(?:what (?:can|do|could) you do(?: for me| here)?"
    r"|what are you(?: able to do| good at| for)?|who are you|how can you help(?: me)?"
    r"|what can i (?:ask|do)(?: you)?(?: here| for)?|what is plansmith|help(?: me)?"
    r"|what are your (?:abilities|capabilities|skills))"
    r"|(?:你好?[,，]?)?(?:你|您)?(?:能|会|可以)(?:做|干|帮我做)?(?:些|点)?(?:什么|啥|哪些事)"
    r"|(?:你|您)(?:是谁|是什么|有什么(?:功能|用)|能帮我(?:做)?什么)|(?:有什么|有哪些)功能|帮助|怎么用)"
    r"\s*[!.?！。？]*",
    re.IGNORECASE,
)
# The beginning of a tool's name, and what it is good for in English and Chinese.
_ABILITIES: Final = (
    (
        "files.",
        "read, search and compare the files of this folder",
        "阅读、搜索和比较这个文件夹里的文件",
    ),
    ("tables.", "answer questions about its tables", "回答表格里的问题"),
    ("charts.", "draw charts", "画图表"),
    ("files.write", "write files", "写文件"),
    ("sql.", "query databases", "查询数据库"),
    ("web.", "fetch web pages", "读取网页"),
    ("calculator.", "calculate and convert units", "计算和换算单位"),
    ("time.", "tell times and dates", "查询时间和日期"),
)


def small_talk(text: str, tools: Collection[str], *, chinese: bool) -> str:
    """Returns the answer to small talk; empty if a request is anything else.

    Where none of the built-in tools is, somebody else's planner answers in its own way.
    """
    able = _abilities(tools, chinese=chinese)
    said = " ".join(text.replace("’", "'").split())
    if not able:
        return ""
    if _THANKS.fullmatch(said):
        return "不客气。" if chinese else "You are welcome."
    if _FAREWELL.fullmatch(said):
        return "再见。" if chinese else "Goodbye."
    if _GREETING.fullmatch(said):
        return f"你好！{able}" if chinese else f"Hello! {able}"
    return able if _ABOUT.fullmatch(said) else ""


def _abilities(tools: Collection[str], *, chinese: bool) -> str:
    """Says in one sentence what can be done with the tools; empty if none of ours is there."""
    known = [
        zh if chinese else en
        for start, en, zh in _ABILITIES
        if any(name.startswith(start) for name in tools)
    ]
    if not known:
        return ""
    if chinese:
        return f"我可以{'，'.join(known)}。"
    joined = f"{', '.join(known[:-1])} and {known[-1]}" if len(known) > 1 else known[0]
    return f"I can {joined}."


_WIDE: Final = {0xFF01 + place: 0x21 + place for place in range(94)} | {0x3000: 0x20}
_OPENING: Final = re.compile(
    r"(?:please|pls|hey|hi|hello|ok|okay|so|quick question|plansmith|(?:can|could|would) you"
    r"(?: please)?(?: (?:quickly )?(?:tell me|calculate|compute|work out|convert(?=\s)))?"
    r"|(?:do|would) you (?:happen to )?know|tell me|let me know|i(?:'d| would) like to know"
    r"|i (?:want|need) to know|any idea"
    r"|请问(?:一下)?|请(?:你|您)?|麻烦(?:你|您)?|劳驾|你好|您好|(?:你|您)?能不能|可以"
    r"|(?:你|您)?知道|(?:你|您)?(?:能|可以)?(?:帮我|帮忙|给我|替我|告诉我)(?:看看|查一下|看一下|说一下)?"
    r"|我想知道|想问(?:一下)?|问一下|查一下)"
    r"(?:\s*[,:，：]\s*|\s+|(?<=[\u4e00-\u9fff]))",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    r"(?<!\s)(?:\s*+(?:[,，]?\s*+(?:please|pls|thanks|thank you|谢谢(?:你|您)?|多谢)|[?.。？！=])"
    r"|(?<![\d)])!|[呢呀啊哦])$",
    re.IGNORECASE,
)
# "(tell me) what time it is", as the question itself.
_INDIRECT: Final = (
    (
        re.compile(r"^(what (?:time|day|date|week)(?: of the week)?) it is\b", re.IGNORECASE),
        r"\1 is it",
    ),
    (re.compile(r"^what the (time|date) is\b", re.IGNORECASE), r"what is the \1"),
    (re.compile(r"^what (\S.*\S) (is|are|was)$", re.IGNORECASE), r"what \2 \1"),
    (re.compile(r"^(how many days) (?:there are|it is)\b", re.IGNORECASE), r"\1"),
)


def without_courtesies(text: str) -> str:
    """Returns a request without courtesies around it, on one line, with narrow digits and signs."""
    narrow = (str(unicodedata.decimal(each, each)) for each in text.translate(_WIDE))
    bare = " ".join("".join(narrow).replace("’", "'").split())
    for _ in range(8):
        opening = _OPENING.match(bare)
        shorter = bare[opening.end() :] if opening else _CLOSING.sub("", bare)
        # Nothing but courtesy is small talk, and read elsewhere.
        if not shorter or shorter == bare:
            break
        bare = shorter
    for pattern, direct in _INDIRECT:
        bare = pattern.sub(direct, bare)
    return bare
