"""A request as weighted terms, whole and clause by clause, with hints from the values it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plansmith.planner.ranking.kinship import weight
from plansmith.planner.ranking.words import is_cjk, spelling, stem, terms

_HEAD: Final = 12_000
_TAIL: Final = 4_000
_MOST_TERMS: Final = 120
_MOST_CLAUSES: Final = 12
_SHORTEST_CLAUSE: Final = 5
_LONE_CHARACTER: Final = 0.6
_REPEATS: Final = 1.0
_HINT: Final = 0.2
_QUOTED_WEIGHT: Final = 0.5

# A run of characters this long is data (base64, a key, a hash), not language.
_BLOB: Final = re.compile(r"[A-Za-z0-9+/=_-]{120,}")
_CLAUSE: Final = re.compile(
    r"[.!?;。！？；\n]+|,\s+(?:and|then)\s+|\b(?:additionally|also|then|after that|furthermore"
    r"|moreover|finally|as well as)\b|然后|并且|同时|另外|接着|再",
    re.IGNORECASE,
)
_VALUE_TEXT: Final = re.compile(r"[\"“]([^\"”\n]{3,200})[\"”]|(?<=\s)'([^'\n]{3,200})'(?=[\s.,?!])")
_MONTHS: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
)
_ASKING: Final = (
    r"(?i)\b(?:find|look up|information (?:about|on)|latest|recent|tell me about"
    r"|wh(?:o|at) (?:is|are|was))\b|最新|是什么|什么是"
)
_VALUES: Final = tuple(
    (re.compile(pattern), tuple(stem(word) for word in hint.split()))
    for pattern, hint in (
        (r"[\w.+-]{1,64}@[\w-]{1,64}\.\w", "email mail address contact"),
        (r"https?://|www\.", "url link web website page"),
        (r"\b[\w-]{1,64}\.(?:com|org|net|io|gov|edu)\b", "domain website url"),
        (
            rf"(?i)\b\d{{4}}[-/.]\d\d?[-/.]\d|\b(?:{_MONTHS}) \d|\b\d\d?(?:st|nd|rd|th)\b|\d月\d",
            "date day",
        ),
        (r"(?i)\b\d\d?(?::\d\d)? ?(?:am|pm)\b|\b\d\d?:\d\d\b", "time"),
        (
            r"(?i)-?\d{1,3}\.\d{2,12}\D{1,16}\d{1,3}\.\d\d|\blatitude\b|\bcoordinates\b",
            "latitude longitude lat lon coordinate location",
        ),
        (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", "ip address"),
        (
            r"(?:^|\s)[~.]?/[\w.-]+/[\w.-]|\b[\w-]{1,64}\.(?:txt|md|csv|json|pdf|py|docx?|xlsx?)\b",
            "file path",
        ),
        (r"[$€£¥]\s?\d", "amount price money"),
        (r"\b(?:USD|EUR|GBP|JPY|CNY|INR|CAD|AUD|CHF)\b", "currency exchange"),
        (r"\b(?:in|at|near|to|from|around|visit) (?:the )?[A-Z][a-z]", "city location place"),
        (r"\d ?[-+*/×÷] ?\d|\d ?[%％]", "calculate math percent"),
        (r"\(?\b\d{3}\)?[ -]\d{3}[ -]\d{4}\b", "phone number contact"),
        (_ASKING, "search web"),
        (r"[a-z,] [A-Z][a-z]+ [A-Z][a-z]", "person people name"),
    )
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a request asks for: its terms, its clauses and their terms, and the words behind."""

    terms: Mapping[str, float]
    clauses: tuple[frozenset[str], ...]
    parts: tuple[str, ...]
    surface: Mapping[str, str]
    words: tuple[str, ...]
    quoted: frozenset[str]


_QUOTED: Final = re.compile(
    r"[`'\"“‘「]([^`'\"”’」\n]{1,200})[`'\"”’」]|([\w.:/-]{2,200})(?=\()"
    r"|\b([^\W\d_]\w{0,64}(?:[_.:/]\w{1,64}){1,8}|[A-Za-z]?[a-z]{1,64}[A-Z]\w{1,64})\b"
)


def read_request(text: str) -> Request:
    """Read a request; a very long one by its beginning and its end."""
    said = _BLOB.sub(" ", text)
    short = said if len(said) <= _HEAD + _TAIL else f"{said[:_HEAD]}\n{said[-_TAIL:]}"
    weights, surface = _weights(short)
    for pattern, hint in _VALUES:
        if pattern.search(short):
            for term in hint:
                weights[term] = weights.get(term, 0.0) + _HINT
    strongest = sorted(weights.items(), key=lambda item: -item[1])[:_MOST_TERMS]
    quoted = ("".join(found) for found in _QUOTED.findall(short))
    parts = _parts(short)
    return Request(
        terms=dict(strongest),
        clauses=tuple(frozenset(term for _, term in terms(part)) for part in parts),
        parts=parts,
        surface=surface,
        words=tuple(spelling(short)),
        quoted=frozenset(" ".join(spelling(name)) for name in quoted),
    )


def _weights(text: str) -> tuple[dict[str, float], dict[str, str]]:
    counts: dict[str, float] = {}
    surface: dict[str, str] = {}
    for word, term in terms(text):
        surface.setdefault(term, word)
        lone = _LONE_CHARACTER if len(word) == 1 and is_cjk(word) else 1.0
        counts[term] = counts.get(term, 0.0) + lone * weight(word)
    weights = {t: x * (1 + _REPEATS) / (x + _REPEATS) for t, x in counts.items()}
    # What stands in quotes is mostly a value to work on, not what to do.
    unquoted = {term for _, term in terms(_VALUE_TEXT.sub(" ", text))}
    for term in weights.keys() - unquoted:
        weights[term] *= _QUOTED_WEIGHT
    return weights, surface


def _parts(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in _CLAUSE.split(text) if len(part) > _SHORTEST_CLAUSE]
    return tuple(parts) if 1 < len(parts) <= _MOST_CLAUSES else ()
