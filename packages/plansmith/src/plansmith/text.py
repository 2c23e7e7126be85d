"""Makes text safe to show: escapes hidden characters, and shortens."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from plansmith.lazy import lazy_pattern

WIDTH: Final = 160
_FORMULA: Final = frozenset("=+-@")
_CONTROL: Final = frozenset("\t\r\n")
_LINE_ENDS: Final = re.compile(r"\r\n?")
SURROGATES: Final = re.compile("[\ud800-\udfff]")
# Characters that a reader does not see: control and format characters, line separators, fillers
# and tags. Joiners are not among them: Persian, Indian scripts and emoji need them.
_HIDDEN: Final = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def is_formula(text: str) -> bool:
    """Tells whether a spreadsheet may take a cell for a formula, after spaces or in full width."""
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])
    return first in _FORMULA or text[:1] in _CONTROL


def safe(text: str) -> str:
    """Returns a text as one line without terminal control or hidden characters."""
    # Most texts are plain; looking at each letter takes a hundred times as long.
    return text if text.isprintable() else "".join(map(_safe_letter, text))


def _safe_letter(letter: str) -> str:
    if letter in "\n\t":
        return " "
    # Control and format characters: escape sequences, bidirectional overrides, zero width.
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return f"\\u{ord(letter):04x}" if hidden else letter


def visible(text: str) -> str:
    """Returns a text with hidden characters escaped; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    plain = SURROGATES.sub("\ufffd", _LINE_ENDS.sub("\n", text))
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)


def clip(text: str, width: int = WIDTH) -> str:
    """Shortens a text to a width; a cut text ends with `…`."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
