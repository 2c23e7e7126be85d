"""Text for people: made safe to print on a terminal, cut to a width, and searched for Chinese."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Ranges for the inside of `[…]` in a pattern: Chinese characters, and all scripts without spaces.
HAN_RANGE: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
CJK_RANGE: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
HAN: Final = re.compile(f"[{HAN_RANGE}]")
WIDTH: Final = 160


def safe(text: str) -> str:
    """A text on one line in which nothing steers a terminal or hides what it says."""
    # Most texts are plain: looking at each letter takes a hundred times as long.
    return text if text.isprintable() else "".join(map(_safe_letter, text))


def _safe_letter(letter: str) -> str:
    if letter in "\n\t":
        return " "
    # Control and format characters: escape sequences, bidirectional overrides, zero width.
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return f"\\u{ord(letter):04x}" if hidden else letter


def clip(text: str, width: int = WIDTH) -> str:
    """A text cut to a width, with a mark that says so."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
