"""The files that a run writes: what a call would change, what was written, how it is shown."""

from __future__ import annotations

import hashlib
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


ChangeKind = Literal["new", "changed", "same", "deleted"]


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file; of a very large one no data, only what shows that it changed."""

    data: bytes | None
    size: int
    mark: bytes

    @classmethod
    def of(cls, data: bytes) -> FileContent:
        """Returns data with its hash."""
        return cls(data, len(data), hashlib.sha256(data).digest())


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content of a file before and after a call; None where there is no file.

    `is_edit`: what the call does not change in it stays.
    """

    path: str
    before: FileContent | None
    after: FileContent | None
    is_edit: bool = False

    @property
    def kind(self) -> ChangeKind:
        """Whether the file is new, changed, deleted or stays as it is."""
        if self.before == self.after:
            return "same"
        if self.after is None:
            return "deleted"
        return "new" if self.before is None else "changed"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would do to files; or why it would fail."""

    changes: tuple[FileChange, ...] = ()
    error: str = ""
    moved: tuple[str, ...] = ()  # from where to where
    reads: bool = False  # what is written comes from the disk too, and may change there

    @property
    def seen(self) -> str:
        """A hash of what is on the disk now: it differs once a file has changed."""
        found = hashlib.sha256("\0".join([self.error, *self.moved]).encode())
        for change in self.changes:
            mark = b"-" if change.before is None else change.before.mark
            if self.reads and change.after is not None:
                mark += change.after.mark
            found.update(change.path.encode() + b"\0" + mark)
        return found.hexdigest()

    @property
    def is_done(self) -> bool:
        """Whether the files are as the call would leave them."""
        return bool(self.changes) and all(each.kind == "same" for each in self.changes)


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
