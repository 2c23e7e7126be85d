"""Replaces and locks files that several processes share."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

from plansmith.errors import Misconfigured

if sys.platform != "win32":
    import fcntl


def replace_file(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Replaces a file in one step (mode 0600), so that a reader never sees half of it.

    `durable` waits until the content is on the disk.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(path: Path, *, hint: str, mode: int = 0o777) -> Generator[None]:
    """Locks a file against other writers through `FILE.lock`; creates its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=mode)
        handle = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error}", hint=hint) from None
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
