"""Judges a research plan as DeerFlow's pages ask: its language, its step types, its steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from plansmith.plan.data import Json
from plansmith_compat.deerflow.models import Plan, Step, StepType
from plansmith_planner.language.locales import locale_of

# Shorter texts, such as a name, say nothing about a language.
_FEWEST_LETTERS: Final = 12


class Quality(NamedTuple):
    """Whether a plan is in its language, its types are right, and its steps can be done."""

    language: bool
    types: bool
    executable: bool
    notes: tuple[str, ...] = ()


def quality(plan: Plan) -> Quality:
    """Judges one plan; each fault is a note that names its step."""
    language = [*_language(plan)]
    types = [note for place, step in _numbered(plan) for note in _types(place, step)]
    executable = [note for place, step in _numbered(plan) for note in _executable(place, step)]
    if not plan.steps and not plan.has_enough_context:
        executable.append("there are no steps, and the context is not enough")
    notes = (*language, *types, *executable)
    return Quality(not language, not types, not executable, notes)


def shares(plans: Iterable[Plan]) -> dict[str, Json]:
    """Returns the share of plans that are right in each respect; empty without plans."""
    found = [quality(plan) for plan in plans]
    if not found:
        return {}
    return {
        name: sum(getattr(each, name) for each in found) / len(found)
        for name in ("language", "types", "executable")
    }


def _numbered(plan: Plan) -> Iterable[tuple[int, Step]]:
    return enumerate(plan.steps, start=1)


def _language(plan: Plan) -> Iterable[str]:
    """Yields what is written in another language than the plan's locale."""
    wanted = plan.locale.partition("-")[0].lower()
    texts = [("the thought", plan.thought)]
    texts += [(f"step {place}", step.description) for place, step in _numbered(plan)]
    for name, text in texts:
        if sum(letter.isalpha() for letter in text) < _FEWEST_LETTERS and text.isascii():
            continue
        spoken = locale_of(text).partition("-")[0] if text.strip() else wanted
        if spoken != wanted:
            yield f"{name} is written in {spoken}, not in {wanted}"


def _types(place: int, step: Step) -> Iterable[str]:
    """Yields what is wrong with the type of a step: only research searches."""
    if step.need_web_search is not (step.step_type is StepType.RESEARCH):
        search = "a search" if step.need_web_search else "no search"
        yield f"step {place} is {step.step_type} and needs {search}"


def _executable(place: int, step: Step) -> Iterable[str]:
    """Yields what keeps a member of the team from doing a step."""
    said = step.description.strip()
    if not said:
        yield f"step {place} does not say what to do"
    elif said == step.title.strip():
        yield f"step {place} says no more than its title"
