"""Deeds: whether a request asks for something to be changed, by its words."""

from __future__ import annotations

import re
from typing import Final

DEEDS: Final = "write|save|append|add|put|draw|plot|send|e?mail|post|replace|create|book"
_CHANGES: Final = re.compile(
    rf"\b(?:{DEEDS}|set|update|change|edit|delete|remove|chart|graph|note|remind|order|buy|upload"
    r"|make|turn|start|stop|cancel|schedule|call|text|pay|print|record|store|export|copy|move"
    r"|rename|clear|clean|wipe|translate|summari[sz]e)\w*\b"
    "|写|存|画|发|加|换|改|建|删|订|提醒|复制|移动|导出|生成|制作|打开|关闭|设置|记录|打印|买",
    re.IGNORECASE,
)


def asks_for_change(text: str) -> bool:
    """Whether the words may ask for a change; what they do not mention, nobody asked for."""
    return bool(_CHANGES.search(text))
