"""Reads the templates that come with Plansmith: for any folder with CSV files, offline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from plansmith.plan.sentence import LANGUAGES


@cache
def shipped_fields(language: str) -> Mapping[str, dict[str, Any]]:
    """Returns the fields of each template by its name, with its texts in a language."""
    text = Path(__file__).with_name("shipped.json").read_text(encoding="utf-8")
    found = _in_language(json.loads(text), language if language in LANGUAGES else LANGUAGES[0])
    return cast("Mapping[str, dict[str, Any]]", found)


def _in_language(value: Any, language: str) -> Any:
    """Returns a value in which each text that stands there in all languages stands in one."""
    if isinstance(value, list):
        return [_in_language(each, language) for each in cast("Sequence[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if fields.keys() == set(LANGUAGES):
        return fields[language]
    return {name: _in_language(each, language) for name, each in fields.items()}
