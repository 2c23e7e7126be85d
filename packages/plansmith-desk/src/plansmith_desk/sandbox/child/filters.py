"""Kernel filters for a process: Landlock for files, seccomp for system calls."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_ASK_VERSION: Final = 1
_RULE_PATH: Final = 1
_READS: Final = 0b1101  # execute, read a file, read a folder
_ON_FILES: Final = 0b1100000000000111  # of the rights below, those that a file can have
_ALL_FILES: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_TCP: Final = 0b11
_SCOPES: Final = 0b11  # abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Returns the kernel's Landlock version; 0 if it has none."""
    found = _libc.syscall(
        ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION)
    )
    return max(0, int(found))


def landlock_gaps(number: int) -> tuple[str, ...]:
    """Describes what a Landlock version does not restrict."""
    if number == 0:
        return (
            "files: the code can read and write whatever its user can",
            "network: the code can reach it",
            "processes: the code can signal those of its user",
        )
    found: list[str] = []
    if number < 3:
        found.append("files: the code can truncate files that its user can write")
    how = "by UDP and other protocols than TCP" if number >= 4 else "in every way"
    found.append(f"network: the code can reach it {how}")
    if number < 6:
        found.append("processes: the code can signal those of its user")
    return tuple(found)


def fence_in(number: int, readable: Sequence[str], writable: Sequence[str]) -> None:
    """Restricts this process and its children to these paths; no TCP if Landlock supports it."""
    files = _ALL_FILES[min(number, 5)]
    rules = struct.pack("=QQQ", files, _TCP, _SCOPES)
    known = rules[: 24 if number >= 6 else 16 if number >= 4 else 8]
    handle = _called(_CREATE, known, ctypes.c_size_t(len(known)), ctypes.c_uint(0))
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
        rule = struct.pack("=Qi", allowed if Path(path).is_dir() else allowed & _ON_FILES, opened)
        _called(_ADD, ctypes.c_int(handle), ctypes.c_int(_RULE_PATH), rule, ctypes.c_uint(0))
    finally:
        os.close(opened)


def _called(number: int, *arguments: object) -> int:
    done = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return done


_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # places in what the kernel shows of a call
_UNIX: Final = 1
_NEW_SPACES: Final = 0x7E020000  # any of the flags that make a namespace
_PUSH_INPUT: Final = 0x5412  # TIOCSTI: types into a terminal
_OTHER_ABI: Final = 0x40000000

# The same numbers on every architecture.
_EVERYWHERE: Final = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443,
    "memfd_secret": 447,
}  # fmt: skip
_X86_64: Final = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "mount": 165,
    "umount2": 166, "pivot_root": 155, "chroot": 161, "add_key": 248, "request_key": 249,
    "keyctl": 250, "bpf": 321, "perf_event_open": 298, "unshare": 272, "setns": 308,
    "userfaultfd": 323, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175,
    "delete_module": 176, "finit_module": 313, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "swapon": 167, "swapoff": 168, "reboot": 169, "settimeofday": 164,
    "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "acct": 163, "quotactl": 179, "syslog": 103,
    "lookup_dcookie": 212, "modify_ldt": 154, "personality": 135, "vhangup": 153,
    "fanotify_init": 300, "uselib": 134, "_sysctl": 156, "ustat": 136, "sysfs": 139,
    "create_module": 174, "get_kernel_syms": 177, "query_module": 178, "nfsservctl": 180,
    "migrate_pages": 256, "move_pages": 279,
}  # fmt: skip
_AARCH64: Final = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "mount": 40,
    "umount2": 39, "pivot_root": 41, "chroot": 51, "add_key": 217, "request_key": 218,
    "keyctl": 219, "bpf": 280, "perf_event_open": 241, "unshare": 97, "setns": 268,
    "userfaultfd": 282, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105,
    "delete_module": 106, "finit_module": 273, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "swapon": 224, "swapoff": 225, "reboot": 142, "settimeofday": 170,
    "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171, "sethostname": 161,
    "setdomainname": 162, "acct": 89, "quotactl": 60, "syslog": 116, "lookup_dcookie": 18,
    "personality": 92, "vhangup": 58, "fanotify_init": 262, "nfsservctl": 42,
    "migrate_pages": 238, "move_pages": 239,
}  # fmt: skip


class _Machine(NamedTuple):
    """What a filter needs to know about a CPU architecture."""

    arch: int
    refused: Mapping[str, int]
    clone: int
    socket: int
    ioctl: int


_CLONE3: Final = 435
_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, _X86_64 | _EVERYWHERE, 56, 41, 16),
    "aarch64": _Machine(0xC00000B7, _AARCH64 | _EVERYWHERE, 220, 198, 29),
}


def seccomp_gap() -> str:
    """Returns why system calls cannot be filtered on this machine, or an empty text."""
    if platform.machine() not in _MACHINES:
        return f"there is no list of system calls for {platform.machine()}"
    # Without a filter a kernel that knows filters complains of its address, any other of the mode.
    _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None, 0, 0)
    code = ctypes.get_errno()
    return "" if code == errno.EFAULT else f"the kernel refuses filters: {os.strerror(code)}"


def refuse_calls() -> None:
    """Makes the kernel refuse listed system calls to this process and its children."""
    code = ctypes.create_string_buffer(b"".join(_filter(_MACHINES[platform.machine()])))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(code))
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the filter of system calls: {os.strerror(number)}")


def _filter(machine: _Machine) -> list[bytes]:
    code = [
        _op(_LOAD, _ARCH),
        *_if(_EQUAL, machine.arch, (), else_=[_op(_RETURN, _KILL)]),
    ]
    refuse = [_op(_RETURN, _REFUSE | errno.EPERM)]
    unknown = [_op(_RETURN, _REFUSE | errno.ENOSYS)]
    code.append(_op(_LOAD, _NUMBER))
    # A second set of numbers for the same calls, and one whose flags lie where no filter sees:
    # the C library then takes `clone`.
    code += _if(_AT_LEAST, _OTHER_ABI, unknown)
    code += _if(_EQUAL, _CLONE3, unknown)
    for number in machine.refused.values():
        code += _if(_EQUAL, number, refuse)
    code += _if(_EQUAL, machine.clone, [_op(_LOAD, _FIRST), *_if(_ANY_BIT, _NEW_SPACES, refuse)])
    code += [_op(_LOAD, _NUMBER)]
    unix_only = [_op(_LOAD, _FIRST), *_if(_EQUAL, _UNIX, (), else_=refuse)]
    code += _if(_EQUAL, machine.socket, unix_only)
    code += [_op(_LOAD, _NUMBER)]
    code += _if(_EQUAL, machine.ioctl, [_op(_LOAD, _SECOND), *_if(_EQUAL, _PUSH_INPUT, refuse)])
    return [*code, _op(_RETURN, _ALLOW)]


def _if(
    test: int, value: int, then: Sequence[bytes], *, else_: Sequence[bytes] = ()
) -> list[bytes]:
    """Makes a test with instructions for the case that it holds, or that it does not."""
    over = (0, len(then)) if then else (len(else_), 0)
    return [_op(test, value, *over), *then, *else_]


def _op(code: int, value: int, on_true: int = 0, on_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, on_true, on_false, value)
