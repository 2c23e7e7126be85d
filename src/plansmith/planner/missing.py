"""Finds changes that a request asks for but no step of the plan makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from plansmith.check.names import reads, words
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json, leaves
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    ReplyStep,
    StepFields,
    ToolStep,
)
from plansmith.planner.intent import FILE, Intent, Kind

MISSING: Final = "PS504"
_DEEPEST: Final = 5
# Words in the names and descriptions of tools that make a change of this kind.
_TOOL_WORDS: Final[dict[Kind, str]] = {
    "save": "save write store export append dump file files document sheet spreadsheet upload"
    " download copy insert",
    "draw": "draw plot chart graph visualize visualise visualization diagram image picture render"
    " figure histogram",
    "send": "send mail email message sms forward post publish tweet notify notification share"
    " slack telegram invite reply letter deliver announce dispatch",
    "rename": "rename move update edit change modify",
    "delete": "delete remove erase trash clear drop archive cancel clean purge",
    "order": "book reserve order buy purchase reservation ticket checkout cart appointment rent"
    " rental hire trade",
    "pay": "pay payment transfer refund reimburse charge transaction money repay remit deposit"
    " checkout book reserve reservation order buy purchase",
    "cancel": "cancel delete remove refund return stop unsubscribe modify",
}
_WORDS: Final[dict[Kind, frozenset[str]]] = {
    kind: frozenset(tool_words.split()) for kind, tool_words in _TOOL_WORDS.items()
}
_HAN_WORDS: Final[dict[Kind, str]] = {
    "save": "存|写|导出|文件|文档|记录|创建|下载",
    "draw": "画|图|绘",
    "send": "发|邮|消息|短信|通知|分享|寄|信",
    "rename": "命名|改名|移动|修改|更新",
    "delete": "删|移除|清|取消",
    "order": "订|定|买|购|下单|预约|挂号|交易|租|创建|添加",
    "pay": "付|转账|退|缴|交易|款",
    "cancel": "取消|删|退|撤",
}


class _Change(NamedTuple):
    """A step that may make a change: the kinds of changes it can make, and its files."""

    kinds: frozenset[Kind] | None
    files: frozenset[str]


def missing_changes(
    intents: Sequence[Intent],
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> list[Problem]:
    """Returns a problem for each change that no step makes; unknown tools may make any."""
    if not intents:
        return []
    changes = [
        change
        for step in _steps(plan, templates)
        if (change := _change_of(step, tools, agents, templates)) is not None
    ]
    return [
        _problem(intent, files)
        for intent in intents
        if (files := _missing_files(intent, changes)) is not None
    ]


def _missing_files(intent: Intent, changes: Sequence[_Change]) -> tuple[str, ...] | None:
    """Returns the files for which a change is missing; None if nothing is missing."""
    fit = [change for change in changes if change.kinds is None or intent.kind in change.kinds]
    if not fit:
        return intent.files
    # A step without a file name gets it from a person or a result.
    if any(not change.files for change in fit):
        return None
    named = frozenset[str]().union(*(change.files for change in fit))
    left = tuple(each for each in intent.files if _base(each) not in named)
    return left or None


def _steps(plan: Plan, templates: Mapping[str, Plan], depth: int = 0) -> Iterator[StepFields]:
    for step in plan.steps:
        if step.disabled:
            continue
        inner: AnyStep = step.each if isinstance(step, MapStep) else step
        yield inner
        if isinstance(inner, PlanStep) and inner.template in templates and depth < _DEEPEST:
            yield from _steps(templates[inner.template], templates, depth + 1)


def _change_of(
    step: StepFields,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> _Change | None:
    match step:
        case AskStep() | ReplyStep():
            return None
        case PlanStep(template=name):
            return None if name in templates else _Change(None, frozenset())
        case AgentStep(agent=name):
            only_reads = name in agents and agents[name].effect is Effect.READ
            return _Change(frozenset({"draw"}) if only_reads else None, frozenset())
        case ToolStep(tool=name, inputs=inputs):
            spec = tools.get(name)
            return (
                _Change(_kinds(spec), frozenset(_files(inputs)))
                if spec
                else _Change(None, frozenset())
            )
        case _:
            return None


def _kinds(spec: ToolSpec) -> frozenset[Kind] | None:
    """Returns the kinds of changes that a tool's name and description mention; None if unclear."""
    text = f"{spec.name} {spec.description}"
    tool_words = set(words(text))
    found: frozenset[Kind] = frozenset(
        kind
        for kind, known in _WORDS.items()
        if any(_is_form_of(word, known) for word in tool_words) or re.search(_HAN_WORDS[kind], text)
    )
    if reads(spec):
        return found & {"draw"}
    return found or None


def _is_form_of(word: str, known: frozenset[str]) -> bool:
    """Whether a word is a form of a known word: cancelling, bookings."""
    return word in known or any(len(each) > 3 and word.startswith(each) for each in known)


def _files(value: Json) -> Iterator[str]:
    """Yields the file names in a step's arguments, without folders."""
    for each in leaves(value):
        if isinstance(each, str) and "{{" not in each and FILE.fullmatch(each.strip()):
            yield _base(each.strip())


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1].casefold()


def _problem(intent: Intent, files: tuple[str, ...]) -> Problem:
    what = [*files] or Sentence("text.quoted_words", words=intent.words)
    message = Sentence(f"deed.{intent.kind}", what=what)
    return problem(MISSING, message, hint=Sentence("hint.missing_deed"))
