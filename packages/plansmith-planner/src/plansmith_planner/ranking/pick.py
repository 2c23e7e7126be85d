"""Picks the tools and agents that fit a request, with a reason for each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, cast

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.ports import Ranker
from plansmith_planner.ranking.card import Kind
from plansmith_planner.ranking.index import Catalogue, CatalogueIndex, IndexCache
from plansmith_planner.ranking.lexical import Request, read_request

_NO_REASON: Final = "fills the list, nothing in the request matches"
# The weight of meaning beside words: small if words match the whole request, else larger.
_MEANING: Final = 0.3
_MEANING_IN_DOUBT: Final = 1.0
_READS: Final = "reads a file that the request names"
_NAME: Final = r"[^\s\"'“”‘’《》()（）,，。:：;；]"
_FILE: Final = re.compile(rf"(?<!{_NAME}){_NAME}+\.[A-Za-z][A-Za-z0-9]{{1,5}}(?![\w.])")
_URL: Final = re.compile(r"(?<!\w)\w++://\S+|(?<!\S)\S+@\S+")
_TABLE: Final = re.compile(r"\.(?:csv|tsv|jsonl?|xlsx|db3?|sqlite3?)(?:/[^/]*)?$", re.IGNORECASE)
_SHELF: Final = IndexCache()


@dataclass(frozen=True, slots=True)
class Pick:
    """A tool or agent on the shortlist."""

    name: str
    score: float
    reason: str
    kind: Kind


def shortlist(
    query: str,
    tools: Catalogue,
    k: int = 6,
    *,
    ranker: Ranker | None = None,
    cache: Path | str | None = None,
) -> list[Pick]:
    """Returns the k tools and agents that fit best; those that the request names come first.

    Args:
        query: The request.
        tools: Tools and agents: specs, or `{name: {"description": …}}`.
        k: How many to return.
        ranker: Also ranks by meaning, if given.
        cache: A folder that keeps the index of many tools between programs.

    Raises:
        ValueError: `k` is no positive whole number.

    Examples:
        >>> from plansmith_planner import shortlist
        >>> tools = {"stock": {"description": "Counts items"}, "mail": {"description": "Writes"}}
        >>> [pick.name for pick in shortlist("How many items are there?", tools, k=1)]
        ['stock']
    """
    if isinstance(k, bool) or not isinstance(cast("object", k), int) or k < 1:
        msg = f"k must be a positive whole number, not {k!r}"
        raise ValueError(msg)
    request = read_request(query)
    with _SHELF.lock:
        index = _SHELF.index(tools, Path(cache) if cache is not None else None)
        named = frozenset(index.lexical.named(request))
        worth = index.lexical.worth(request)
        scores = index.lexical.scores(request, worth, k)
        semantic = _semantic(ranker, (query, *request.parts), index)
        doubt = 1 - index.lexical.coverage(request, scores)
        meaning = _MEANING + _MEANING_IN_DOUBT * doubt if semantic else 0.0
        most = max(scores.values(), default=0.0) or 1.0
        total = {
            slot: (scores.get(slot, 0.0) / most + meaning * semantic.get(slot, 0.0)) / (1 + meaning)
            for slot in scores.keys() | semantic.keys()
        }
        ranked = sorted(
            total.keys() | named, key=lambda slot: (slot not in named, -total.get(slot, 0.0), slot)
        )
        rest = (slot for slot in range(len(index.cards)) if slot not in total and slot not in named)
        return [
            Pick(
                name=index.cards[slot].name,
                score=round(total.get(slot, 0.0) + (slot in named), 4),
                reason="; ".join(
                    _reasons(
                        index.lexical.matches(slot, request, worth),
                        request,
                        named=slot in named,
                        near=semantic.get(slot, 0.0) > 0.5,
                    )
                )
                or _NO_REASON,
                kind=index.cards[slot].kind,
            )
            for slot in islice(chain(ranked, rest), k)  # ties keep the catalogue's order
        ]


def _semantic(
    ranker: Ranker | None, asked: Sequence[str], index: CatalogueIndex
) -> dict[int, float]:
    """Scores closeness to the request and its parts: 0 for the average card, 1 for the best."""
    texts = index.texts
    if ranker is None or not texts:
        return {}
    rows = [ranker.scores(each, texts) for each in asked]
    for given in rows:
        if len(given) != len(texts):
            msg = f"the ranker gave {len(given)} scores for {len(texts)} texts"
            raise ValueError(msg)
    whole, *parts = (
        [float(score) if math.isfinite(score) else 0.0 for score in given] for given in rows
    )
    if parts:
        nearest = (max(scores) for scores in zip(*parts, strict=True))
        whole = [one + other for one, other in zip(whole, nearest, strict=True)]
    usual = math.fsum(whole) / len(whole)
    spread = max(whole) - usual
    if spread <= 0:
        return {}
    return {slot: (score - usual) / spread for slot, score in enumerate(whole) if score > usual}


def _reasons(
    matches: Sequence[tuple[str, str]], request: Request, *, named: bool, near: bool
) -> Iterator[str]:
    if named:
        yield "named in the request"
    visible = [(t, held) for t, held in matches[:3] if t in request.surface]
    same = [request.surface[term] for term, held in visible if term == held]
    if same:
        yield f"matches {', '.join(same)}"
    related = [f"{request.surface[term]} ~ {held}" for term, held in visible if term != held]
    if related:
        yield f"related: {', '.join(related)}"
    if matches and not visible:
        yield "fits this kind of request"
    if near:
        yield "similar meaning"


def reader_picks(query: str, files: Sequence[str], tools: Sequence[ToolSpec]) -> list[Pick]:
    """Returns the tools that read what a request names; `files` are those that are there."""
    named: list[str] = _FILE.findall(_URL.sub(" ", query))
    for path in files:  # whose name, with or without its ending, the request contains
        stem = path.casefold().rpartition("/")[2].partition(".")[0]
        word = rf"(?<![a-z0-9_]){re.escape(stem)}(?![a-z0-9_])"
        if len(stem) >= 3 and re.search(word, query.casefold()):
            named.append(path)
    wanted = {"table" if _TABLE.search(name) else "path" for name in named}
    return [Pick(tool.name, 0.0, _READS, "tool") for tool in tools if wanted & {*_takes(tool)}]


def _takes(tool: ToolSpec) -> Iterator[str]:
    """Returns what a tool reads: a table, or a file by its path; nothing if it is no reader."""
    if tool.effect is not Effect.READ or tool.open_world:
        return
    found: Any = tool.input_schema.get("properties")
    fields = cast("Mapping[str, Any]", found if isinstance(found, Mapping) else {})
    if "path" in fields:
        yield "path"
    schemas = [
        cast("Mapping[str, Any]", each) for each in fields.values() if isinstance(each, Mapping)
    ]
    if "table" in fields or any(each.get("format") == "sql" for each in schemas):
        yield "table"
