"""Reads rules for plans from words: "at most 2 steps", "only use web_search", 最多两步."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from plansmith.check.constraints import Constraint
from plansmith.lazy import lazy_pattern
from plansmith.plan.capability import Effect
from plansmith_planner.language import phrases
from plansmith_planner.language.characters import READ_BY_RULES
from plansmith_planner.language.numbers import HAN_NUMBER, SPELT, number

_NUMBERS: Final = {"han_number": HAN_NUMBER, "spelt": "|".join(SPELT)}
_FORBIDS: Final = lazy_pattern(phrases("rule_forbids"), re.IGNORECASE)
_REQUIRES: Final = lazy_pattern(phrases("rule_requires"), re.IGNORECASE)
_ONLY: Final = lazy_pattern(phrases("rule_only"), re.IGNORECASE)
_SPLIT_NAMES: Final = lazy_pattern(phrases("rule_split_names"))
_MOST: Final = lazy_pattern(phrases("rule_most", **_NUMBERS), re.IGNORECASE)
# In a request the same words may describe a thing ("a porch with at most two steps"), so that in
# English they count only at the end of a clause, behind a word that asks for them.
_MAX_ASKED: Final = lazy_pattern(phrases("rule_max_asked", **_NUMBERS), re.IGNORECASE)
_READ_ONLY: Final = lazy_pattern(phrases("rule_read_only"), re.IGNORECASE)
_QUOTES: Final = lazy_pattern(phrases("rule_quotes"), re.DOTALL | re.MULTILINE)
_CLAUSE: Final = lazy_pattern(phrases("rule_clause"))


def read_constraint(text: str, *, hard: bool = True) -> Constraint:
    """Reads a rule from a sentence; understands a few plain forms, others stay prose."""
    sentence = text.strip().rstrip(".。!！")
    rule = Constraint(text=text, hard=hard)
    if _READ_ONLY.fullmatch(sentence):
        return rule.replace(forbid_effects=(Effect.WRITE, Effect.FINAL))
    if found := _MOST.fullmatch(sentence):
        return rule.replace(**_bound(found))
    return rule.replace(**_about_tools(sentence))


def _about_tools(sentence: str) -> dict[str, tuple[str, ...]]:
    """Returns which tools a sentence forbids, requires, or allows alone."""
    if found := _ONLY.fullmatch(sentence):
        names = _SPLIT_NAMES.split(found[1] or found[2])
        return {"only_tools": tuple(name.strip("`\"'“”‘’「」 ") for name in names)}
    for pattern, field in ((_FORBIDS, "forbid_tools"), (_REQUIRES, "require_tools")):
        if found := pattern.fullmatch(sentence):
            return {field: (found[1] or found[2],)}
    return {}


def _bound(found: re.Match[str]) -> dict[str, int]:
    """Returns the largest number of steps or calls that a sentence allows."""
    count, unit = (each for each in found.groups() if each is not None)
    most = 1 if count.lower() == "a single" else number(count)
    is_steps = unit.lower().startswith(("step", "步"))
    return {"max_steps": most} if is_steps else {"max_calls": most}


def asked_constraints(request: str, names: Collection[str]) -> list[Constraint]:
    """Returns the rules in a person's request that can be checked, all of them hard.

    What is said of tools counts if it names a known tool or agent, so that ordinary sentences
    ("only use official figures") stay what they are.
    """
    rules: list[Constraint] = []
    known = [name.lower() for name in names]
    for clause in _CLAUSE.split(_QUOTES.sub(" ", request[:READ_BY_RULES])):
        sentence = clause.strip()
        if found := _MAX_ASKED.search(sentence):
            rules.append(Constraint(text=found[0].strip()).replace(**_bound(found)))
        about = _about_tools(sentence)
        patterns = [each.lower() for listed in about.values() for each in listed]
        if patterns and all(any(fnmatchcase(name, each) for name in known) for each in patterns):
            rules.append(Constraint.model_validate({"text": sentence, **about}))
    return rules
