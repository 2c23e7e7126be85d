"""The files that a run wrote, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

FileKind = Literal["picture", "markdown", "table", "json", "text", "other"]
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_TEXTS: Final[dict[str, FileKind]] = {
    "md": "markdown",
    "markdown": "markdown",
    "csv": "table",
    "tsv": "table",
    "json": "json",
}
PLAIN: Final = "text/plain; charset=utf-8"
UNKNOWN: Final = "application/octet-stream"


class Shown(NamedTuple):
    """How a file may be shown, and as what media type it may be sent."""

    kind: FileKind
    media: str


def file_kind(name: str, data: bytes) -> Shown:
    """Returns how a file may be shown; the name alone never makes it a picture.

    Text of every kind, HTML too, is sent as plain text: no browser runs it.
    """
    for start, media in _PICTURES:
        if data.startswith(start):
            return Shown("picture", media)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Shown("picture", "image/webp")
    text = as_text(data)
    if text is None:
        return Shown("other", UNKNOWN)
    ending = name.lower().rpartition(".")[2]
    if ending == "svg" and "<svg" in text[:2_000].lower():
        return Shown("picture", "image/svg+xml")
    return Shown(_TEXTS.get(ending, "text"), PLAIN)


def as_text(data: bytes) -> str | None:
    """Returns a content as text; None if it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


FileState = Literal["as_written", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that a step of a run wrote, and its state on the disk now."""

    path: str
    step: str
    at: datetime
    state: FileState
    size: int = 0
    kind: FileKind = "other"
    media: str = ""
    data: bytes = b""
