"""Files that keep what is slow to compute: whole and unaltered, or as good as none."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from plansmith.files import replace_file

_DIGEST: Final = 32


def read_kept(path: Path) -> bytes:
    """Returns what was kept in a file; nothing if it is missing or damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return b""
    body = raw[_DIGEST:]
    return body if hashlib.sha256(body).digest() == raw[:_DIGEST] else b""


def keep(path: Path, body: bytes) -> None:
    """Writes a file completely or not at all; ignores a folder that cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, hashlib.sha256(body).digest() + body)
    except OSError:
        return
