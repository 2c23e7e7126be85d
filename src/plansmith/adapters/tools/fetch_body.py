"""What came over the wire as text: unpacked within bounds, decoded by the charset it is in."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from typing import Final

from plansmith.errors import ToolBusy, ToolFailed

_META: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Codecs that are not ways to write a page, and some that take very long on purpose-made bytes.
_STRANGE: Final = frozenset(
    {
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
        "utf-7",
        "undefined",
        "mbcs",
        "oem",
    }
)


def unpacked(pieces: Iterator[bytes], encoding: str, *, most: int) -> tuple[bytes, bool]:
    """The body of an answer, and whether it is all of it; never more than `most` bytes."""
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ToolFailed(f"the answer is packed as {encoding[:40]!r}, which was not asked for")
    if encoding in ("", "identity"):
        return _joined(pieces, most)
    machine = zlib.decompressobj(wbits=47)  # finds out by itself whether it is gzip or zlib
    found = bytearray()
    try:
        for piece in pieces:
            found += machine.decompress(piece, most + 1 - len(found))
            if len(found) > most:
                return bytes(found[:most]), False
    except zlib.error as error:
        raise ToolFailed(f"the answer cannot be unpacked: {error}") from None
    if not machine.eof:
        raise ToolBusy("the answer ends before what is packed in it does")
    return bytes(found), True


def _joined(pieces: Iterator[bytes], most: int) -> tuple[bytes, bool]:
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > most:
            return bytes(found[:most]), False
    return bytes(found), True


def text_of(body: bytes, charset: str, *, html: bool) -> tuple[str, str, list[str]]:
    """A body as text, the charset it was read in, and notes on what was guessed."""
    notes: list[str] = []
    marked = next((name for mark, name in _BOMS if body.startswith(mark)), "")
    said = [marked, charset]
    if html:
        meta = _META.search(body[:4096])
        said.append(meta[1].decode("ascii", "replace") if meta else "")
    for name in filter(None, said):
        known = _codec(name)
        if known is None:
            notes.append(f"the charset {name[:40]!r} is not known")
            continue
        text = body.decode(known, "replace")
        bad = text.count("\N{REPLACEMENT CHARACTER}")
        if bad:
            notes.append(f"{bad} characters are not in {known} and were replaced")
        return text, known, notes
    try:
        return body.decode("utf-8"), "utf-8", notes
    except UnicodeDecodeError:
        notes.append("no charset was said and it is not UTF-8: read as windows-1252")
        return body.decode("windows-1252", "replace"), "windows-1252", notes


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
        "".encode(found)
        b"".decode(found)
    except (LookupError, ValueError):
        return None
    if found in _STRANGE or found.replace("-", "_") in _STRANGE:
        return None
    # Browsers read these two as the larger set that they are a part of.
    return "windows-1252" if found in ("iso8859-1", "ascii") else found
