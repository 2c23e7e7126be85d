"""Built-in tools that find, write, extend and edit text files inside one folder."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.tools.toolset import (
    TEXT,
    Arguments,
    BuiltIn,
    Job,
    ToolSet,
    flag,
    items,
    string,
    whole,
)
from plansmith_desk.files.tools import FOUND, listed
from plansmith_desk.folder import Folder
from plansmith_desk.patterns import fits
from plansmith_desk.tool_specs import COUNT, YES, record, spec

_PATH: Final = string("Path of the file, relative to the working folder.", minLength=1)
FIND: Final = spec(
    "files.find",
    "Find files by their name or kind, here and in all folders below: *.csv, reports/*.md. Gives "
    "path, size and date (按文件名查找文件).",
    record(
        {
            "pattern": string(
                "Such as *.csv; * stands for any letters, ? for one, ** for any folders.",
                minLength=1,
                maxLength=300,
            )
        },
        folder=string("Where to look; the working folder if left out."),
    ),
    record({"files": items(FOUND), "searched": COUNT}, left_out=COUNT),
    timeout_s=30,
)
WRITE: Final = spec(
    "files.write",
    "Write text into a new file, or save a result as a file. A file that is there is only "
    "replaced with overwrite (写入、保存文件).",
    record(
        {"path": _PATH, "text": string("The whole text of the file.")},
        overwrite=flag("Replace a file that is there."),
    ),
    record({"path": TEXT, "bytes": COUNT, "created": YES, "changed": YES}),
    Effect.WRITE,
    timeout_s=30,
)
APPEND: Final = spec(
    "files.append",
    "Add a line or more text to the end of a text file; a file that is not there is made "
    "(在文件末尾追加文字).",
    record({"path": _PATH, "text": string("What is added.")}),
    record({"path": TEXT, "bytes": COUNT}, created=YES),
    Effect.WRITE,
    idempotent=False,
    timeout_s=30,
)
REPLACE: Final = spec(
    "files.replace",
    "Replace an exact text in a file by another one. It has to occur exactly as often as `times` "
    "says, else nothing is changed (替换文件中的文字).",
    record(
        {
            "path": _PATH,
            "old": string("The exact text that is there, line breaks included.", minLength=1),
            "new": string("What stands there afterwards; may be empty."),
        },
        times=whole("How often the old text occurs; once if left out.", 1, 10_000),
    ),
    record({"path": TEXT, "replaced": COUNT}, bytes=COUNT),
    Effect.WRITE,
    idempotent=False,
    timeout_s=30,
)


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    """Limits: size of a file, names found and names looked at."""

    bytes_each: int = 10_000_000
    found: int = 500
    searched: int = 100_000


class WorkspaceTools(ToolSet):
    """The tools that write in a folder; `write=False` leaves only the one that finds."""

    def __init__(
        self, root: Path | Folder, *, write: bool = True, limits: WorkspaceLimits | None = None
    ) -> None:
        self._folder = Folder.of(root)
        self._limits = limits or WorkspaceLimits()
        # Two steps that add to one file at once must not lose what the other added.
        self._turn = threading.Lock()
        writing = [
            BuiltIn(WRITE, self._write),
            BuiltIn(APPEND, self._append),
            BuiltIn(REPLACE, self._replace),
        ]
        super().__init__([BuiltIn(FIND, self._find), *(writing if write else [])])

    def _find(self, given: Arguments, job: Job) -> Json:
        files: list[Json] = []
        searched = 0
        for path, state in self._folder.walk(given.get("folder", ".")):
            if job.given_up or searched >= self._limits.searched:
                break
            searched += 1
            if fits(path, given["pattern"]):
                files.append(listed(path, state))
        left_out = len(files[self._limits.found :])
        result: dict[str, Json] = {"files": files[: self._limits.found], "searched": searched}
        return result | {"left_out": left_out} if left_out else result

    def _write(self, given: Arguments, job: Job) -> Json:
        del job
        data, over = given["text"].encode(), given.get("overwrite", False)
        with self._turn:
            done = self._folder.write(
                given["path"], data, overwrite=over, most=self._limits.bytes_each
            )
        told: dict[str, Json] = {"created": done.created, "changed": done.changed}
        return {"path": self._name(given), "bytes": len(data), **told}

    def _append(self, given: Arguments, job: Job) -> Json:
        del job
        created = False

        def longer(old: bytes | None) -> bytes:
            nonlocal created
            created = old is None
            gap = b"\n" if old and not old.endswith(b"\n") else b""
            added: bytes = given["text"].encode()
            return (old or b"") + gap + added

        with self._turn:
            data = self._folder.update(given["path"], longer, most=self._limits.bytes_each)
        return {"path": self._name(given), "bytes": len(data), "created": created}

    def _replace(self, given: Arguments, job: Job) -> Json:
        del job
        name, times = given["path"], given.get("times", 1)

        def edited(old: bytes | None) -> bytes:
            text = _decoded(name, old)
            found = text.count(given["old"])
            if found != times:
                raise ToolFailed(
                    Sentence(
                        "the old text occurs {count} times in {name}, not {wanted}",
                        count=found,
                        name=name,
                        wanted=times,
                    ),
                    hint=Sentence("give more of the text around it")
                    if found
                    else Sentence("read the file first"),
                )
            changed: str = text.replace(given["old"], given["new"])
            return changed.encode()

        with self._turn:
            data = self._folder.update(name, edited, make=False, most=self._limits.bytes_each)
        return {"path": self._name(given), "bytes": len(data), "replaced": times}

    def _name(self, given: Arguments) -> str:
        return "/".join(self._folder.parts(given["path"]))


def _decoded(name: str, data: bytes | None) -> str:
    if data is None:
        raise ToolFailed(Sentence("there is no file {name}", name=name))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolFailed(Sentence("{name} is not a text file in UTF-8", name=name)) from None
