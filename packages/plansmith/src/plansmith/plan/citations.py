"""Citations of steps in a reply, `[step:ID]`: for the report, not part of the text itself."""

from __future__ import annotations

from typing import Final

from plansmith.lazy import lazy_pattern

_MARK: Final = "[step:"
CITATION: Final = lazy_pattern(r"\[step:([^\[\]\n]{1,400})\]")
_WITH_SPACE: Final = lazy_pattern(r"(?<![ \t])[ \t]*+\[step:[^\[\]\n]{1,400}\]")


def without_citations(text: str) -> str:
    """Returns a reply as a person or another step uses it: without the marks of its sources."""
    return _WITH_SPACE.sub("", text) if _MARK in text else text
