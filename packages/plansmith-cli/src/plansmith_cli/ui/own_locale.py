"""The person's language: that of a flag or a request, else that of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pkgutil import resolve_name
from typing import Final

# What `--lang` names, or the language of the request if that is not English.
SPOKEN: Final = ContextVar("SPOKEN", default="")


def own_locale(environment: Mapping[str, str] | None = None) -> str:
    """Returns the person's language, such as `zh-CN`."""
    if environment is None and SPOKEN.get():
        return SPOKEN.get()
    given = os.environ if environment is None else environment
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    found = next((given[name] for name in names if given.get(name)), "en")
    return found.partition(".")[0].replace("_", "-")


def speak(lang: str | None, request: str | None) -> None:
    """Speaks the language that is named from now on, else that of the request."""
    spoken = lang or ""
    if request and not spoken and not request.isascii():
        found: str = resolve_name("plansmith_planner.language.locales:locale_of")(request)
        spoken = "" if found.startswith("en") else found
    SPOKEN.set(spoken)
