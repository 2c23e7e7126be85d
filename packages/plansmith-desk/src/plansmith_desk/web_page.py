"""Converts a response to text: decompresses within limits, decodes, and makes HTML readable."""

from __future__ import annotations

import codecs
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin, urlsplit

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith_desk.encodings import decoded, marked

_META: Final = re.compile(rb"(?i)<meta[^>]{0,200}charset\s*=\s*+[\"']?\s*([\w.:-]{1,40})")
# Codecs that are not ways to write a page, and some that take very long on purpose-made bytes.
_STRANGE: Final = "idna punycode unicode_escape raw_unicode_escape utf-7 undefined mbcs oem"


def unpacked(pieces: Iterator[bytes], encoding: str, *, most: int) -> tuple[bytes, bool]:
    """Returns at most `most` bytes of the body, and whether that is all of it."""
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ToolFailed(Sentence("the answer is compressed as '{way}'", way=encoding[:40]))
    # It finds out by itself whether it is gzip or zlib.
    machine = None if encoding in ("", "identity") else zlib.decompressobj(wbits=47)
    found = bytearray()
    try:
        for piece in pieces:
            found += machine.decompress(piece, most + 1 - len(found)) if machine else piece
            if len(found) > most:
                return bytes(found[:most]), False
    except zlib.error as error:
        what = Sentence("the answer cannot be decompressed: {error}", error=error)
        raise ToolFailed(what) from None
    if machine and not machine.eof:
        raise ToolBusy(Sentence("the compressed answer is incomplete"))
    return bytes(found), True


def text_of(body: bytes, charset: str, *, html: bool) -> tuple[str, list[str]]:
    """Decodes a body; returns the text, and notes on guesses."""
    notes: list[str] = []
    meta = _META.search(body[:4096]) if html else None
    told = (marked(body), charset, meta[1].decode("ascii", "replace") if meta else "")
    for name in filter(None, told):
        known = _codec(name)
        if known is None:
            notes.append(f"the charset {name[:40]!r} is not known")
            continue
        text = body.decode(known, "replace")
        bad = text.count("\N{REPLACEMENT CHARACTER}")
        if bad:
            notes.append(f"{bad} characters are not in {known} and were replaced")
        return text, notes
    text, guess = decoded(body)
    if guess:
        notes.append(f"no charset was given and it is not UTF-8: read as {guess}")
    return text, notes


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
        "".encode(found)
        b"".decode(found)
    except (LookupError, ValueError):
        return None
    if {found, found.replace("-", "_")} & set(_STRANGE.split()):
        return None
    # Browsers read these two as the larger set that they are a part of.
    return "windows-1252" if found in ("iso8859-1", "ascii") else found


_DROPPED_TAGS: Final = (
    "script style noscript template svg math iframe object canvas audio video select datalist "
    "dialog"
)
_VOID_TAGS: Final = "area base br col embed hr img input link meta source track wbr"
_BLOCKS: Final = (
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer "
    "form header hr main nav p pre section summary table caption"
)
_DROPPED, _VOID = frozenset(_DROPPED_TAGS.split()), frozenset(_VOID_TAGS.split())
# What comes before an element's text.
_BEFORE: Final = {
    **dict.fromkeys(_BLOCKS.split(), "\n\n"),
    **{f"h{depth}": f"\n\n{'#' * depth} " for depth in range(1, 7)},
    "br": "\n",
    "tr": "\n",
    "td": " | ",
    "th": " | ",
}
_KEEP: Final = "\0"  # before a line that is kept letter for letter
_CHUNK: Final = 65_536
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


@dataclass(slots=True)
class Page:
    """The readable content of a page."""

    title: str = ""
    text: str = ""
    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    complete: bool = True


def page_of(html: str, address: str, *, seconds: float) -> Page:
    """Returns the readable part of a page; only its start if that takes too long."""
    reader = _Reader(address, time.monotonic() + seconds)
    try:
        # In pieces: the parser goes over an unfinished piece again and again.
        for start in range(0, len(html), _CHUNK):
            reader.feed(html[start : start + _CHUNK])
            reader.check()
        reader.close()
    except TimeoutError:
        reader.page.complete = False
    return reader.finished()


