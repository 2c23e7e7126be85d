"""Secrets: a plan names them as `${secret:name}`; the value is put in at the call alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.refs import escape_text

_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")


def secret_names(template: Json) -> list[str]:
    """The secrets that a template names, each once."""
    return list(dict.fromkeys(_names(template)))


def _names(template: Json) -> Iterator[str]:
    if isinstance(template, str):
        yield from _SECRET.findall(template)
    elif isinstance(template, list):
        for child in template:
            yield from _names(child)
    elif isinstance(template, dict):
        for child in template.values():
            yield from _names(child)


def put_secrets(template: Json, values: Mapping[str, str]) -> Json:
    """The template with the values of its secrets, in which nothing is taken for a reference.

    Only what the plan says is looked at: what references bring is filled in afterwards.
    """
    if isinstance(template, str):
        return _SECRET.sub(lambda found: escape_text(values[found[1]]), template)
    if isinstance(template, list):
        return [put_secrets(child, values) for child in template]
    if isinstance(template, dict):
        return {key: put_secrets(child, values) for key, child in template.items()}
    return template
