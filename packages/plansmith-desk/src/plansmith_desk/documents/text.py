"""The text of one file, whatever it is: plain text, PDF (by pypdf), DOCX, or a web page.

PDF and DOCX are read in a child process: a small file can be made to take hours or all memory.
"""

from __future__ import annotations

import io
import logging
import re
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, cast
from xml.etree import ElementTree as ET
from xml.parsers import expat

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith_desk.encodings import decoded, marked
from plansmith_desk.sandbox.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith_desk.toolset import Job
from plansmith_planner.context.files import page_text

PAGED: Final = frozenset({".pdf", ".docx"})
_WEB: Final = frozenset({".html", ".htm"})


def file_text(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the text of a file as it stands there, and notes on what was not read."""
    if not is_paged(name):
        return _plain_text(name, data), []
    found = _in_child(name, data, head=False, seconds=_SECONDS)
    return str(found["text"]), list(found["notes"])


def paper_head(name: str, data: bytes, *, seconds: float) -> tuple[int, str]:
    """Returns the number of pages of a PDF file, 0 for a DOCX file, and how its text begins."""
    found = _in_child(name, data, head=True, seconds=seconds)
    return int(found["pages"]), str(found["text"])


_SECONDS: Final = 30.0
_GRACE_S: Final = 1.0
_HEAD: Final = 4_096


def _in_child(name: str, data: bytes, *, head: bool, seconds: float) -> dict[str, Any]:
    if kind(name) == ".pdf" and find_spec("pypdf") is None:
        hint = 'pip install packages/* "plansmith[documents]"'
        raise ToolFailed(Sentence("PDF needs pypdf, which is not installed"), hint=hint)
    arguments = {"name": name, "data": data, "head": head}
    limits = ProcessLimits(seconds=seconds, memory_bytes=1 << 30, grace_s=_GRACE_S)
    try:
        found = cast("Any", SUBPROCESSES.call(read_here, arguments, limits=limits, job=None))
    except ToolBusy:
        raise
    except ToolFailed:
        hint = Sentence("it is damaged, or made to do harm: use another version of it")
        message = f"{name} takes too much time or memory to be read"
        raise ToolFailed(message, hint=hint) from None
    if "failed" in found:
        raise ToolFailed(found["failed"], hint=found["hint"])
    return cast("dict[str, Any]", found)


def read_here(job: Job, *, name: str, data: bytes, head: bool) -> dict[str, Any]:
    """Reads a PDF or DOCX file in this process, which is a child of the one that asks."""
    del job
    pages = 0
    try:
        if kind(name) == ".docx":
            text, notes = _docx_text(name, data)
        else:
            pages, text, notes = _pdf_text(name, data, head=head)
    except ToolFailed as error:
        return {"failed": error.message, "hint": error.hint}
    return {"text": text[:_HEAD] if head else text, "notes": notes, "pages": pages}


def readable_text(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the text that people read: of a web page what is seen."""
    text, notes = file_text(name, data)
    if kind(name) in _WEB:
        text = page_text(text)
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def is_paged(name: str) -> bool:
    """Whether a file is one whose text has to be taken out, by the end of its name."""
    return kind(name) in PAGED


def kind(name: str) -> str:
    """Returns the end of a file's name with its dot, in lower case; nothing where there is none."""
    # Not by pathlib, which takes a quarter of the time of a look-up.
    before, dot, end = name.rpartition("/")[2].rpartition(".")
    return f".{end.lower()}" if before and dot else ""


def _plain_text(name: str, data: bytes) -> str:
    if b"\0" in data and not marked(data):
        raise ToolFailed(Sentence("{name} is not a text file", name=name))
    text, guess = decoded(data)
    # Any bytes can be read as Windows-1252.
    if guess == "Windows-1252":
        raise ToolFailed(Sentence("{name} is not a text file in UTF-8", name=name))
    return text


_MAX_PAGES: Final = 500
_MAX_DRAWN: Final = 5_000_000


def _pdf_text(name: str, data: bytes, *, head: bool) -> tuple[int, str, list[str]]:
    """Returns the number of pages, the text of all or of the first, and notes on what is unread."""
    pypdf = import_module("pypdf")
    # It warns of every small flaw of a file; nobody is there to read that.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    hint = Sentence("the file is damaged: make it again, or open it in a viewer")
    damaged = ToolFailed(Sentence("{name} is not a PDF that can be read", name=name), hint=hint)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not _unlocked(reader)
        count = 0 if locked else len(reader.pages)
    except Exception:  # noqa: BLE001 - a broken file ends in whatever error the library meets
        raise damaged from None
    if locked:
        raise ToolFailed(Sentence("{name} is protected by a password", name=name))
    texts = list(_pdf_pages(reader, min(count, 1 if head else _MAX_PAGES)))
    if head:
        return count, (texts or [None])[0] or "", []
    if count and all(text is None for text in texts):
        raise damaged
    filled = [text.strip() for text in texts if text and text.strip()]
    if not filled:
        hint = Sentence(
            "its pages are pictures: use a version with text, or one made by text recognition"
        )
        raise ToolFailed(Sentence("{name} has no text", name=name), hint=hint)
    notes: list[str] = []
    if len(texts) < count:
        notes.append(f"only the first {len(texts)} of {count} pages of {name} were read")
    if len(filled) < len(texts):
        notes.append(f"{len(texts) - len(filled)} of {count} pages of {name} have no text")
    return count, "\n\n".join(filled) + "\n", notes


def _unlocked(reader: Any) -> bool:
    """Tries the empty password: many files may be read and only not printed or changed."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - a cipher that is not there is a closed door too
        return False


def _pdf_pages(reader: Any, count: int) -> Iterator[str | None]:
    """Yields the text of each page, None for a broken one, until the time is up."""
    end = time.monotonic() + 20.0
    for at in range(count):
        if at and time.monotonic() > end:
            return
        try:
            page = reader.pages[at]
            contents = page.get_contents()
            # To read a page takes time by its size: one of many megabytes is a trap, not text.
            small = contents is not None and len(contents.get_data()) <= _MAX_DRAWN
            yield str(page.extract_text()) if small else "" if contents is None else None
        except Exception:  # noqa: BLE001 - one broken page must not hide the others
            yield None


_DOCX_PART: Final = "word/document.xml"
_MAX_UNPACKED: Final = 40_000_000
_MAX_LETTERS: Final = 2_000_000
_BROKEN_DOCX: Final = (
    *(zipfile.BadZipFile, zlib.error, ET.ParseError, KeyError, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)


def _docx_text(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the text of the paragraphs and tables, and notes on what was not read."""
    pieces: list[str] = []
    letters = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_DOCX_PART) as part:
            xml = part.read(_MAX_UNPACKED + 1)
        _check_xml(name, xml)
        for piece in _docx_pieces(xml):
            pieces.append(piece)
            letters += len(piece)
            if letters >= _MAX_LETTERS:
                break
    except _BROKEN_DOCX:
        hint = Sentence("it is damaged, or protected by a password: save it again as .docx")
        message = Sentence("{name} is not a DOCX file that can be read", name=name)
        raise ToolFailed(message, hint=hint) from None
    lines = (line.strip(" |") for line in "".join(pieces).split("\n"))
    text = "\n".join(lines).strip("\n") + "\n"
    if not text.strip():
        raise ToolFailed(Sentence("{name} has no text", name=name))
    cut = f"only the first {_MAX_LETTERS:,} characters of {name} were read"
    return text, [cut] if letters >= _MAX_LETTERS else []


