"""Built-in tools that list, read, search, find, write and edit files inside one folder."""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_desk import toolset as ts
from plansmith_desk.documents.text import file_text, is_paged
from plansmith_desk.folder import Folder, fits, search_forms
from plansmith_desk.tool_specs import COUNT, YES, record, spec

_FOLDER: Final = ts.string("Where; the working folder if left out.", default=".")
FOUND: Final = record({"path": ts.TEXT, "size": COUNT, "modified": ts.TEXT})
_LINES: Final = ts.items(record({"line": COUNT, "text": ts.TEXT}))
_spec: Final = partial(spec, idempotent=False, timeout_s=None)
# The words are those that people ask with, in both languages: a planner finds a tool by them.
FILE_TOOLS: Final = (
    _spec(
        "files.list",
        "List what is in one folder: its files with size and date, and its folders. Names only, "
        "not what stands in the files (列出文件夹里有哪些文件).",
        record({}, folder=_FOLDER),
        record({"files": ts.items(FOUND), "folders": ts.items(ts.TEXT)}, left_out=COUNT),
    ),
    _spec(
        "files.read",
        "Read or show the text of one file, whole: text, PDF, Word (读取、查看一个文件的内容).",
        record({"path": ts.string("Path of the file.")}),
        record({"path": ts.TEXT, "text": ts.TEXT}, notes=ts.NOTES),
    ),
    _spec(
        "files.search",
        "Search inside all files of a folder: which files mention, contain or talk about a word "
        "or text, with the lines (搜索内容：哪些文件提到、包含某个词).",
        record({"text": ts.string("The word or words to look for.")}, folder=_FOLDER),
        record(
            {
                "text": ts.TEXT,
                "files": ts.items(record({"path": ts.TEXT, "count": COUNT, "lines": _LINES})),
                "searched": COUNT,
            },
            also=ts.TEXT,
            not_text=COUNT,
            left_out=COUNT,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class FileToolLimits:
    """Limits: files listed or searched, size of one file, lines shown, time of a search."""

    files: int = 200
    bytes_each: int = 1_000_000
    paged_bytes: int = 30_000_000
    searched: int = 5_000
    lines_each: int = 5
    letters_each: int = 200
    seconds: float = 40.0


def listed(path: str, state: os.stat_result) -> Json:
    """Returns what is told of a file in a list."""
    changed = datetime.fromtimestamp(state.st_mtime, UTC).isoformat(timespec="seconds")
    return {"path": path, "size": state.st_size, "modified": changed}


class FileTools(ts.ToolSet):
    """The three tools, confined to a folder; they do not see hidden files."""

    def __init__(self, root: Path, *, limits: FileToolLimits | None = None) -> None:
        self._folder = Folder(root)
        self._limits = limits or FileToolLimits()
        works = (self._list, self._read, self._search)
        super().__init__([ts.BuiltIn(*each) for each in zip(FILE_TOOLS, works, strict=True)])

    def _list(self, given: ts.Arguments, _: ts.Job) -> Json:
        found, inside = list[Json](), list[Json]()
        for path, state in self._folder.entries(self._plain(given.get("folder", "."))):
            if stat.S_ISDIR(state.st_mode):
                inside.append(path)
            else:
                found.append(listed(path, state))
        most = self._limits.files
        left_out = len(found[most:]) + len(inside[most:])
        result: dict[str, Json] = {"files": found[:most], "folders": inside[:most]}
        return result | {"left_out": left_out} if left_out else result

    def _read(self, given: ts.Arguments, _: ts.Job) -> Json:
        path, found = self._named(self._plain(given["path"]))
        text, notes = file_text(path, self._data(path))
        return ts.noted({"path": path, "text": text}, [*found, *notes])

    def _data(self, path: str) -> bytes:
        most = self._limits.paged_bytes if is_paged(path) else self._limits.bytes_each
        return self._folder.read(path, most=most)

    def _named(self, name: str) -> tuple[str, list[str]]:
        """Returns the path of a file; a name alone may stand for the one file in a subfolder."""
        parts = self._folder.parts(name)
        if len(parts) == 1 and not os.path.lexists(self._folder.root / name):
            alike = [
                path
                for path, _ in self._folder.walk(".")
                if path.rpartition("/")[2].casefold() == name.casefold()
            ]
            if len(alike) == 1:
                return alike[0], [f"there is no {name} here; {alike[0]} was read"]
        return "/".join(parts), []

    def _plain(self, name: str) -> str:
        """Returns a path relative to the folder, which may be given whole."""
        root = str(self._folder.root)
        return name.removeprefix(root).lstrip("/") if name.startswith(f"{root}/") else name

    def _search(self, given: ts.Arguments, job: ts.Job) -> Json:
        text: str = given["text"]
        if not text.strip():
            raise ToolFailed(Sentence("there is nothing to search for"))
        needles = search_forms(text)
        found: list[Json] = []
        searched = unreadable = left_out = 0
        end = time.monotonic() + self._limits.seconds
        for path, _ in self._folder.walk(self._plain(given.get("folder", "."))):
            if job.given_up:
                break
            if searched + unreadable >= self._limits.searched or time.monotonic() > end:
                left_out += 1
                continue
            try:
                content = file_text(path, self._data(path))[0]
            except ToolFailed:
                unreadable += 1
                continue
            searched += 1
            lines: list[Json] = [
                {"line": number, "text": line.strip()[: self._limits.letters_each]}
                for number, line in enumerate(content.splitlines(), start=1)
                if any(needle in line.casefold() for needle in needles)
            ]
            first = lines[: self._limits.lines_each]
            hit: Json = {"path": path, "count": len(lines), "lines": first}
            found += [hit] if lines else []
        result: dict[str, Json] = {"text": text, "files": found, "searched": searched}
        if len(needles) > 1:
            result["also"] = needles[1]
        if unreadable:
            result["not_text"] = unreadable
        return result | {"left_out": left_out} if left_out else result


_PATH: Final = ts.string("Path of the file, relative to the working folder.", minLength=1)
FIND: Final = spec(
    "files.find",
    "Find files by their name or kind, here and in all folders below: *.csv, reports/*.md. Gives "
    "path, size and date (按文件名查找文件).",
    record(
        {
            "pattern": ts.string(
                "Such as *.csv; * stands for any letters, ? for one, ** for any folders.",
                minLength=1,
                maxLength=300,
            )
        },
        folder=ts.string("Where to look; the working folder if left out."),
    ),
    record({"files": ts.items(FOUND), "searched": COUNT}, left_out=COUNT),
    timeout_s=30,
)
WRITE: Final = spec(
    "files.write",
    "Write text into a new file, or save a result as a file. A file that is there is only "
    "replaced with overwrite (写入、保存文件).",
    record(
        {"path": _PATH, "text": ts.string("The whole text of the file.")},
        overwrite=ts.flag("Replace a file that is there."),
    ),
    record({"path": ts.TEXT, "bytes": COUNT, "created": YES, "changed": YES}),
    Effect.WRITE,
    timeout_s=30,
)
APPEND: Final = spec(
    "files.append",
    "Add a line or more text to the end of a text file; a file that is not there is made "
    "(在文件末尾追加文字).",
    record({"path": _PATH, "text": ts.string("What is added.")}),
    record({"path": ts.TEXT, "bytes": COUNT}, created=YES),
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
            "old": ts.string("The exact text that is there, line breaks included.", minLength=1),
            "new": ts.string("What stands there afterwards; may be empty."),
        },
        times=ts.whole("How often the old text occurs; once if left out.", 1, 10_000),
    ),
    record({"path": ts.TEXT, "replaced": COUNT}, bytes=COUNT),
    Effect.WRITE,
    idempotent=False,
    timeout_s=30,
)


_MAX_BYTES: Final = 10_000_000
_MAX_FOUND: Final = 500
_MAX_SEARCHED: Final = 100_000


class WorkspaceTools(ts.ToolSet):
    """The tools that write in a folder; `write=False` leaves only the one that finds."""

    def __init__(self, root: Path | Folder, *, write: bool = True, most: int = _MAX_BYTES) -> None:
        self._folder = Folder.of(root)
        self._most = most
        # Two steps that add to one file at once must not lose what the other added.
        self._turn = threading.Lock()
        writing = [
            ts.BuiltIn(WRITE, self._write),
            ts.BuiltIn(APPEND, self._append),
            ts.BuiltIn(REPLACE, self._replace),
        ]
        super().__init__([ts.BuiltIn(FIND, self._find), *(writing if write else [])])

    def _find(self, given: ts.Arguments, job: ts.Job) -> Json:
        files: list[Json] = []
        searched = 0
        for path, state in self._folder.walk(given.get("folder", ".")):
            if job.given_up or searched >= _MAX_SEARCHED:
                break
            searched += 1
            if fits(path, given["pattern"]):
                files.append(listed(path, state))
        left_out = len(files[_MAX_FOUND:])
        result: dict[str, Json] = {"files": files[:_MAX_FOUND], "searched": searched}
        return result | {"left_out": left_out} if left_out else result

    def _write(self, given: ts.Arguments, _: ts.Job) -> Json:
        data, over = given["text"].encode(), given.get("overwrite", False)
        with self._turn:
            done = self._folder.write(given["path"], data, overwrite=over, most=self._most)
        state: dict[str, Json] = {"created": done.created, "changed": done.changed}
        return {"path": self._folder.plain(given["path"]), "bytes": len(data), **state}

    def _append(self, given: ts.Arguments, _: ts.Job) -> Json:
        created = False

        def longer(old: bytes | None) -> bytes:
            nonlocal created
            created = old is None
            gap = b"\n" if old and not old.endswith(b"\n") else b""
            added: bytes = given["text"].encode()
            return (old or b"") + gap + added

        with self._turn:
            data = self._folder.update(given["path"], longer, most=self._most)
        return {"path": self._folder.plain(given["path"]), "bytes": len(data), "created": created}

    def _replace(self, given: ts.Arguments, _: ts.Job) -> Json:
        name, times = given["path"], given.get("times", 1)

        def edited(old: bytes | None) -> bytes:
            if old is None:
                raise ToolFailed(Sentence("there is no file {name}", name=name))
            try:
                text = old.decode()
            except UnicodeDecodeError:
                what = Sentence("{name} is not a text file in UTF-8", name=name)
                raise ToolFailed(what) from None
            found = text.count(given["old"])
            if found != times:
                counts = {"count": found, "name": name, "wanted": times}
                what = Sentence(
                    "the old text occurs {count} times in {name}, not {wanted}", **counts
                )
                around = Sentence("give more of the text around it")
                raise ToolFailed(what, hint=around if found else Sentence("read the file first"))
            changed: str = text.replace(given["old"], given["new"])
            return changed.encode()

        with self._turn:
            data = self._folder.update(name, edited, make=False, most=self._most)
        return {"path": self._folder.plain(given["path"]), "bytes": len(data), "replaced": times}
