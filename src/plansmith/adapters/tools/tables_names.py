"""Which files a query or a request means: `FROM sales` and "the sales" are sales.csv."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

ENDINGS: Final = (".csv", ".tsv", ".json", ".jsonl")
_SOURCE: Final = re.compile(
    r"""\b(from|join)(\s+)("[^"]+"|'[^']+'|`[^`]+`|\[[^\]]+\]|[\w./-]*\w)""", re.IGNORECASE
)
_TABLE_WORDS: Final = re.compile(r"\b(?:csv|tsv|table|spreadsheet)\b|表格", re.IGNORECASE)
_SHORTEST: Final = 3


def named_files(
    query: str, files: Sequence[str], *, known: Container[str] = ()
) -> tuple[str, dict[str, str]]:
    """The query with the files it reads as plain table names, and the files by these names.

    A file goes by its path or by its name without ending; names in `known` are tables already.
    """
    found: dict[str, str] = {}

    def put(match: re.Match[str]) -> str:
        name = match[3].strip("\"'`[]")
        path = None if name in known else _file(name, files)
        if path is None:
            return match[0]
        found[name] = path
        return f'{match[1]}{match[2]}"{name}"'

    return _SOURCE.sub(put, query), found


def _file(name: str, files: Sequence[str]) -> str | None:
    """The one file that is called so; none where it could be several."""
    wanted = name.removeprefix("./").casefold()
    for called in (_path, _last, _stem):
        fitting = [path for path in files if called(path) == wanted]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _path(path: str) -> str:
    return path.casefold()


def _last(path: str) -> str:
    return path.casefold().rpartition("/")[2]


def _stem(path: str) -> str:
    return _last(path).rpartition(".")[0]


def meant_files(request: str, files: Sequence[str]) -> list[str]:
    """The files that a request names; the only ones there are if it speaks of tables at all."""
    said = request.casefold()
    named = [path for path in files if _last(path) in said]
    if not named:
        named = [path for path in files if len(_stem(path)) >= _SHORTEST and _is_word(path, said)]
    if not named and _TABLE_WORDS.search(request):
        named = [path for path in files if path.lower().endswith((".csv", ".tsv"))]
    return named


def _is_word(path: str, said: str) -> bool:
    return bool(re.search(rf"(?<![a-z0-9_]){re.escape(_stem(path))}(?![a-z0-9_])", said))
