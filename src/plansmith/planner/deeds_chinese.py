"""Deeds in Chinese words, one sentence at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

Kind = Literal["save", "draw", "send", "rename", "delete", "order", "pay", "cancel"]

_NEAR: Final = 20  # letters before a verb that say whether it is meant
_FAR: Final = 100
_QUESTION: Final = re.compile("如何|怎么|怎样|怎么办|为什么|是否|能不能告诉|可以吗|会不会|多少钱")
_DENIED: Final = re.compile("(?:不要|别|不用|无需|不必|先不|切勿|请勿|不需要|不想)[^，,]{0,4}$")
# What has been done, or is told of, asks for nothing: 已发送的邮件, 保存在 … 里的文件.
_TOLD: Final = re.compile("(?:已|已经|曾|刚|被|我们|他|她|上次|之前|[的所])$")
_ABOUT_MONEY: Final = (
    "宝|方式|记录|状态|交易|的|信息|金额|平台|成功|后|密码|页面"
    "|能力|政策|进度|流程|申请|详情|情况|吗"
)
_STORE: Final = "(?:保存|另存|存储|存|写入|写|导出|输出)"
_SOME_FILE: Final = "[^，。]{0,12}(?:文件|“…”|[\\w-]{1,60}\\.\\w)"
_PATTERNS: Final[tuple[tuple[Kind, str], ...]] = (
    ("save", f"{_STORE}(?:为|到|成|至|入|进|在|一份)+(?={_SOME_FILE})"),
    ("save", "(?:保存|另存)(?:结果|它|下来|起来|这[些个份张])"),
    (
        "draw",
        "(?:画|绘制|绘|生成|制作|做)(?:出|成)?[^，。]{0,12}(?:图表|柱状图|折线图|饼图|散点图|条形图|一[张幅个]图)",
    ),
    ("send", "(?:发送|发|寄|转发)(?:一[封条个份])?[^，。]{0,8}(?:邮件|消息|短信|微信|信息)"),
    ("send", "(?:发送|发|寄|转发)(?:一[封条个份])?给(?!我)"),
    ("rename", "重命名|改名为|更名为"),
    (
        "delete",
        "(?:删除|删掉|移除)[^，。]{0,10}(?:文件|邮件|日程|会议|提醒|账户|账号|照片|任务|[\\w-]{1,60}\\.\\w)",
    ),
    ("order", "(?:预订|预定|订购|订)(?:一|两|三|\\d)?[张间个份束桌]"),
    ("order", "(?:购买|下单)[^，。了过]{0,6}[一两三\\d]"),
    ("pay", f"(?:支付|付款给|转账|退款|退还)(?!{_ABOUT_MONEY})"),
    ("cancel", "取消[^，。]{0,10}(?:订单|预订|预约|会议|订阅|机票|酒店|闹钟)"),
)
_RULES: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern)) for kind, pattern in _PATTERNS
)


def chinese_deeds(
    sentence: str, file: re.Pattern[str]
) -> Iterator[tuple[Kind, bool, tuple[str, ...], str]]:
    """Every deed that a sentence speaks of: its kind, whether it is wanted, files, words."""
    if _QUESTION.search(sentence):
        return
    for kind, pattern in _RULES:
        for found in pattern.finditer(sentence):
            before = sentence[max(found.start() - _NEAR, 0) : found.start()]
            denied = bool(_DENIED.search(before))
            is_past = sentence.startswith(("了", "过"), found.end()) or found[0].endswith("了")
            if not denied and (is_past or _TOLD.search(before)):
                continue
            tail = re.split("[，,]", sentence[found.end() : found.end() + _FAR])[0]
            named = file.search(tail) if kind in ("save", "delete") else None
            if kind == "delete":
                named = file.search(f"{found[0]}{tail}")
            files = (_name(named[0]),) if named else ()
            yield kind, not denied, files, f"{found[0]}{tail}"[:40].strip()


def _name(found: str) -> str:
    """A file's name without the words that run into it: 名为结果.csv is 结果.csv."""
    return re.sub("^(?:删除|删掉|移除|文件|名为|叫做?|一个|为|到|的)+", "", found)
