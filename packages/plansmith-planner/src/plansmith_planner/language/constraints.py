"""Reads rules for plans from words: "at most 2 steps", "only use web_search", 最多两步."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from plansmith.check.constraints import Constraint
from plansmith.lazy import lazy_pattern
from plansmith.plan.capability import Effect
from plansmith_planner.language.characters import READ_BY_RULES
from plansmith_planner.language.numbers import HAN_NUMBER, SPELT, number

_SUBJECT: Final = r"[`\"'“‘「]?([\w.:/*?-]+)[`\"'”’」]?"
# What joins two names is in neither of them: else a list could be split in 2**n ways.
_NAME: Final = r"[`\"'“‘「]?(?:(?![和或])[\w.:/*?-])+[`\"'”’」]?"
_NAMES: Final = rf"({_NAME}(?:(?:, (?:and |or )?| and | or |、|和|或){_NAME})*)"
_FORBIDS: Final = lazy_pattern(
    rf"(?:never|do not|don't|must not|no) (?:use|call|run|invoke)? ?(?:the tool )?{_SUBJECT}"
    rf"|(?:不要|不得|禁止|请勿|不能)(?:使用|调用|运行)(?:工具)? ?{_SUBJECT}",
    re.IGNORECASE,
)
_REQUIRES: Final = lazy_pattern(
    rf"(?:always|must) (?:use|call|run|invoke) (?:the tool )?{_SUBJECT}"
    rf"|(?:必须|务必|一定要)(?:使用|调用|运行)(?:工具)? ?{_SUBJECT}",
    re.IGNORECASE,
)
_ONLY: Final = lazy_pattern(
    r"(?:please |you may |you can |and |but )*"
    r"(?:only (?:use|call)|(?:use|call) only|use nothing but)"
    rf" (?:the )?(?:tools? |agents? )?{_NAMES}(?: tools?| agents?)?"
    r"|(?:请|并且?|但)?(?:只|仅)(?:能|可以|可|准|允许)?(?:使用|调用|用)"
    rf"(?:工具|代理)? ?{_NAMES} ?(?:这个)?(?:工具|代理)?",
    re.IGNORECASE,
)
_SPLIT_NAMES: Final = lazy_pattern(r", (?:and |or )?| and | or |、|和|或")
_NUMBER: Final = rf"(\d{{1,4}}|a single|{'|'.join(SPELT)})"
_UNIT: Final = r"(steps?|(?:tool |function |agent )?calls?)"
_MAX_OF: Final = (
    r"(?:at most|at the most|no more than|not more than|up to|a maximum of|maximum|max\.?)"
)
_MAX_EN: Final = (
    rf"(?:{_MAX_OF} {_NUMBER} {_UNIT}|{_NUMBER} {_UNIT} (?:at most|at the most|or fewer|or less))"
    r"(?: in total| altogether| overall)?"
)
_MAX_ZH: Final = (
    rf"(?:最多|不超过|至多|不能超过|不得超过|不要超过)(?:只?能|可以)?(?:使用|执行|调用|用|分)?"
    rf" ?({HAN_NUMBER}) ?个?(步骤?|次(?:工具)?调用|次工具|个?工具调用)"
    rf"|({HAN_NUMBER}) ?个?(步骤?|次(?:工具)?调用)以内"
)
_MOST: Final = lazy_pattern(
    rf"(?:please )?(?:use |make |take |plan |have )?{_MAX_EN}|(?:请|只)?(?:{_MAX_ZH})",
    re.IGNORECASE,
)
# In a request the same words may describe a thing ("a porch with at most two steps"), so that in
# English they count only at the end of a clause, behind a word that asks for them.
_MAX_ASKED: Final = lazy_pattern(
    r"(?:^(?:please |and |but |with |in |use |using |make |take |plan )*"
    r"|\b(?:in|within|using|use|take|make|needing|a plan (?:of|with|in)) )"
    rf"{_MAX_EN}$|(?:{_MAX_ZH})(?!路|之遥)",
    re.IGNORECASE,
)
_READ_ONLY: Final = lazy_pattern(
    r"(?:read[ -]only|never write|no writes|do not change anything|只读|不要修改任何内容)",
    re.IGNORECASE,
)
_QUOTES: Final = lazy_pattern(
    r"```.*?```|\"[^\"\s]*[^\"\n\S][^\"\n]*\"|“[^“”]*”|^[ \t]*>[^\n]*$", re.DOTALL | re.MULTILINE
)
_CLAUSE: Final = lazy_pattern(
    r"[,;:!?](?=\s|$)|\.(?=\s|$)|[，。；：！？\n]|\s[-–—]\s| but (?=only|use)"
)


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