def _check_xml(name: str, xml: bytes) -> None:
    if len(xml) > _MAX_UNPACKED:
        raise ToolFailed(f"{name} unpacks to more than {_MAX_UNPACKED:,} bytes")
    declares: list[str] = []

    def declare(found: str, *_: object) -> None:
        declares.append(found)

    def stop(*_: object) -> None:
        raise StopIteration

    # As the parser itself reads it, in whatever encoding; it comes before the first element.
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = declare
    parser.StartElementHandler = stop
    with suppress(StopIteration, expat.ExpatError):  # what is broken is told below
        parser.Parse(xml, True)  # noqa: FBT003 - it takes no names
    if declares:
        # No real document declares entities; one that does wants to read or to explode.
        raise ToolFailed(Sentence("{name} declares a document type", name=name))


def _docx_pieces(xml: bytes) -> Iterator[str]:
    opened: Counter[str] = Counter()
    events = ET.iterparse(io.BytesIO(xml), events=("start", "end"))  # noqa: S314 - no entities
    for event, node in events:
        tag = node.tag.rpartition("}")[2]
        opened[tag] += 1 if event == "start" else -1
        # A fallback is the same text a second time, for programs that cannot draw the first.
        if not opened["Fallback"]:
            yield _docx_end(tag, node, opened) if event == "end" else _docx_start(tag, node, opened)
        if event == "end" and tag == "p":
            node.clear()


def _docx_start(tag: str, node: ET.Element, opened: Mapping[str, int]) -> str:
    if tag in ("br", "cr"):
        return " " if opened["tc"] else "\n"
    if tag == "pStyle":
        styles = (value for key, value in node.attrib.items() if key.rpartition("}")[2] == "val")
        style = next(styles, "").lower()
        level = re.fullmatch("heading([1-6])", style)
        return "#" * int(level[1]) + " " if level else "# " if style == "title" else ""
    return "\t" if tag == "tab" and not opened["pPr"] else ""


def _docx_end(tag: str, node: ET.Element, opened: Mapping[str, int]) -> str:
    if tag == "t":
        return node.text or ""
    if tag in ("p", "tr"):
        return " " if opened["tc"] else "\n"
    return "| " if tag == "tc" else ""
