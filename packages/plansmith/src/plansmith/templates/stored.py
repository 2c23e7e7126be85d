"""Reads the templates of a store, and those that come with Plansmith."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from plansmith.plan.data import Json, parse_json
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import LANGUAGES
from plansmith.ports import Store
from plansmith.templates.template import Template, given_template, make_template

# Every version is a document of this kind. One that is removed stays, so that its number is not
# given again.
KIND: Final = "template"
REMOVED: Final = "removed"


async def usable_templates(store: Store, given: Mapping[str, Plan]) -> dict[str, Template]:
    """Returns the templates that are stored, and those in `given`."""
    kept = sorted(await store.documents(KIND), key=lambda each: each.label)
    known: dict[str, Template] = {}
    for each in kept:
        if each.state != REMOVED:
            fields = cast("dict[str, Json]", parse_json(each.checked_body))
            template = make_template(fields | {"name": each.label, "version": int(each.place)})
            known[template.name] = known[template.full_name] = template
    stored = {each.label for each in kept}
    for name, plan in given.items():
        if name.partition("@")[0] not in stored:
            known[name] = given_template(name, plan)
    return known


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
