"""Turns bytes of files and pages into text: by the mark they begin with, or by a guess."""

from __future__ import annotations

import codecs
import re
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_USUAL_CHINESE: Final = re.compile("[\u4e00-\u9fff\u3000-\u3002\uff00-\uff60]")


def marked(data: bytes) -> str:
    """Returns the encoding that the first bytes tell; empty if they tell none."""
    return next((name for mark, name in _MARKS if data.startswith(mark)), "")


def decoded(data: bytes) -> tuple[str, str]:
    """Returns the text of bytes, and their encoding where it is only a guess."""
    mark = marked(data)
    try:
        # Two bytes a sign: a file may be cut between them.
        return data.decode(mark or "utf-8", "replace" if "16" in mark else "strict"), ""
    except UnicodeDecodeError:
        pass
    text = data.decode("gb18030", "replace")
    # Chinese text of older programs. Other bytes read so give rare signs between Latin letters.
    if len(_USUAL_CHINESE.findall(text)) > 0.3 * len(text) and "\ufffd" not in text:
        return text, "GB18030"
    return data.decode("windows-1252", "replace"), "Windows-1252"
