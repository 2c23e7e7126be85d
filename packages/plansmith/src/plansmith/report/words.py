"""The texts of reports, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.sentence import language_of, texts_under

Words = Mapping[str, str]


def words_for(locale: str) -> Words:
    """Returns the report texts of a language, or the English ones."""
    return texts_under("report.", language_of(locale))
