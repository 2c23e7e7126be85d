"""The workspace folder: no path leads out of it; files are read and replaced as a whole."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final

from plansmith.errors import Misconfigured, OutcomeUnknown, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import is_held, is_protected

_DEEPEST: Final = 16
_MAX_NAME: Final = 200
# What SQLite keeps beside a database, and takes for a part of it.
_BESIDE: Final = ("-wal", "-journal", "-shm")
# Not blocking, so that a pipe in the place of a file cannot hold a thread.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ENTER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NoSuchFile(ToolFailed):
    """There is no file or folder of that name."""


class FileTooLarge(ToolFailed):
    """A file has more bytes than may be read."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did: whether the file is new, and whether anything changed."""

    created: bool
    changed: bool


class Folder:
    """One folder; opens each part of a path from its parent and never follows links.

    A path is never checked first and used later by name: if someone replaces a folder by a link in
    between, the call fails and does not reach a file elsewhere.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise Misconfigured(
                Sentence("there is no folder {folder}", folder=root),
                hint=Sentence("make it, or name another"),
            )

    @staticmethod
    def of(root: Path | Folder) -> Folder:
        return root if isinstance(root, Folder) else Folder(root)

    def parts(self, name: str) -> tuple[str, ...]:
        """Returns the parts of a path inside the folder; none for the folder itself."""
        if name.startswith("/"):
            raise _refused(name, "is an absolute path", "give it relative to the working folder")
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if len(parts) > _DEEPEST:
            raise _refused(name, f"is more than {_DEEPEST} folders deep", "use fewer folders")
        for part in parts:
            _check(name, part)
        return parts

    def plain(self, name: str) -> str:
        return "/".join(self.parts(name))

    def read(self, name: str, *, most: int) -> bytes:
        """Returns the bytes of a regular file; refuses more than `most`."""
        with self.opened(name) as file:
            return _whole(file, name, most)

    @contextmanager
    def opened(self, name: str) -> Generator[BinaryIO]:
        with self.parent(name) as (place, last):
            file = _open(place, last, name)
        if file is None:
            raise NoSuchFile(Sentence("there is no file {name}", name=name))
        with file:
            yield file

    def is_folder(self, name: str) -> bool:
        try:
            with self._folder(self.parts(name), name):
                return True
        except ToolFailed:
            return False

    def is_file(self, name: str) -> bool:
        try:
            with self.parent(name) as (place, last):
                return regular(place, last, name) is not None
        except ToolFailed:
            return False

    def write(self, name: str, data: bytes, *, overwrite: bool, most: int) -> Written:
        """Writes a file atomically; the same content again changes nothing."""
        check_size(name, data, most)
        with self.parent(name, make=True, writes=True) as (place, last):
            known = regular(place, last, name)
            if known is not None:
                same = known.st_size == len(data) and _content(place, last, name, most) == data
                if same:
                    return Written(created=False, changed=False)
                check_free(name, overwrite=overwrite)
            with replacing(place, last, name, old=known) as file:
                file.write(data)
            return Written(created=known is None, changed=True)

    def update(
        self, name: str, change: Callable[[bytes | None], bytes], *, make: bool = True, most: int
    ) -> bytes:
        """Replaces a file by the result of `change`, which gets None for a missing file."""
        with self.parent(name, make=make, writes=True) as (place, last):
            known = regular(place, last, name)
            data = change(None if known is None else _content(place, last, name, most))
            check_size(name, data, most)
            if stamp(known) != stamp(regular(place, last, name)):
                raise ToolFailed(
                    Sentence("{name} changed meanwhile", name=name), hint=Sentence("try it again")
                )
            with replacing(place, last, name, old=known) as file:
                file.write(data)
            return data

    @contextmanager
    def replacing(self, name: str, *, overwrite: bool) -> Generator[BinaryIO]:
        """Opens a file to write it piece by piece; it gets its name when it is complete."""
        with self.parent(name, make=True, writes=True) as (place, last):
            known = regular(place, last, name)
            if known is not None:
                check_free(name, overwrite=overwrite)
            with replacing(place, last, name, old=known) as file:
                yield file

    def entries(self, name: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the regular files and folders in a folder; skips links and hidden ones."""
        parts = self.parts(name)
        with self._folder(parts, name) as handle:
            try:
                with os.scandir(handle) as listed:
                    found = sorted(each.name for each in listed if _is_open(each.name))
            except OSError as error:
                raise failed(name, error) from None
            for each in found:
                with suppress(OSError):  # it is gone meanwhile
                    state = os.stat(each, dir_fd=handle, follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode):
                        yield "/".join((*parts, each)), state

    def walk(self, name: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the regular files in a folder and its subfolders; skips links and hidden ones."""
        parts = self.parts(name)
        start = "/".join(parts)
        with self._folder(parts, name) as handle:
            for place, folders, files, inside in os.fwalk(".", dir_fd=handle):
                folders[:] = sorted(each for each in folders if _is_open(each))
                for each in sorted(filter(_is_open, files)):
                    with suppress(OSError):
                        state = os.stat(each, dir_fd=inside, follow_symlinks=False)
                        if stat.S_ISREG(state.st_mode):
                            below = Path(start, place, each).as_posix()
                            yield below, state

    @contextmanager
    def parent(
        self, name: str, *, make: bool = False, writes: bool = False
    ) -> Generator[tuple[int, str]]:
        """Opens the folder of a file; gives its handle and the last part of the path.

        `writes` refuses what may not be written, and `make` makes the folders that are missing.
        """
        parts = self.parts(name)
        if not parts or name.endswith("/"):
            raise _refused(name, "is not the name of a file", "give the path of a file")
        with self._folder(parts[:-1], name, make=make, writes=writes) as handle:
            if writes:
                check_writable(handle, parts[-1], name)
            yield handle, parts[-1]

    @contextmanager
    def _folder(
        self, parts: tuple[str, ...], name: str, *, make: bool = False, writes: bool = False
    ) -> Generator[int]:
        try:
            handle = os.open(self.root, _ENTER)
        except OSError as error:
            raise failed(name, error) from None
        try:
            if writes and is_protected(self.root.parent.stat(), self.root.name, None):
                raise protected(name)
            for part in parts:
                if writes:
                    check_writable(handle, part, name)
                inner = _enter(handle, part, name, make=make)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def _check(name: str, part: str) -> None:
    if part == "..":
        raise _refused(name, "leads out of the working folder", "write it without ..")
    if part.startswith("."):
        raise _refused(name, "is hidden", "names that begin with a dot are not allowed")
    if "\\" in part or any(unicodedata.category(char) in ("Cc", "Cf") for char in part):
        raise _refused(name, "has a character that is not allowed in names", "use plain letters")
    if len(part.encode()) > _MAX_NAME or part != part.strip():
        raise _refused(name, "is not a usable name", "use a shorter one without outer spaces")


def _is_open(name: str) -> bool:
    return not name.startswith(".") and name.isprintable()


def _enter(place: int, part: str, name: str, *, make: bool) -> int:
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=place)
        return os.open(part, _ENTER, dir_fd=place)
    except FileNotFoundError:
        raise NoSuchFile(
            Sentence("there is no {name}: no folder {part}", name=name, part=part)
        ) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            hint = Sentence("links are not followed")
            raise ToolFailed(
                Sentence("{name}: {part} is not a folder", name=name, part=part), hint=hint
            ) from None
        raise failed(name, error) from None


def regular(place: int, last: str, name: str) -> os.stat_result | None:
    """Returns the state of a regular file; None if there is none; refuses anything else."""
    try:
        state = os.stat(last, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failed(name, error) from None
    if not stat.S_ISREG(state.st_mode):
        raise _no_file(name)
    return state


def _no_file(name: str) -> ToolFailed:
    hint = Sentence("links, folders and devices are refused")
    return ToolFailed(Sentence("file.no_file", name=name), hint=hint)


def check_writable(place: int, last: str, name: str) -> None:
    """Refuses a name of a file that this process was started with or has open."""
    state = None
    with suppress(OSError):
        state = os.stat(last, dir_fd=place, follow_symlinks=False)
    if is_protected(os.fstat(place), last, state):
        raise protected(name)


def protected(name: str) -> ToolFailed:
    """Returns the error for such a file, or a folder with one in it."""
    hint = Sentence(
        "Plansmith was started with it, or has it or something in it "
        "open: stop Plansmith and change it by hand, or choose "
        "another name"
    )
    return ToolFailed(Sentence("{name} may not be changed from here", name=name), hint=hint)


def check_parts(place: int, last: str, name: str) -> None:
    """Refuses a database with changes that wait beside it, and a file that would be such changes.

    One without the other loses changes, and a wrong pair is a damaged database.
    """
    partners = [f"{last}{each}" for each in _BESIDE if each != "-shm"]
    partners += [last.removesuffix(each) for each in _BESIDE if last.endswith(each)]
    for each in partners:
        with suppress(OSError):
            state = os.stat(each, dir_fd=place, follow_symlinks=False)
            if stat.S_ISREG(state.st_mode) and state.st_size:
                hint = Sentence("close the program that uses the database, or open it there once")
                raise ToolFailed(
                    Sentence("{name} and {other} belong together", name=name, other=each), hint=hint
                )


def stamp(state: os.stat_result | None) -> tuple[int, ...]:
    """Returns what changes when a file is written or replaced."""
    return () if state is None else (state.st_ino, state.st_mtime_ns, state.st_size)


def _content(place: int, last: str, name: str, most: int) -> bytes | None:
    file = _open(place, last, name)
    if file is None:
        return None
    with file:
        return _whole(file, name, most)


def _whole(file: BinaryIO, name: str, most: int) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise FileTooLarge(
            Sentence("{name} is larger than {most} bytes", name=name, most=most),
            hint=Sentence("use a smaller file"),
        )
    return data


def _open(place: int, last: str, name: str) -> BinaryIO | None:
    try:
        if is_held(os.stat(last, dir_fd=place, follow_symlinks=False)):
            hint = Sentence("it is a database that is in use: ask for its data by SQL")
            raise ToolFailed(Sentence("{name} is not read as a file", name=name), hint=hint)
        handle = os.open(last, _READ, dir_fd=place)
    except FileNotFoundError:
        return None
    except OSError as error:
        refused = error.errno in (errno.ELOOP, errno.ENXIO)
        raise (_no_file(name) if refused else failed(name, error)) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_file(name)
    return os.fdopen(handle, "rb")


@contextmanager
def replacing(
    place: int, last: str, name: str, *, old: os.stat_result | None
) -> Generator[BinaryIO]:
    """Opens a temporary file and renames it at the end: no one sees an incomplete file."""
    check_parts(place, last, name)
    beside = f".{secrets.token_hex(8)}.part"
    try:
        handle = os.open(beside, _MAKE, 0o666 if old is None else 0o600, dir_fd=place)
        try:
            with os.fdopen(handle, "wb") as file:
                if old is not None:
                    os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)
                yield file
                file.flush()
                os.fsync(file.fileno())
            if old is not None:
                os.rename(beside, last, src_dir_fd=place, dst_dir_fd=place)
            else:
                # A link, and not a rename, fails where somebody took the name meanwhile.
                os.link(beside, last, src_dir_fd=place, dst_dir_fd=place, follow_symlinks=False)
            flush(place, name)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=place)
    except FileExistsError:
        raise ToolFailed(
            Sentence("file.exists", name=name), hint=Sentence("choose another name")
        ) from None
    except OSError as error:
        raise failed(name, error) from None


def flush(place: int, name: str) -> None:
    """Makes the new name durable; what failed at this is there, and may be lost."""
    try:
        os.fsync(place)
    except OSError as error:
        message = f"{name} was written, but may be lost in a power cut: {error.strerror}"
        raise OutcomeUnknown(message) from None


def check_free(name: str, *, overwrite: bool) -> None:
    """Refuses to replace a file unless that is asked for."""
    if not overwrite:
        hint = Sentence("choose another name, or set overwrite to true")
        raise ToolFailed(Sentence("file.exists", name=name), hint=hint)


def check_size(name: str, data: bytes, most: int) -> None:
    """Refuses content that is larger than `most` bytes."""
    if len(data) > most:
        raise ToolFailed(
            Sentence("{name} would be larger than {most} bytes", name=name, most=most),
            hint=Sentence("write less"),
        )


def _refused(name: str, why: str, hint: str) -> ToolFailed:
    return ToolFailed(f"{name!r} {why}", hint=hint)


def failed(name: str, error: OSError) -> ToolFailed:
    """Returns the error of a file operation, without the operating system's path."""
    return ToolFailed(f"{name}: {error.strerror or type(error).__name__}")


_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_MOST: Final = 64


def fits(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern, in any letter case.

    A pattern without a folder matches in every folder; a comma divides several patterns.
    """
    names = path.casefold().split("/")
    patterns = _alternatives(pattern.casefold())
    return any(_fits_parts(names, each.split("/")) for each in patterns)


def _fits_parts(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Matches folders and a file one by one; `**` stands for any folders."""
    reached = {0}  # how many names may be matched so far
    for part in parts:
        if part == "**":
            reached = {at for first in reached for at in range(first, len(names) + 1)}
        else:
            plain = part.replace("[", "[[]")
            there = (at for at in reached if at < len(names))
            reached = {at + 1 for at in there if fnmatchcase(names[at], plain)}
    return len(names) in reached


def is_pattern(path: str) -> bool:
    """Whether a text is a pattern and not the name of one file."""
    return any(mark in path for mark in "*?{,")


def _alternatives(pattern: str) -> list[str]:
    """Returns the plain patterns of one with braces and commas; at most so many."""
    found = [pattern]
    while (braces := _BRACES.search(found[0])) and len(found) < _MOST:
        choices = braces[1].split(",")
        found = [
            each.replace(braces[0], choice.strip(), 1) for each in found for choice in choices
        ][:_MOST]
    parts = [part.strip() for each in found for part in each.split(",")]
    return [part.removeprefix("./") if "/" in part else f"**/{part}" for part in parts if part]


def search_forms(text: str) -> tuple[str, ...]:
    """Returns the search texts: lower case, and for an English plural also the singular."""
    plain = text.casefold()
    plural = re.fullmatch(r"[a-z]{3,}[a-rt-z]s", plain)
    return (plain, plain[:-1]) if plural else (plain,)
