"""Landlock: the kernel's own fence for one process, where namespaces are not to be had."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_ASK_VERSION: Final = 1
_RULE_PATH: Final = 1
_READS: Final = 0b1101  # execute, read a file, read a folder
_ON_FILES: Final = 0b1100000000000111  # of the rights below, those that a file can have
_ALL_FILES: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_TCP: Final = 0b11
_SCOPES: Final = 0b11  # abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    """What a fence is about."""

    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    """What may be done below a path."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The version of Landlock in this kernel, 0 when there is none."""
    found = _libc.syscall(
        ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION)
    )
    return max(0, int(found))


def gaps(number: int) -> tuple[str, ...]:
    """What a version leaves open, in words."""
    if number == 0:
        return (
            "files: the code can read and write whatever its user can",
            "network: the code can reach it",
            "processes: the code can signal those of its user",
        )
    found: list[str] = []
    if number < 3:
        found.append("files: the code can cut files short that its user can write")
    told = "by UDP and other protocols than TCP" if number >= 4 else "in every way"
    found.append(f"network: the code can reach it {told}")
    if number < 6:
        found.append("processes: the code can signal those of its user")
    return tuple(found)


def fence_in(number: int, readable: Sequence[str], writable: Sequence[str]) -> None:
    """Leave this process, and all it starts, these paths only; no TCP where that can be said."""
    files = _ALL_FILES[min(number, 5)]
    rules = _Ruleset(files, _TCP if number >= 4 else 0, _SCOPES if number >= 6 else 0)
    size = 24 if number >= 6 else 16 if number >= 4 else 8
    handle = _called(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint(0))
    try:
        for allowed, paths in ((_READS, readable), (files, writable)):
            for path in paths:
                with suppress(FileNotFoundError):
                    _allow(handle, path, allowed & files)
        _called(_RESTRICT, ctypes.c_int(handle), ctypes.c_uint(0))
    finally:
        os.close(handle)


def _allow(handle: int, path: str, allowed: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = allowed if Path(path).is_dir() else allowed & _ON_FILES
        rule = _PathRule(rights, opened)
        _called(
            _ADD,
            ctypes.c_int(handle),
            ctypes.c_int(_RULE_PATH),
            ctypes.byref(rule),
            ctypes.c_uint(0),
        )
    finally:
        os.close(opened)


def _called(number: int, *arguments: object) -> int:
    done = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if done < 0:
        told = ctypes.get_errno()
        raise OSError(told, f"the fence of Landlock: {os.strerror(told)}")
    return done
