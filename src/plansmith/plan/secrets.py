"""Secrets: a plan names them as `${secret:name}`; the value is put in at the call alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plansmith.plan.data import Json, leaves, map_leaves
from plansmith.plan.refs import escape_text

_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")


def secret_names(template: Json) -> list[str]:
    """The secrets that a template names, each once."""
    texts = (each for each in leaves(template) if isinstance(each, str))
    return list(dict.fromkeys(name for text in texts for name in _SECRET.findall(text)))


def put_secrets(template: Json, values: Mapping[str, str]) -> Json:
    """The template with the values of its secrets, in which nothing is taken for a reference.

    Only what the plan says is looked at: what references bring is filled in afterwards.
    """

    def put(leaf: Json) -> Json:
        if not isinstance(leaf, str):
            return leaf
        return _SECRET.sub(lambda found: escape_text(values[found[1]]), leaf)

    return map_leaves(template, put)
