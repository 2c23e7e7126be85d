"""The port for files of runs and of their folder; an installed package knows them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from plansmith import plugins
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.runs.files import Preview, RunFile
from plansmith.runs.service import RunService

_GROUP: Final = "files"


class WorkFiles(Protocol):
    """Knows which files the calls of runs write."""

    async def consent_preview(
        self, run: Run, asked: QuestionAsked, own: Mapping[str, Json] | None = None
    ) -> Preview | None:
        """Returns what a call that asks for consent would do to files; None if nobody knows."""
        ...

    async def written(self, run_id: str, *, keep: str = "") -> Sequence[RunFile]:
        """Returns the files that a run wrote, with the content of pictures and of `keep`."""
        ...


class WorkFolder(Protocol):
    """A folder that nobody leaves by a path; it raises `ToolFailed` for what it refuses."""

    def parts(self, name: str) -> tuple[str, ...]:
        """Returns the parts of a path inside the folder."""
        ...

    def entries(self, name: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the files and folders in a folder."""
        ...

    def opened(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file to read it."""
        ...

    def replacing(self, name: str, *, overwrite: bool) -> AbstractContextManager[BinaryIO]:
        """Opens a file to write it; it gets its name when it is complete."""
        ...


class _NoFiles:
    """Stands in where no installed package knows files."""

    async def consent_preview(self, *_: object, **__: object) -> None:
        return None

    async def written(self, *_: object, **__: object) -> Sequence[RunFile]:
        return ()


def work_files(runs: RunService) -> WorkFiles:
    """Returns what knows the files of runs."""
    if "runs" not in plugins.names(_GROUP):
        return _NoFiles()
    found: WorkFiles = plugins.load(_GROUP, "runs")(runs)
    return found


def opens_folders() -> bool:
    """Whether an installed package opens folders."""
    return "folder" in plugins.names(_GROUP)


def work_folder(path: Path) -> WorkFolder:
    """Returns a folder; raises `Misconfigured` if no installed package opens one."""
    folder: WorkFolder = plugins.load(_GROUP, "folder")(path)
    return folder
