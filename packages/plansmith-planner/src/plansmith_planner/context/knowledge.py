"""Business terms with their explanations, chosen by what a request is about."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from plansmith.errors import Misconfigured
from plansmith.formats.text import read_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import ContextBlock, Ranker
from plansmith_planner.context.fence import indented
from plansmith_planner.context.files import first_bytes
from plansmith_planner.context.lexical import LexicalRanker
from plansmith_planner.context.token_budget import Count, clipped
from plansmith_planner.models.tokens import count_tokens

TITLE: Final = "business knowledge"
_LARGEST: Final = 5_000_000
_FORM: Final = 'write `term: explanation`, or `term: {explanation: "…", synonyms: [a, b]}`'


class Term(NamedTuple):
    """A business term, its explanation and its synonyms."""

    name: str
    explanation: str
    synonyms: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Returns the term as a planner reads it."""
        also = f" (also: {', '.join(map(indented, self.synonyms))})" if self.synonyms else ""
        return f"- {indented(self.name)}{also}: {indented(self.explanation)}"

    def named_in(self, query: str) -> bool:
        """Whether the request contains the term; Latin words only as whole words."""
        return any(_names(name, query) for name in (self.name, *self.synonyms))


def _names(name: str, query: str) -> bool:
    word = name.strip().casefold()
    edge = r"\b" if word.isascii() else ""
    return bool(word) and bool(re.search(f"{edge}{re.escape(word)}{edge}", query.casefold()))


class KnowledgeSource:
    """Terms from a mapping or a YAML or JSON file; gives all of them if there are few."""

    def __init__(
        self,
        terms: Mapping[str, object] | Path | str,
        *,
        few: int = 20,
        ranker: Ranker | None = None,
        count: Count = count_tokens,
    ) -> None:
        self._given = Path(terms) if isinstance(terms, str) else terms
        self._few = few
        self._ranker = ranker or LexicalRanker()
        self._count = count

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns one block: first the terms that the request names, then those that fit best."""
        terms = await asyncio.to_thread(self._terms)
        chosen = self._choose(terms, query)
        text = self._text(chosen, token_limit)
        source = self._given.name if isinstance(self._given, Path) else ""
        return [ContextBlock(TITLE, text, source)] if text else []

    def _terms(self) -> list[Term]:
        if isinstance(self._given, Path):
            return list(_entries(read_terms(self._given)))
        return list(_entries(self._given))

    def _choose(self, terms: Sequence[Term], query: str) -> list[Term]:
        scores = self._ranker.scores(query, [f"{each.name} {each.line}" for each in terms])
        named = [each.named_in(query) for each in terms]
        order = sorted(range(len(terms)), key=lambda at: (not named[at], -scores[at], at))
        all_of_them = len(terms) <= self._few
        return [terms[at] for at in order if all_of_them or named[at] or scores[at] > 0]

    def _text(self, terms: Sequence[Term], tokens: int) -> str:
        """Returns as many terms as fit, and how many more there are."""
        lines = [each.line for each in terms]

        def text(number: int) -> str:
            gone = len(lines) - number
            more = [f"[{gone} more terms that fit are left out]"] if gone else []
            return "\n".join([*lines[:number], *more])

        if self._count(text(len(lines))) <= tokens:
            return text(len(lines))
        numbers = range(1, len(lines))
        fitting = bisect_right(numbers, tokens, key=lambda number: self._count(text(number)))
        return clipped(text(max(fitting, 1)), tokens=tokens, count=self._count) if lines else ""


def read_terms(path: Path) -> Mapping[str, object]:
    """Reads the terms of a YAML or JSON file."""
    try:
        data = first_bytes(path, _LARGEST + 1)
    except OSError as error:
        message = Sentence(
            "cannot read the business terms {path}: {why}", path=path, why=error.strerror
        )
        raise Misconfigured(
            message, hint=Sentence("give the path of a YAML or JSON file")
        ) from None
    if len(data) > _LARGEST:
        hint = Sentence("give it as documents instead")
        raise Misconfigured(
            Sentence("{name} is larger than {most} bytes", name=path.name, most=_LARGEST), hint=hint
        )
    reading = read_text(data)
    for found in reading.problems:
        told = Sentence("{text}: {reason}", text=path.name, reason=found.message)
        raise Misconfigured(told, hint=found.hint)
    if not isinstance(reading.value, dict):
        raise Misconfigured(Sentence("{name} holds no terms", name=path.name), hint=_FORM)
    return reading.value


def _entries(terms: Mapping[str, object]) -> Iterator[Term]:
    for name, value in terms.items():
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        explanation = value if isinstance(value, str) else fields.get("explanation")
        synonyms = fields.get("synonyms", ())
        if isinstance(synonyms, str):
            synonyms = (synonyms,)
        unknown = fields.keys() - {"explanation", "synonyms"}
        if unknown or not isinstance(explanation, str) or not isinstance(synonyms, (list, tuple)):
            raise Misconfigured(
                Sentence("the business term '{name}' is not usable", name=name), hint=_FORM
            )
        yield Term(name, explanation, tuple(map(str, cast("Sequence[object]", synonyms))))
