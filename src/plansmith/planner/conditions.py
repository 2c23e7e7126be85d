"""Finds conditions of a request ("if the total is above 500, …") that a plan does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from plansmith.check.names import reads
from plansmith.lazy import lazy_pattern
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.graph import downstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, MapStep, PlanStep, ToolStep
from plansmith.planner.intent import sentences_without_quotes
from plansmith.text import HAN, clip

DROPPED: Final = "PS506"
_SHOWN: Final = 80
_NEAR: Final = 250  # letters before a condition that say whether it is one
# A condition, up to the end of its clause; the dot in `a.csv` or `0.5` does not end it.
_ENGLISH: Final = lazy_pattern(
    r"\b(?:only if|unless|if|when(?=(?:[^.;]|\.(?=\S)){,200}?\bthen\b))\s+(?:[^,.;:]|[,.:](?=\w))+",
    re.IGNORECASE,
)
_CHINESE: Final = lazy_pattern(
    r"(?:如果|假如|假若|倘若|要是|只要|除非|只有(?=.{0,200}?才)|(?<![宛仿般恍似假倘])若(?!干|何|隐|即))[^，。；：,;]+"
)
# Politeness and figures of speech: "if possible", "if any", "as if".
_POLITE: Final = lazy_pattern(
    r"(?:only )?if\s+(?:(?:it(?:'s| is)|that(?:'s| is)|at all)\s+)?(?:possible|any|needed|necessary"
    r"|required|so|not|applicable|available|in doubt|unsure|helpful|useful|relevant|appropriate"
    r"|desired|known|and when|I may|I remember|(?:that |it )?(?:helps|works|makes sense)"
    r"|there (?:is|are) any\b|you(?:'d| would)? (?:can|could|like|want|wish|need|have|think|find"
    r"|don't|do not|must|may|will|know|are (?:not )?(?:sure|unsure|able|done|ready))"
    r"|anything|something (?:is )?(?:un|not )|(?:un)?clear)\b",
    re.IGNORECASE,
)
_POLITE_CHINESE: Final = lazy_pattern(
    r"(?:如果|若|要是|假如|只要)(?:可以|可能|能|行|方便|需要|必要|有必要|有的话|没有的话|不行|不麻烦"
    r"|你|您|不确定|不清楚|有问题|有任何|愿意|想)"
)
# Before the word: a question about a fact ("check if it works"), a figure, or a hypothesis.
_ASKS: Final = lazy_pattern(
    r"\b(?:check|checks|checking|see|verify|test|find out|figure out|tell|tell (?:me|us|him|her)"
    r"|tell them|know|ask|asks|wonder"
    r"|determine|decide|confirm|say|says|show|show me|look"
    r"|learn|understand|investigate|detect|ensure|as|even|what|happens|happen|matter"
    r"|care|mind|remember|unsure|sure)\s+$|\bwhat (?:happens|would happen)\b[^,]{0,200}$",
    re.IGNORECASE,
)
_QUESTION: Final = lazy_pattern(
    r"^\s*(?:what|which|who|whom|whose|why|how|where|is|are|do|does|did|has|have|was|were)\b"
    r"|[?？]\s*$|[吗呢]\s*$|会怎|怎么办|会如何|会不会",
    re.IGNORECASE,
)
# An argument that itself selects or decides, such as a query.
_DECIDES: Final = lazy_pattern(
    r"[<>]|\b(?:where|having|case|if|unless|filter)\b|如果|若|大于|小于|超过", re.IGNORECASE
)
_DECIDING_NAMES: Final = frozenset((
    "where", "filter", "filters", "condition", "conditions", "threshold", "min", "max", "minimum",
    "maximum", "above", "below", "over", "under", "gt", "gte", "lt", "lte", "when", "unless", "if",
))  # fmt: skip


def dropped_conditions(
    texts: Iterable[str],
    plan: Plan,
    templates: Mapping[str, Plan],
    tools: Mapping[str, ToolSpec] | None = None,
) -> list[Problem]:
    """Returns a problem for each condition of a request, if nothing in the plan depends on any."""
    found = [each for text in texts for each in find_conditions(text)]
    active = [step for step in plan.steps if not step.disabled]
    if not found or any(_decides(step, templates) for step in active):
        return []
    if _changes_what_it_selects(active, tools or {}):
        return []
    return [
        problem(
            DROPPED,
            Sentence("ps.dropped_condition", words=clip(words, _SHOWN)),
            hint=Sentence("hint.dropped_condition"),
        )
        for words in dict.fromkeys(found)
    ]


@lru_cache(maxsize=256)
def find_conditions(text: str) -> tuple[str, ...]:
    """Returns the conditions that a request sets, in its words; questions set none."""
    return tuple(_found(text))


def _found(text: str) -> Iterator[str]:
    for sentence in sentences_without_quotes(text):
        is_chinese = bool(HAN.search(sentence))
        pattern, polite = (_CHINESE, _POLITE_CHINESE) if is_chinese else (_ENGLISH, _POLITE)
        if _QUESTION.search(sentence):
            continue
        for each in pattern.finditer(sentence):
            before = sentence[max(each.start() - _NEAR, 0) : each.start()]
            if not polite.match(each[0]) and not _ASKS.search(before):
                yield " ".join(each[0].split())


def _changes_what_it_selects(steps: Sequence[AnyStep], tools: Mapping[str, ToolSpec]) -> bool:
    """Whether a step selects by a condition, and a change, if there is any, uses what it selects.

    "If the travels cost more than 300, write a note": a query for travels decides nothing then.
    """
    calls = {step.id: step.each if isinstance(step, MapStep) else step for step in steps}
    selecting = {
        name for name, call in calls.items() if isinstance(call, ToolStep) and _selects(call.inputs)
    }
    acting = {
        name
        for name, call in calls.items()
        if isinstance(call, ToolStep) and not (call.tool in tools and reads(tools[call.tool]))
    }
    uses = {step.id: frozenset(ref.step for ref in step.refs()) & calls.keys() for step in steps}
    decided = selecting | downstream(uses, selecting)
    return bool(selecting) and (not acting or bool(acting & decided))


def _decides(step: AnyStep, templates: Mapping[str, Plan]) -> bool:
    """Whether a step has a condition, or passes one on."""
    if step.when is not None or step.repeat is not None:
        return True
    match step:
        case MapStep(each=inner):
            return _decides(inner, templates)
        case PlanStep(template=name):
            inside = templates.get(name)
            return inside is None or any(_decides(each, templates) for each in inside.steps)
        case AgentStep(task=task):
            return bool(_DECIDES.search(task))
        case _:
            return False


def _selects(value: Json) -> bool:
    match value:
        case str():
            return bool(_DECIDES.search(value))
        case dict():
            names = {name.lower() for name in value}
            return bool(names & _DECIDING_NAMES) or any(map(_selects, value.values()))
        case list():
            return any(map(_selects, value))
        case _:
            return False
