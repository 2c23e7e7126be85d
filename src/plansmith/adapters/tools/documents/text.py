"""The text of one file, whatever it is: plain text, PDF, DOCX, or a web page."""

from __future__ import annotations

from typing import Final

from plansmith.adapters.context.files import page_text
from plansmith.adapters.tools.documents.docx import docx_text
from plansmith.adapters.tools.documents.pdf import pdf_text
from plansmith.errors import ToolFailed

PAGED: Final = frozenset({".pdf", ".docx"})
_WEB: Final = frozenset({".html", ".htm"})


def file_text(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the text of a file as it stands there, and notes on what was not read."""
    match kind(name):
        case ".pdf":
            return pdf_text(name, data)
        case ".docx":
            return docx_text(name, data)
        case _:
            return _decoded(name, data), []


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


def _decoded(name: str, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").removeprefix("\ufeff")
    if b"\0" in data:
        raise ToolFailed(f"{name} is not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolFailed(f"{name} is not a text file in UTF-8") from None