class _Reader(HTMLParser):
    """Collects text, with line breaks where a browser makes them."""

    def __init__(self, address: str, end: float) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._base = address
        self._end = end
        self._out: list[str] = []
        self._dropped: list[str] = []
        self._lists: list[int] = []
        self._link: tuple[str, int] | None = None
        self._in_title = self._in_head = False
        self._pre = 0
        self._ticks = 0

    def check(self) -> None:
        if time.monotonic() > self._end:
            raise TimeoutError

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tick()
        found = {name: value or "" for name, value in attrs}
        if self._dropped:
            if tag not in _VOID:
                self._dropped.append(tag)
            return
        if tag not in _VOID and (tag in _DROPPED or _is_hidden(found)):
            self._dropped.append(tag)
        elif tag == "base" and found.get("href"):
            self._base = _absolute(self._base, found["href"]) or self._base
        elif tag == "title":
            self._in_title = not self.page.title
        elif tag == "head":
            self._in_head = True
        else:
            self._in_head &= tag != "body"
            self._open(tag, found)

    def _open(self, tag: str, found: dict[str, str]) -> None:
        self._out.append(_BEFORE.get(tag, ""))
        if tag in ("ul", "ol"):
            self._out.append("" if self._lists else "\n\n")
            self._lists.append(0 if tag == "ol" else -1)
        elif tag == "li":
            depth = "  " * min(6, max(0, len(self._lists) - 1))
            ordered = bool(self._lists) and self._lists[-1] >= 0
            if ordered:
                self._lists[-1] += 1
            self._out.append(f"\n{depth}{f'{self._lists[-1]}.' if ordered else '-'} ")
        elif tag == "pre":
            self._pre += 1
            self._out.append(_KEEP)
        elif tag == "img" and found.get("alt", "").strip():
            self._out.append(f"[image: {' '.join(found['alt'].split())}]")
        elif tag == "a":
            target = _absolute(self._base, found.get("href", ""))
            self._link = (target, len(self._out)) if target else None

    def handle_endtag(self, tag: str) -> None:
        """Handles the end of an element; ignores one that never started."""
        self._tick()
        if tag in self._dropped:
            while self._dropped.pop() != tag:
                pass
        elif not self._dropped:
            self._in_title &= tag != "title"
            self._in_head &= tag != "head"
            if tag in ("ul", "ol") and self._lists:
                self._lists.pop()
                self._out.append("" if self._lists else "\n\n")
            elif tag == "pre":
                self._pre = max(0, self._pre - 1)
            elif tag == "a" and self._link is not None:
                self._close_link(*self._link)
            self._out.append("\n\n" if _BEFORE.get(tag, "").startswith("\n\n") else "")

    def _close_link(self, target: str, start: int) -> None:
        self._link = None
        text = " ".join("".join(self._out[start:]).split())
        if text:
            # Within the text, so that the links are where they were.
            self._out[start:] = [f"[{text}]({target})"]
            self.page.links.append((text, target))

    def handle_data(self, data: str) -> None:
        self._tick()
        if self._dropped:
            return
        if self._in_title:
            self.page.title = " ".join(f"{self.page.title}{data}".split())
        elif not self._in_head:
            kept = data.replace(_KEEP, "")
            lines = kept.replace("\n", f"\n{_KEEP}") if self._pre else re.sub(r"\s+", " ", kept)
            self._out.append(lines)

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks % 256 == 0:
            self.check()

    def finished(self) -> Page:
        lines = [_line(line) for line in "".join(self._out).split("\n")]
        self.page.text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        return self.page


def _line(line: str) -> str:
    if line.startswith(_KEEP):
        return line.replace(_KEEP, "").rstrip()
    body = line.strip()
    indent = len(line) - len(line.lstrip())
    listed = body.startswith("- ") or re.match(r"\d+\. ", body)
    return (line[:indent] if listed else "") + re.sub(r" {2,}", " ", body).strip("| ")


def _is_hidden(found: dict[str, str]) -> bool:
    if "hidden" in found or found.get("aria-hidden", "").lower() == "true":
        return True
    return bool(_HIDDEN.search(found.get("style", "")))


def _absolute(base: str, target: str) -> str:
    """Returns the full address of a link; empty for scripts, data and anchors."""
    target = target.strip()
    if not target or target.startswith("#"):
        return ""
    try:
        found = urljoin(base, target)
        scheme = urlsplit(found).scheme
    except ValueError:
        return ""
    plain = re.sub(r"[\s<>()\[\]]", lambda bad: f"%{ord(bad[0]):02X}", found)
    return plain if scheme in ("http", "https", "mailto") else ""
