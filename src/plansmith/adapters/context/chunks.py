"""Chunks: a text cut at headings and paragraphs into pieces that know their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_HEADING: Final = re.compile(r"(#{1,6})\s+(\S.*)")
_CODE_FENCE: Final = re.compile(r"\s*(```|~~~)")


class Chunk(NamedTuple):
    """A piece of a text, its first and last line, and the headings it stands under."""

    text: str
    first: int
    last: int
    heading: str = ""


class _Line(NamedTuple):
    """A line, or a piece of one that is longer than a chunk."""

    number: int
    text: str


def chunks(
    text: str, *, size: int = 1200, overlap: int = 150, headings: bool = True
) -> list[Chunk]:
    """Pieces of about a size in characters; neighbours under one heading overlap a little.

    Without `headings` a line that begins with `#` is a line like any other, as in source code.
    """
    found: list[Chunk] = []
    for heading, lines in _sections(text, size, headings=headings):
        start = 0
        while start < len(lines):
            end = _end(lines, start, size)
            found += _chunk(lines[start:end], heading)
            if end >= len(lines):
                break
            start = _back(lines, start, end, overlap)
    return found


def _sections(text: str, size: int, *, headings: bool) -> Iterator[tuple[str, Sequence[_Line]]]:
    """The lines under each heading, with the headings above it."""
    path: list[tuple[int, str]] = []
    lines: list[_Line] = []
    in_code = False
    for number, line in enumerate(text.split("\n"), start=1):
        in_code ^= bool(_CODE_FENCE.match(line))
        heading = _HEADING.match(line) if headings and not in_code else None
        if heading is not None:
            yield _title(path), lines
            depth = len(heading[1])
            path = [*((level, name) for level, name in path if level < depth), (depth, heading[2])]
            lines = []
        pieces = (line[at : at + size] for at in range(0, len(line), size)) if line else ("",)
        lines += [_Line(number, piece) for piece in pieces]
    yield _title(path), lines


def _title(path: Sequence[tuple[int, str]]) -> str:
    return " > ".join(name.strip()[:80] for _, name in path)


def _end(lines: Sequence[_Line], start: int, size: int) -> int:
    """Where a chunk ends: at its size, and better at an empty line in its second half."""
    length, empty = 0, 0
    for at in range(start, len(lines)):
        length += len(lines[at].text) + 1
        if length > size and at > start:
            return empty or at
        if not lines[at].text.strip() and length > size // 2:
            empty = at + 1
    return len(lines)


def _back(lines: Sequence[_Line], start: int, end: int, overlap: int) -> int:
    """Where the next chunk starts: a few whole lines back, and always further than this one."""
    length, at = 0, end
    while at - 1 > start and length + len(lines[at - 1].text) < overlap:
        at -= 1
        length += len(lines[at].text) + 1
    return at


def _chunk(lines: Sequence[_Line], heading: str) -> Iterator[Chunk]:
    filled = [line for line in lines if line.text.strip()]
    if filled:
        inside = [line for line in lines if filled[0].number <= line.number <= filled[-1].number]
        text = "\n".join(line.text for line in inside)
        yield Chunk(text, filled[0].number, filled[-1].number, heading)
