"""Prose: a model's Markdown read into a few harmless shapes; whatever is not one is plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.text import visible

_DEEPEST: Final = 4
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM: Final = re.compile(r"(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$")
_QUOTE: Final = re.compile(r"\s{0,3}>\s?(.*)$")
_RULER: Final = re.compile(r"\s*\|?\s*:?-{1,100}:?\s*(?:\|\s*:?-{1,100}:?\s*){1,100}\|?\s*$")
# One alternative a shape; each is bounded, so that no text is read for ever.
_INLINE: Final = re.compile(
    r"(?P<cite>\[step:\s*(?P<steps>[^\[\]\n]{1,400})\])"
    r"|(?P<code>(?P<ticks>`{1,3})(?P<coded>[^`\n]{1,2000})(?P=ticks))"
    r"|!?\[(?P<label>[^\[\]\n]{0,500})\]\(\s*<?(?P<target>[^\s()<>]{1,2000})>?"
    r"(?:\s+[\"'][^\"'\n]{0,200}[\"'])?\s*\)"
    r"|<?(?P<bare>https?://[^\s<>\[\]\"'`]{1,2000})>?"
    r"|\*\*(?P<strong>[^*\n]{1,2000})\*\*"
    r"|(?<![\w*])\*(?P<leaning>[^*\s][^*\n]{0,2000})\*(?!\w)"
)
_TARGET: Final = re.compile(
    r"https?://[^\s<>\"'`\\^{}|]+|mailto:[^\s<>\"'`\\^{}|]+@[^\s<>\"'`\\^{}|]+", re.IGNORECASE
)
_TAIL: Final = ".,;:!?。，；：！？)）"


@dataclass(frozen=True, slots=True)
class Text:
    """Letters, as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Letters of which each one counts."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Words that stand out."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Leaning:
    """Words that are stressed."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """Words that lead to an address, which is a web page or a mailbox and nothing else."""

    spans: tuple[Span, ...]
    target: str


@dataclass(frozen=True, slots=True)
class Cite:
    """The step a claim comes from."""

    step: str


Span = Text | Code | Strong | Leaning | Link | Cite
Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines that belong together."""

    spans: Spans
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows; 1 is the highest level."""

    level: int
    spans: Spans


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list, set in by its depth; `number` is empty in a list without numbers."""

    depth: int
    number: str
    spans: Spans


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of which each letter counts."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, the first one their titles."""

    rows: tuple[tuple[Spans, ...], ...]


Block = Paragraph | Heading | Item | Listing | Table


def read_prose(text: str) -> list[Block]:
    """The blocks of a text; nothing in it can be anything but text, listings and links."""
    return list(_blocks(visible(text).split("\n")))


def safe_target(target: str) -> str:
    """The address of a link, or nothing when it is not one of a web page or a mailbox."""
    return target if _TARGET.fullmatch(target) else ""


def _blocks(lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif fence := _FENCE.match(line):
            end = _closing(lines, at + 1, fence[1])
            yield Listing("\n".join(lines[at + 1 : end]))
            at = end + 1
        elif heading := _HEADING.match(line):
            yield Heading(len(heading[1]), spans(heading[2]))
            at += 1
        elif item := _ITEM.match(line):
            end = _paragraph_end(lines, at)
            depth = min(len(item[1].expandtabs(4)) // 2, _DEEPEST)
            rest = " ".join(each.strip() for each in lines[at + 1 : end])
            yield Item(depth, item[2] or "", spans(f"{item[3]} {rest}".strip()))
            at = end
        elif at + 1 < len(lines) and "|" in line and _RULER.match(lines[at + 1]):
            end = at + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            yield Table(tuple(_cells(each) for each in (line, *lines[at + 2 : end])))
            at = end
        else:
            end = _paragraph_end(lines, at)
            yield _paragraph(lines[at:end])
            at = end


def _closing(lines: Sequence[str], start: int, fence: str) -> int:
    for at in range(start, len(lines)):
        found = _FENCE.match(lines[at])
        if found and found[1].startswith(fence) and not lines[at].strip(" `~"):
            return at
    return len(lines)


def _paragraph_end(lines: Sequence[str], start: int) -> int:
    """Where the lines end that belong to the one at the start."""
    end = start + 1
    while end < len(lines):
        line = lines[end]
        begins = _FENCE.match(line) or _HEADING.match(line) or _ITEM.match(line)
        if not line.strip() or begins:
            break
        end += 1
    return end


def _paragraph(lines: Sequence[str]) -> Paragraph:
    quotes = [_QUOTE.match(line) for line in lines]
    text = "\n".join(
        found[1] if found else line.strip() for line, found in zip(lines, quotes, strict=True)
    )
    return Paragraph(spans(text), quoted=quotes[0] is not None)


def _cells(line: str) -> tuple[Spans, ...]:
    return tuple(spans(cell.strip()) for cell in line.strip().strip("|").split("|"))


def spans(text: str, depth: int = 0) -> Spans:
    """The words of a text with what they are; nested a few times at most."""
    found: list[Span] = []
    end = 0
    for match in _INLINE.finditer(text) if depth < _DEEPEST else ():
        made = _span(match, depth)
        if made:
            found += [Text(text[end : match.start()]), *made]
            end = match.end()
    found.append(Text(text[end:]))
    return tuple(each for each in found if each != Text(""))


def _span(match: re.Match[str], depth: int) -> list[Span]:
    if match["steps"]:
        names = (part.strip().removeprefix("step:") for part in match["steps"].split(","))
        return [Cite(name.strip()) for name in names if name.strip()]
    if match["coded"]:
        return [Code(match["coded"])]
    if match["target"]:
        target = safe_target(match["target"])
        label = match["label"] or match["target"]
        inner = spans(label, _DEEPEST)
        return [Link(inner, target)] if target else [Text(f"{label} ("), *_shown(match["target"])]
    if match["bare"]:
        address = match["bare"].rstrip(_TAIL)
        target = safe_target(address)
        rest = match["bare"][len(address) :]
        return [Link((Text(address),), target), Text(rest)] if target else []
    if match["strong"]:
        return [Strong(spans(match["strong"], depth + 1))]
    return [Leaning(spans(match["leaning"], depth + 1))]


def _shown(target: str) -> list[Span]:
    """An address that nobody may follow, as code, so that it is seen and stays what it is."""
    return [Code(target.replace("`", "'")), Text(")")]
