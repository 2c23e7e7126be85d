"""The text of a DOCX file, streamed out of its archive: no bomb unpacks, no entity is followed."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Final
from xml.parsers import expat

from plansmith.errors import ToolFailed

_PART: Final = "word/document.xml"
_MOST_BYTES: Final = 40_000_000
_MOST_LETTERS: Final = 2_000_000
_PIECE: Final = 65_536
_BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, expat.ExpatError, KeyError, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)


def docx_text(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the text of the paragraphs and tables, and notes on what was not read."""
    body = _Body(name)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_PART) as part:
            read = 0
            while (piece := part.read(_PIECE)) and not body.is_full:
                read += len(piece)
                if read > _MOST_BYTES:
                    message = f"{name} unpacks to more than {_MOST_BYTES:,} bytes"
                    raise ToolFailed(message, hint="use a smaller file")
                body.feed(piece, last=False)
            if not body.is_full:
                body.feed(b"", last=True)
    except _BROKEN:
        hint = "it is damaged, or protected by a password: save it again as .docx"
        raise ToolFailed(f"{name} is not a DOCX file that can be read", hint=hint) from None
    text = body.text()
    if not text.strip():
        raise ToolFailed(f"{name} has no text", hint="perhaps it holds only pictures")
    notes = [f"only the first {_MOST_LETTERS:,} characters of {name} were read"]
    return text, notes if body.is_full else []


class _Body:
    """Collects the text of a Word document: a line for a paragraph and for a row of a table."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces: list[str] = []
        self._letters = 0
        self._in_text = False
        self._in_properties = False
        self._cells = 0
        self._unseen = 0
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._letters_of
        self._parser.StartDoctypeDeclHandler = self._refuse

    @property
    def is_full(self) -> bool:
        """Whether as much text as is allowed has been collected."""
        return self._letters >= _MOST_LETTERS

    def feed(self, piece: bytes, *, last: bool) -> None:
        """Reads on."""
        self._parser.Parse(piece, last)

    def text(self) -> str:
        """Returns the lines that were collected."""
        lines = "".join(self._pieces).split("\n")
        return "\n".join(line.strip(" |") for line in lines).strip("\n") + "\n"

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        match _local(tag):
            case "t":
                self._in_text = True
            case "tc":
                self._cells += 1
            case "pPr":
                self._in_properties = True
            case "tab" if not self._in_properties:
                self._put("\t")
            case "br" | "cr":
                self._put("\n" if not self._cells else " ")
            case "pStyle":
                style = next(
                    (value for key, value in attributes.items() if _local(key) == "val"), ""
                )
                self._head(style)
            case "Fallback":
                # The same text a second time, for programs that cannot draw the first.
                self._unseen += 1
            case _:
                pass

    def _end(self, tag: str) -> None:
        match _local(tag):
            case "t":
                self._in_text = False
            case "pPr":
                self._in_properties = False
            case "p":
                self._put(" " if self._cells else "\n")
            case "tc":
                self._cells -= 1
                self._put("| ")
            case "tr":
                self._put(" " if self._cells else "\n")
            case "Fallback":
                self._unseen -= 1
            case _:
                pass

    def _head(self, style: str) -> None:
        level = style.lower().removeprefix("heading")
        if style.lower() == "title":
            self._put("# ")
        elif style.lower().startswith("heading") and level in "123456" and level:
            self._put("#" * int(level) + " ")

    def _letters_of(self, text: str) -> None:
        if self._in_text:
            self._put(text)

    def _put(self, text: str) -> None:
        if not self._unseen and not self.is_full:
            self._pieces.append(text)
            self._letters += len(text)

    def _refuse(self, *declared: object) -> None:
        # No real document declares entities; one that does wants to read or to explode.
        del declared
        raise ToolFailed(f"{self._name} declares a document type", hint="save it again as .docx")


def _local(tag: str) -> str:
    return tag.rpartition(" ")[2]
