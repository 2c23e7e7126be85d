"""The text of a PDF, page by page, by the library pypdf, which is loaded only here."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from plansmith.errors import ToolFailed

_MOST_PAGES: Final = 500
_SECONDS: Final = 20.0


def pdf_text(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the text of all pages, and notes on what was not read."""
    reader = _reader(name, data)
    try:
        count = len(reader.pages)
    except Exception:  # noqa: BLE001 - a broken file ends in whatever error the library meets
        raise _damaged(name) from None
    texts = list(_pages(reader, min(count, _MOST_PAGES)))
    if count and all(text is None for text in texts):
        raise _damaged(name)
    filled = [text.strip() for text in texts if text and text.strip()]
    if not filled:
        hint = "its pages are pictures: use a version with text, or one made by text recognition"
        raise ToolFailed(f"{name} has no text", hint=hint)
    notes: list[str] = []
    if len(texts) < count:
        notes.append(f"only the first {len(texts)} of {count} pages of {name} were read")
    if len(filled) < len(texts):
        notes.append(f"{len(texts) - len(filled)} of {count} pages of {name} have no text")
    return "\n\n".join(filled) + "\n", notes


def pdf_head(name: str, data: bytes) -> tuple[int, str]:
    """Returns the number of pages and the text of the first one."""
    reader = _reader(name, data)
    try:
        return len(reader.pages), next(_pages(reader, 1), None) or ""
    except Exception:  # noqa: BLE001 - a broken file ends in whatever error the library meets
        raise _damaged(name) from None


def _reader(name: str, data: bytes) -> Any:
    try:
        pypdf = import_module("pypdf")
    except ImportError:
        hint = 'pip install "plansmith[documents]"'
        raise ToolFailed("PDF needs pypdf, which is not installed", hint=hint) from None
    # It warns of every small flaw of a file; nobody is there to read that.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not _unlocked(reader)
    except Exception:  # noqa: BLE001 - a broken file ends in whatever error the library meets
        raise _damaged(name) from None
    if locked:
        raise ToolFailed(f"{name} is protected by a password", hint="save it without a password")
    return reader


def _unlocked(reader: Any) -> bool:
    """Tries the empty password: many files may be read and only not printed or changed."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - a cipher that is not there is a closed door too
        return False


def _pages(reader: Any, count: int) -> Iterator[str | None]:
    """Yields the text of each page, None for a broken one, until the time is up."""
    end = time.monotonic() + _SECONDS
    for at in range(count):
        if at and time.monotonic() > end:
            return
        try:
            yield str(reader.pages[at].extract_text())
        except Exception:  # noqa: BLE001 - one broken page must not hide the others
            yield None


def _damaged(name: str) -> ToolFailed:
    hint = "the file is damaged: make it again, or open it in a viewer"
    return ToolFailed(f"{name} is not a PDF that can be read", hint=hint)
