"""The shape of a row, before and after it is checked against what the product shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypedDict

from lab.training.rows.answers_documents import Kind
from lab.training.rows.answers_words import Language
from plansmith_desk.model.wording import material
from plansmith_planner.models.fact_checked import unfounded


class Row(TypedDict):
    """One row; `kind` is "write" where the request says what to write."""

    family: str
    kind: str
    request: str
    results: str
    answer: str
    lang: Language


class Draft(TypedDict):
    """A row before it is checked: what the tools gave, and texts that the model has to see."""

    kind: str
    lang: Language
    request: str
    given: list[str]
    answer: str
    needs: list[str]


Maker = Callable[[Random, Sequence[Kind]], Draft]


def languages(rng: Random) -> tuple[Language, Language]:
    """Returns the language of the request and of the documents."""
    asked: Language = "en" if rng.random() < 0.55 else "zh"
    other: Language = "zh" if asked == "en" else "en"
    return asked, other if rng.random() < 0.17 else asked


def joined(sentences: Sequence[str], language: Language) -> str:
    """Joins sentences to a paragraph."""
    return (" " if language == "en" else "").join(sentences)


def checked(draft: Draft) -> Row | None:
    """Renders a row as the product does; None where it does not show what the answer needs."""
    results = material(draft["request"], draft["given"])
    seen = f"{draft['request']}\n{results}"
    if any(each not in results for each in draft["needs"]) or unfounded(draft["answer"], seen):
        return None
    return Row(
        family="answer",
        kind=draft["kind"],
        request=draft["request"],
        results=results,
        answer=draft["answer"],
        lang=draft["lang"],
    )
