"""The words of a report, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.sentence import language_of, texts_under

Words = Mapping[str, str]


def words_for(locale: str) -> Words:
    """The words of a language; English where there is no table for it."""
    return texts_under("report.", language_of(locale))
