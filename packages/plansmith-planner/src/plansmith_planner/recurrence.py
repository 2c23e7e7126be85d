"""Finds the words in a request that say when to repeat it, and removes them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from plansmith.errors import Misconfigured
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.step_schedules import timing_of
from plansmith.plan.steps import AgentStep, AnyStep
from plansmith.plan.timing import Timing, check_timing
from plansmith.text import READ_BY_RULES
from plansmith_planner.recurrence_words import Phrase, find_chinese, find_english

_CONFIRMED: Final = re.compile(
    r"(?<![\s,;，。；])[\s,;，。；]*+(?:\b(?:yes,? )?(?:i confirm(?: (?:it|this|the schedule))?"
    r"|(?:schedule )?confirmed)\b[.!]?"
    r"|(?:我)?(?:已)?确认(?:无误|执行)?[。！]?$)",
    re.IGNORECASE,
)
_EDGES: Final = " \t\r\n,;:，、；：-–—"
_QUESTION: Final = re.compile(
    r"^\s*(?:what|which|who|whom|whose|why|how|when|where|is|are|do|does|did|can|could)\b"
    r"|[?？吗呢]\s*$",
    re.IGNORECASE,
)


class Recurrence(NamedTuple):
    """When to repeat what; `confirmed` if the request itself already confirms it.

    `assumed` describes what the request leaves open. Without a timing, `flaw` says why.
    """

    words: str
    rest: str
    timing: Timing | None = None
    assumed: str = ""
    flaw: str = ""
    confirmed: bool = False


def recurrence(text: str, *, timezone: str = "UTC") -> Recurrence | None:
    """Returns what a request says about repeating it; None if it says nothing."""
    read = _CONFIRMED.sub(" ", text[:READ_BY_RULES])
    bare = read + text[READ_BY_RULES:]
    phrases = [each for each in (*find_english(read), *find_chinese(read)) if _meant(each, bare)]
    if not phrases:
        return None
    phrase = phrases[0]
    words = " ".join(bare[phrase.start : phrase.end].split())
    confirmed = bare != text
    if len(phrases) > 1:
        flaw = "more than one time is named: make a schedule for each"
        return Recurrence(words, text, flaw=flaw, confirmed=confirmed)
    if phrase.flaw:
        return Recurrence(words, text, flaw=phrase.flaw, confirmed=confirmed)
    timing = Timing.model_validate(phrase.fields | {"timezone": phrase.zone or timezone})
    try:
        check_timing(timing)
    except Misconfigured as error:
        return Recurrence(words, text, flaw=str(error), confirmed=confirmed)
    rest = _joined(bare[: phrase.start], bare[phrase.end :])
    return Recurrence(words, rest, timing, phrase.assumed, "", confirmed)


def without_recurrence(text: str) -> str:
    """Returns a request without the words that say when to repeat it."""
    found = recurrence(text)
    return found.rest if found is not None and found.rest else text


def without_schedule_words(plan: Plan) -> tuple[Plan, list[Problem]]:
    """Returns a plan whose scheduled tasks do not say when they run, and a note on each change."""
    steps: list[AnyStep] = []
    notes: list[Problem] = []
    for step in plan.steps:
        if isinstance(step, AgentStep) and timing_of(plan, step.id) is not None:
            bare = without_recurrence(step.task)
            if bare != step.task:
                message, hint = (
                    Sentence(
                        "when it runs is the plan's schedule: the words for it are "
                        "taken out of the task"
                    ),
                    Sentence("check that this is what was meant"),
                )
                notes.append(problem("PS013", message, hint=hint, step=step.id, path=("task",)))
                step = step.replace(task=bare)  # noqa: PLW2901
        steps.append(step)
    return (plan.replace(steps=tuple(steps)) if notes else plan), notes


def _meant(phrase: Phrase, text: str) -> bool:
    """Whether a phrase asks for a repetition, and is not part of the subject.

    A phrase with a time of day always does. Without one, questions do not, and days alone count
    only at the beginning or at the end.
    """
    vague = bool(phrase.assumed or phrase.flaw)
    if not vague and "every_minutes" not in phrase.fields:
        return True
    begins = not text[: phrase.start].strip(_EDGES)
    if _QUESTION.search(text) and not begins:
        return False
    return begins or not vague or not text[phrase.end :].strip(_EDGES + ".。!！")


def _joined(before: str, after: str) -> str:
    """Joins the text before and after the removed words."""
    before, after = before.rstrip(_EDGES), after.lstrip(_EDGES)
    if not before or not after or after[0] in ".。!！?？)）":
        return (before + after).strip()
    wide = min(before[-1], after[0]) >= "\u2e80"
    return (before + ("" if wide else " ") + after).strip()
