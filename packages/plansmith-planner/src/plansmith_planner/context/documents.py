"""Cuts local files and folders into chunks and finds those that fit a request."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.ports import ContextBlock
from plansmith_planner.context.files import FileLimits, Found, find_files, read_document
from plansmith_planner.context.token_budget import clipped
from plansmith_planner.models.tokens import count_tokens
from plansmith_planner.ranking.card import read_card, tool_source
from plansmith_planner.ranking.lexical import LexicalIndex, read_request

_HEADING: Final = re.compile(r"(#{1,6})\s+(\S.*)")
_CODE_FENCE: Final = re.compile(r"\s*(```|~~~)")


class Chunk(NamedTuple):
    """A piece of a text, with its first and last line and the headings above it."""

    text: str
    first: int
    last: int
    heading: str = ""


_Line = tuple[int, str]  # its number, and its text or a piece of one that is longer than a chunk


def chunks(
    text: str, *, size: int = 1200, overlap: int = 150, headings: bool = True
) -> list[Chunk]:
    """Cuts a text into pieces of about `size` characters; neighbours overlap a little.

    Without `headings` a line that begins with `#` is a line like any other, as in source code.
    """
    found: list[Chunk] = []
    for heading, lines in _sections(text, size, headings=headings):
        start = 0
        while start < len(lines):
            end = _chunk_end(lines, start, size)
            filled = [number for number, text in lines[start:end] if text.strip()]
            if filled:
                first, last = filled[0], filled[-1]
                kept = [text for number, text in lines[start:end] if first <= number <= last]
                found.append(Chunk("\n".join(kept), first, last, heading))
            if end >= len(lines):
                break
            start = _next_start(lines, start, end, overlap)
    return found


def _sections(text: str, size: int, *, headings: bool) -> Iterator[tuple[str, Sequence[_Line]]]:
    """Yields the lines under each heading, with the headings above it."""
    path: list[tuple[int, str]] = []
    lines: list[_Line] = []
    title, in_code = "", False
    for number, line in enumerate(text.split("\n"), start=1):
        in_code ^= bool(_CODE_FENCE.match(line))
        heading = _HEADING.match(line) if headings and not in_code else None
        if heading is not None:
            yield title, lines
            depth = len(heading[1])
            path = [*((level, name) for level, name in path if level < depth), (depth, heading[2])]
            title, lines = " > ".join(name.strip()[:80] for _, name in path), []
        pieces = (line[at : at + size] for at in range(0, len(line), size)) if line else ("",)
        lines += [(number, piece) for piece in pieces]
    yield title, lines


def _chunk_end(lines: Sequence[_Line], start: int, size: int) -> int:
    """Returns where a chunk ends: at its size, or before that at an empty line."""
    length, empty = 0, 0
    for at in range(start, len(lines)):
        text = lines[at][1]
        length += len(text) + 1
        if length > size and at > start:
            return empty or at
        if not text.strip() and length > size // 2:
            empty = at + 1
    return len(lines)


def _next_start(lines: Sequence[_Line], start: int, end: int, overlap: int) -> int:
    """Returns where the next chunk starts: some lines back, but after the start of this one."""
    length, at = 0, end
    while at - 1 > start and length + len(lines[at - 1][1]) < overlap:
        at -= 1
        length += len(lines[at][1]) + 1
    return at


class LexicalRanker:
    """Ranks texts by the words they share with a query; keeps the last texts indexed."""

    def __init__(self) -> None:
        self._texts: tuple[str, ...] = ()
        self._index = LexicalIndex(())

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one score per text; zero if no word is shared."""
        if self._texts != tuple(texts):
            self._texts = tuple(texts)
            sources = (tool_source("", text, {}) for text in texts)
            self._index = LexicalIndex([*map(read_card, sources)])
        asked = read_request(query)
        found = self._index.scores(asked, self._index.worth(asked), len(texts))
        return [found.get(at, 0.0) for at in range(len(texts))]


