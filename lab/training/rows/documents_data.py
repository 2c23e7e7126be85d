"""Reads the kinds of documents that worlds hold from their data file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from lab.training.rows.domains import DATA
from lab.training.rows.row import Lang


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of document: paths, titles, words that point to it, and questions."""

    key: str
    paths: dict[Lang, list[str]]
    titles: dict[Lang, list[str]]
    refs: dict[Lang, list[str]]
    questions: dict[Lang, list[str]]


def _split(text: str, mark: str = ",") -> list[str]:
    return [each.strip() for each in text.split(mark) if each.strip()]


def _kind(block: list[str]) -> DocumentKind:
    key, paths, paths_zh, titles, titles_zh = (each.strip() for each in block[0][1:].split("|"))
    refs, _, refs_zh = block[1].removeprefix("ref:").partition("|")
    return DocumentKind(
        key,
        {"en": _split(paths), "zh": _split(paths_zh)},
        {"en": _split(titles, ";"), "zh": _split(titles_zh, ";")},
        {"en": _split(refs), "zh": _split(refs_zh)},
        {
            "en": [line[3:].strip() for line in block if line.startswith("en ")],
            "zh": [line[3:].strip() for line in block if line.startswith("zh ")],
        },
    )


@cache
def document_kinds() -> tuple[DocumentKind, ...]:
    """Returns all kinds of documents."""
    lines = (DATA / "documents.txt").read_text(encoding="utf-8").splitlines()
    used = [line for line in lines if line.strip() and not line.startswith("#")]
    starts = [place for place, line in enumerate(used) if line.startswith("=")]
    return tuple(_kind(used[a:b]) for a, b in pairwise([*starts, len(used)]))
