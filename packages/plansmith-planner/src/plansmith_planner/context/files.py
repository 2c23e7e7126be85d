"""Finds the text files of folders and reads them; HTML becomes text line by line."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import is_held
from plansmith_planner.language import word_list

_SUFFIXES: Final = word_list("text_files")
_NAMES: Final = frozenset({"readme", "license", "changelog", "makefile", "dockerfile", "notice"})
_PAGES: Final = frozenset({".html", ".htm"})
NEVER_READ: Final = frozenset({"node_modules", "__pycache__", "venv"})


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How many files are read, and how much of each and of all together."""

    files: int = 1000
    bytes_each: int = 2_000_000
    bytes_all: int = 50_000_000


class Found(NamedTuple):
    """A file to read, with its display name, size and time."""

    path: Path
    name: str
    stamp: tuple[int, int]


def find_files(
    paths: Sequence[Path], limits: FileLimits, note: Callable[[str], None]
) -> list[Found]:
    """Returns the files under some paths in a fixed order; notes those that are left out."""
    there = [path for path in paths if path.exists()]
    if paths and not there:
        names = ", ".join(map(str, paths))
        missing = Sentence("there are no such documents: {names}", names=names)
        raise Misconfigured(missing, hint=Sentence("give existing paths"))
    for path in paths:
        if path not in there:
            note(_left_out(path, Sentence("there is no such file")))
    found: list[Found] = []
    total = 0
    for path, name in _walk(there, note):
        state = path.stat()
        if len(found) >= limits.files or total + state.st_size > limits.bytes_all:
            most = Sentence(
                "{files} files or {bytes} bytes", files=limits.files, bytes=limits.bytes_all
            )
            text = Sentence(
                "documents left out, more than {most}: {name} and what follows",
                most=most,
                name=name,
            )
            note(text)
            break
        if not is_text_name(path):
            note(_left_out(name, Sentence("not a kind of text")))
        elif state.st_size > limits.bytes_each:
            large = Sentence("larger than {most} bytes", most=limits.bytes_each)
            note(_left_out(name, large))
        else:
            total += state.st_size
            found.append(Found(path, name, (state.st_size, state.st_mtime_ns)))
    return found


def _walk(paths: Sequence[Path], note: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    seen: set[Path] = set()
    for given in paths:
        root = given.resolve()
        inside = _files_below(root, note) if root.is_dir() else iter([(root, root.name)])
        for path, name in inside:
            if path not in seen:
                seen.add(path)
                yield path, name


def _files_below(root: Path, note: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    """Yields the files of a folder; skips hidden ones and links that lead out of it."""

    def named(path: Path) -> str:
        return (Path(root.name) / path.relative_to(root)).as_posix()

    def refuse(error: OSError) -> None:
        name = named(Path(error.filename))
        note(Sentence("folder left out, it cannot be read: {name}", name=name))

    for folder, folders, files in os.walk(root, onerror=refuse):
        links = sorted(each for each in folders if (Path(folder) / each).is_symlink())
        for each in links:
            link = named(Path(folder) / each)
            note(Sentence("folder left out, it is a link: {name}", name=link))
        folders[:] = sorted(
            each for each in folders if each[0] != "." and each not in {*links, *NEVER_READ}
        )
        for each in sorted(files):
            path = Path(folder) / each
            reason = "" if each.startswith(".") else _refusal(root, path.resolve())
            if reason:
                note(_left_out(named(path), reason))
            elif not each.startswith("."):
                yield path.resolve(), named(path)


def _refusal(root: Path, target: Path) -> str:
    """Returns why a file is not read, after its links are resolved."""
    if not target.is_relative_to(root):
        return Sentence("it is a link out of the folder")
    if any(part.startswith(".") for part in target.relative_to(root).parts):
        return Sentence("it is a link to something hidden")
    return "" if target.is_file() else Sentence("it is not a file")


def _left_out(name: object, reason: str) -> Sentence:
    return Sentence("document left out, {reason}: {name}", reason=reason, name=name)


def is_text_name(path: PurePath) -> bool:
    """Whether a file is a text by its name."""
    return path.suffix.lower() in _SUFFIXES or path.stem.lower() in _NAMES


def read_document(found: Found, limits: FileLimits) -> tuple[str, str]:
    """Returns the text of a file, and a note if something is wrong with it."""
    try:
        if is_held(found.path.stat()):
            return "", _left_out(found.name, Sentence("it is a database in use"))
        data = first_bytes(found.path, limits.bytes_each)
    except OSError as error:
        return "", _left_out(f"{found.name}: {error.strerror}", Sentence("it cannot be read"))
    text, note = _decoded(data, found.name)
    if found.path.suffix.lower() in _PAGES:
        text = page_text(text)
    return text.replace("\r\n", "\n").replace("\r", "\n"), note


def first_bytes(path: Path, most: int) -> bytes:
    """Returns the first bytes of a regular file; refuses pipes and devices."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        return file.read(most)


def _decoded(data: bytes, name: str) -> tuple[str, str]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace"), ""
    if b"\0" in data[:8192]:
        return "", _left_out(name, Sentence("it is binary"))
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        note = Sentence(
            "document is not valid UTF-8, its broken characters are replaced: {name}", name=name
        )
        return data.decode("utf-8", "replace"), note


def page_text(page: str) -> str:
    """Returns the visible text of a web page, each line at its place; marks headings."""
    reader = _Page()
    try:
        reader.feed(page)
        reader.close()
    except (AssertionError, ValueError):
        # The parser gives up on a few malformed declarations; what it has read still counts.
        return "".join(reader.pieces) or page
    return "".join(reader.pieces)


class _Page(HTMLParser):
    """Collects the text of a page and keeps every piece on its line."""

    _unseen: Final = frozenset({"script", "style", "template", "noscript", "svg"})
    _inline: Final = frozenset({"a", "abbr", "b", "code", "em", "i", "mark", "span", "strong", "u"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._line = 1
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._depth += tag in self._unseen
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdecimal():
            self._put("#" * int(tag[1]) + " ")
        elif tag not in self._inline:
            self._put(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen and self._depth:
            self._depth -= 1
        elif tag not in self._inline:
            self._put(" ")

    def handle_data(self, data: str) -> None:
        self._put(data)

    def _put(self, text: str) -> None:
        if self._depth:
            return
        missing = self.getpos()[0] - self._line
        self.pieces.append("\n" * missing + text)
        self._line += max(missing, 0) + text.count("\n")