_WORTH: Final = 0.25  # of the best score; what fits less is noise
_TABLES: Final = frozenset({".csv", ".tsv"})
_HEADED: Final = frozenset({".md", ".markdown", ".html", ".htm"})


@dataclass(frozen=True, slots=True)
class _Document:
    """The chunks of a file, with the size and time at which it was read."""

    stamp: tuple[int, int]
    text: str
    chunks: tuple[Chunk, ...]
    note: str = ""


def _block(name: str, chunk: Chunk) -> ContextBlock:
    under = f": {chunk.heading}" if chunk.heading else ""
    return ContextBlock(f"document{under}", chunk.text, f"{name}:{chunk.first}-{chunk.last}")


def _cost(blocks: Sequence[ContextBlock]) -> int:
    return sum(count_tokens(f"{each.title} {each.source}\n{each.text}") for each in blocks)


class DocumentSource:
    """Files and folders as context; calls `tell` for every file that is left out."""

    def __init__(
        self,
        paths: Sequence[Path | str],
        *,
        limits: FileLimits | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._paths = tuple(Path(path) for path in paths)
        self._limits = limits or FileLimits()
        self._ranker = LexicalRanker()
        self._report = tell
        self._read: dict[Path, _Document] = {}
        self._reported: set[str] = set()
        self._busy = threading.Lock()

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns whole documents if all fit, else the chunks that fit the query best."""
        notes: list[str] = []
        blocks = await asyncio.to_thread(self._gather, query, token_limit, notes.append)
        # Told here and not in the thread: whoever listens is no friend of threads.
        for note in notes:
            if note not in self._reported:
                self._reported.add(note)
                self._report(note)
        return blocks

    def _gather(self, query: str, tokens: int, note: Callable[[str], None]) -> list[ContextBlock]:
        with self._busy:
            found = find_files(self._paths, self._limits, note)
            documents = {each.name: self._document(each, note) for each in found}
            self._read = {each.path: documents[each.name] for each in found}
            filled = {name: each for name, each in documents.items() if each.chunks}
            if sum(len(each.text) for each in filled.values()) <= tokens * 16:
                whole = [
                    _block(name, Chunk(each.text.strip("\n"), 1, each.chunks[-1].last))
                    for name, each in filled.items()
                ]
                if _cost(whole) <= tokens:
                    return whole
            return self._best_chunks(filled, query, tokens)

    def _document(self, found: Found, note: Callable[[str], None]) -> _Document:
        known = self._read.get(found.path)
        if known is None or known.stamp != found.stamp:
            text, problem = read_document(found, self._limits)
            kind = found.path.suffix.lower()
            cut = tuple(chunks(text, headings=kind in _HEADED))
            if kind in _TABLES and cut:
                header = text.partition("\n")[0][:200]
                cut = (cut[0], *(each._replace(heading=header) for each in cut[1:]))
            known = _Document(found.stamp, text, cut, problem)
        if known.note:
            note(known.note)
        return known

    def _best_chunks(
        self, documents: dict[str, _Document], query: str, tokens: int
    ) -> list[ContextBlock]:
        pieces = [(name, each) for name, doc in documents.items() for each in doc.chunks]
        searched = tuple(f"{name} {each.heading}\n{each.text}" for name, each in pieces)
        scores = self._ranker.scores(query, searched)
        order = sorted(range(len(pieces)), key=lambda at: (-scores[at], at))[:12]
        taken: list[ContextBlock] = []
        for at in order:
            block = _block(*pieces[at])
            if scores[at] <= 0 or scores[at] < _WORTH * scores[order[0]]:
                break
            if _cost([*taken, block]) <= tokens:
                taken.append(block)
            elif not taken:
                left = tokens - _cost([replace(block, text="")])
                text = clipped(block.text, tokens=max(left, 0), count=count_tokens)
                return [replace(block, text=text)] if text else []
        return taken
