"""Chinese characters and scripts without spaces; how much of a request rules read."""

from __future__ import annotations

import re
from typing import Final

# For the inside of `[…]` in a pattern.
HAN_RANGE: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
CJK_RANGE: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
HAN: Final = re.compile(f"[{HAN_RANGE}]")
# Letters of a request that rules look at; what comes after them is pasted data.
READ_BY_RULES: Final = 4_000
