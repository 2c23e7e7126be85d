"""Models of the response bodies about files: what a run wrote, what a call would write."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from plansmith.adapters.tools.file_changes import ChangeKind
from plansmith.adapters.tools.file_kinds import FileKind
from plansmith.adapters.tools.run_files import FileState
from plansmith.server.schemas.responses import QuestionView


class FilePreview(BaseModel):
    """What a call would do to a file; the texts are null where it is none, or very large."""

    path: str
    change: ChangeKind
    size_before: int | None
    size_after: int | None
    kind: FileKind
    before: str | None
    after: str | None


class QuestionWhole(QuestionView):
    """A question with the full values of the call that it is about.

    `files` is null where nobody knows which files the call would write; `seen` is to be sent with
    the answer.
    """

    values: dict[str, Any] | None
    files: list[FilePreview] | None
    seen: str
    would_fail: str
    can_change: bool


class RunFileView(BaseModel):
    """A file that a step of the run wrote, and whether it is still as it was written."""

    path: str
    step: str
    at: datetime
    state: FileState
    size: int
    kind: FileKind


class RunFiles(BaseModel):
    """The files of a run."""

    items: list[RunFileView]
