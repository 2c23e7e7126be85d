"""Reads the files of a folder that a person trusts; its servers start in copies of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.text import safe

MAX_TEXT: Final = 4 * 1024 * 1024
MAX_PROGRAM: Final = 256 * 1024 * 1024


def read_regular_file(path: Path, *, links: bool = True, most: int = MAX_TEXT) -> bytes | None:
    """Returns the content of a regular file, or None where there is no file."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        # A pipe must not block us, and a link must not lead out of the folder.
        handle = os.open(path, flags | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = (
            Sentence("it is a symbolic link") if not links and path.is_symlink() else error.strerror
        )
        raise Misconfigured(
            Sentence("{path} was not read: {why}", path=safe(str(path)), why=why)
        ) from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            why = Sentence("{path} was not read: it is not a regular file", path=safe(str(path)))
            raise Misconfigured(why)
        data = file.read(most + 1)
    if len(data) > most:
        why = Sentence(
            "{path} was not read: it has more than {most} bytes", path=safe(str(path)), most=most
        )
        raise Misconfigured(why)
    return data


@contextmanager
def trusted_copy(folder: Path, files: Mapping[str, str]) -> Generator[Path]:
    """Gives a new folder with copies of files, if their hashes are as they were trusted.

    Programs outside the folder, which have their whole path, are compared and stay there.
    """
    with TemporaryDirectory(prefix="plansmith-server-", ignore_cleanup_errors=True) as made:
        for name, trusted in files.items():
            data = read_regular_file(folder / name, most=MAX_PROGRAM) or b""
            if sha256(data).hexdigest() != trusted:
                hint = Sentence(
                    "look at it and trust it again: plansmith trust {folder}",
                    folder=safe(str(folder)),
                )
                why = Sentence("{name} is not as you trusted it", name=safe(name))
                raise ToolFailed(why, hint=hint)
            if not name.startswith("/"):
                copy = Path(made, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(data)
                copy.chmod(0o700)
        yield Path(made)


def word_forms(text: str) -> Iterator[str]:
    """Yields the parts of an argument or a variable that may be the name of a file."""
    for part in (text, text.partition("=")[2], *text.split(os.pathsep)):
        if part and "\0" not in part:
            yield part


def refuse_folder(folder: Path, texts: Iterable[str]) -> None:
    """Refuses texts that lead past the copy, into the folder itself or to what lies beside."""
    for text in texts:
        paths = [Path(each) for each in word_forms(text)]
        inside = any(each.is_absolute() and each.resolve().is_relative_to(folder) for each in paths)
        if inside or any(".." in each.parts for each in paths) or str(folder) in text:
            hint = Sentence(
                "name files relative to the folder, such as server.py, or "
                "move the server to your own config.toml"
            )
            why = Sentence(
                "a server of a folder starts in a copy of what you trusted, "
                "but its settings lead past it: {text}",
                text=safe(text),
            )
            raise Misconfigured(why, hint=hint)
