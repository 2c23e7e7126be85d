"""Knows the files that nothing may write: those that this process was started with or has open."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

PROJECT_FILE: Final = "plansmith.toml"
# What SQLite and a store keep beside a database.
SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
# Of the process and not of an object, because locks, arguments and open files are.
_held: Final[Counter[Path]] = Counter()
_started: Final[dict[str, set[Path]]] = {}


def hold(path: Path) -> None:
    """Marks a database as open; call `release` as often."""
    _held[path.absolute()] += 1


def release(path: Path) -> None:
    """Marks a database as closed."""
    _held[path.absolute()] -= 1
    if _held[path.absolute()] <= 0:
        del _held[path.absolute()]


def protect(paths: Iterable[Path]) -> None:
    """Marks files and folders that this process was started with, also behind links."""
    for path in paths:
        for each in (path.absolute(), path.resolve()):
            _started.setdefault(_folded(each.name), set()).add(each)


def is_protected(folder: os.stat_result, last: str, state: os.stat_result | None) -> bool:
    """Tells whether a name in a folder is that of such a file, in any spelling, or a link to one.

    The states are those of the folder, and of the file that has the name now, if any.
    """
    name = _folded(last)
    if name == PROJECT_FILE:
        return True  # in any folder: it counts once somebody works there
    named = {
        *_started.get(name, ()),
        *(each for each in _databases() if _folded(each.name) == name),
    }
    if any(_is(each.parent, folder) for each in named):
        return True
    if state is None:
        return False
    if state.st_nlink > 1 and any(_is(each, state) for some in _started.values() for each in some):
        return True
    return is_held(state) or _is_written_to(state)


def may_write(path: Path) -> bool:
    """Tells whether a file may be written that a person names; links are followed."""
    real = path.resolve()
    try:
        folder = real.parent.stat()
    except OSError:
        return True  # there is no such folder: the writing itself says so
    state = real.stat() if real.exists() else None
    parts = (real.name.removesuffix(each) for each in SUFFIXES if real.name.endswith(each))
    of_database = any(name != real.name and real.with_name(name).is_file() for name in parts)
    return not (of_database or is_protected(folder, real.name, state))


def is_held(state: os.stat_result) -> bool:
    """Tells whether a file, by its `stat` result, belongs to a database that is open here.

    Not even a reader may open it: SQLite's locks would be gone when that reader closes it.
    """
    return any(_is(each, state) for each in _databases())


def is_protected_below(state: os.stat_result) -> bool:
    """Tells whether such a file lies in a folder, given by its `stat` result."""
    known = (*_databases(), *(each for some in _started.values() for each in some))
    return any(_is(each, state) for each in {up for path in known for up in path.parents})


def _databases() -> Iterator[Path]:
    for path in list(_held):
        yield from beside({path, path.resolve()})


def beside(databases: Iterable[Path]) -> Iterator[Path]:
    """Yields the files of databases, with those that SQLite and a store keep beside them."""
    for path in databases:
        yield from (path.with_name(f"{path.name}{suffix}") for suffix in SUFFIXES)


def _is(path: Path, state: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), state)
    except OSError:
        return False


def _is_written_to(state: os.stat_result) -> bool:
    """Tells whether this process has a file open to write to it, such as a log or a lock."""
    if sys.platform == "win32":
        return False
    with suppress(OSError):
        for handle in [int(each.name) for each in Path("/dev/fd").iterdir()]:
            with suppress(OSError):
                if os.path.samestat(os.fstat(handle), state):
                    mode = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE
                    if mode != os.O_RDONLY:
                        return True
    return False


def _folded(name: str) -> str:
    """Returns a name as file systems compare it that ignore letter case and forms of letters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
