"""Texts of the command line in English and Chinese."""

from __future__ import annotations

import os
from collections.abc import Mapping

from plansmith.plan.sentence import language_of, texts_under

Words = Mapping[str, str]


def words_for(locale: str) -> Words:
    """Returns the texts of a locale; English for unknown languages."""
    return texts_under("cli.", language_of(locale))


def own_locale(environment: Mapping[str, str] | None = None) -> str:
    """Returns the person's language from the environment, such as `zh-CN`."""
    given = os.environ if environment is None else environment
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    found = next((given[name] for name in names if given.get(name)), "en")
    return found.partition(".")[0].replace("_", "-")
