"""Confines a process on Linux without root: namespaces, a small file system, kernel filters."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

NOBODY: Final = 65534
BOX: Final = "/box"
DEVICES: Final = ("null", "zero", "random", "urandom")

_NEW_NS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PID, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 2, 4, 32
_MS_RDONLY, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 4096, 16384, 1 << 18
_MNT_DETACH: Final = 2
_MOUNT_SETATTR: Final = 442  # the same number on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_LAST_CAPABILITY: Final = 63

_libc = ctypes.CDLL(None, use_errno=True)


class NoWalls(Exception):
    """The system does not allow the walls; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Walls:
    """Whether the walls are in place, the user the code runs as, and what is not confined."""

    in_place: bool
    uid: int
    gid: int
    missing: tuple[str, ...] = ()


def box_user() -> tuple[int, int]:
    """Returns the user that code runs as: root switches to nobody if that user exists."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    for kind in ("uid", "gid"):
        lines = Path(f"/proc/self/{kind}_map").read_text().splitlines()
        rows = [tuple(map(int, line.split())) for line in lines]
        if not any(first <= NOBODY < first + count for first, _, count in rows):
            return 0, os.getegid()
    return NOBODY, NOBODY


def adopt_orphans() -> None:
    """Makes orphaned descendants become children of this process."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "adopting orphans")


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "ending with the parent")


def enter(work: Path, *, disk_bytes: int, disk_files: int) -> Walls:
    """Enters new namespaces and mounts a private disk at `work`."""
    uid, gid = os.geteuid(), os.getegid()
    box_uid, box_gid = box_user()
    # Only a process outside the namespace can map another user.
    read, write = os.pipe()
    mapper = _start_mapper(read, write, (box_uid, box_gid)) if box_uid != uid else 0
    spaces = _NEW_USER | _NEW_NS | _NEW_PID | _NEW_NET | _NEW_IPC | _NEW_UTS
    entered = _libc.unshare(spaces)
    number = ctypes.get_errno()
    os.write(write, b"y" if entered == 0 else b"n")
    mapped = bool(mapper) and os.waitpid(mapper, 0)[1] == 0
    os.close(read)
    os.close(write)
    if entered != 0:
        raise NoWalls(f"new namespaces are refused: {os.strerror(number)}")
    if not mapped:
        box_uid, box_gid = uid, gid
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1\n")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1\n")
        except OSError as error:
            raise NoWalls(f"users cannot be mapped: {error.strerror}") from None
    missing: tuple[str, ...] = ()
    try:
        # Nested ones, in which code could mount a disk without a limit.
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    except OSError as error:
        why = f"further namespaces cannot be forbidden ({error.strerror or 'unknown'})"
        missing = (f"{why}: memory can be hidden in them",)
    try:
        _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
        options = f"size={disk_bytes},nr_inodes={disk_files},mode=0700,uid={box_uid},gid={box_gid}"
        _mount("tmpfs", str(work), "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    except OSError as error:
        raise NoWalls(str(error)) from None
    return Walls(in_place=True, uid=box_uid, gid=box_gid, missing=missing)


def close_in(root: Path, work: Path, visible: Sequence[str]) -> None:
    """Makes a small read-only root with the visible paths and `work`, and moves into it."""
    _checked(_libc.unshare(_NEW_NS), "a mount namespace")
    _mount("tmpfs", str(root), "tmpfs", _MS_NOSUID, "size=1m,mode=0755")
    for name in visible:
        source = Path(name)
        if source.is_symlink():
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source.readlink())
        elif source.exists():
            _bind(root, name)
            _make_read_only(root / name.lstrip("/"))
    for name in DEVICES:
        _bind(root, f"/dev/{name}")
    shared = str(_make_mount_point(root, "/dev/shm"))  # noqa: S108
    _mount("tmpfs", shared, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=16m")
    _mount(str(work), str(_make_mount_point(root, BOX)), "", _MS_BIND)
    if not (root / "tmp").exists():  # it does where Python itself lies below /tmp
        (root / "tmp").symlink_to(f"{BOX}/.tmp")
    os.chdir(root)
    _checked(_libc.pivot_root(b".", b"."), "the change of root")
    _checked(_libc.umount2(b".", _MNT_DETACH), "leaving the old root")
    _mount("tmpfs", "/", "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID)
    os.chdir(BOX)


def give_up_rights(uid: int, gid: int) -> None:
    """Switches to the sandbox user, without capabilities or a way to get them."""
    if os.geteuid() == 0:
        for capability in range(_LAST_CAPABILITY + 1):
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() != uid:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new rights")


def _start_mapper(read: int, write: int, box: tuple[int, int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    os.close(write)
    status = 1
    try:
        if os.read(read, 1) == b"y":
            for kind, own in zip(("uid", "gid"), box, strict=True):
                Path(f"/proc/{parent}/{kind}_map").write_text(f"0 0 1\n{own} {own} 1\n")
            status = 0
    finally:
        os._exit(status)


def _bind(root: Path, name: str) -> None:
    place = _make_mount_point(root, name)
    _mount(name, str(place), "", _MS_BIND | _MS_REC)


def _make_mount_point(root: Path, name: str) -> Path:
    place = root / name.lstrip("/")
    if name in (BOX, "/dev/shm") or Path(name).is_dir():  # noqa: S108
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    return place


def _make_read_only(place: Path) -> None:
    wanted = struct.pack("=QQQQ", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    done = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(place),
        ctypes.c_uint(_AT_RECURSIVE),
        wanted,
        ctypes.c_size_t(len(wanted)),
    )
    _checked(done, f"making {place} read-only")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind) or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _checked(done, f"mounting {target}")


def _checked(done: int, what: str) -> int:
    """Returns what a call returned; raises what is wrong if that is below zero."""
    if done < 0:
        number = ctypes.get_errno() or errno.EINVAL
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return done


_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_ASK_VERSION: Final = 1
_RULE_PATH: Final = 1
_READS: Final = 0b1101  # execute, read a file, read a folder
_ON_FILES: Final = 0b1100000000000111  # of the rights below, those that a file can have
_ALL_FILES: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_TCP: Final = 0b11
_SCOPES: Final = 0b11  # abstract sockets and signals


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
    handle = _landlock(_CREATE, known, ctypes.c_size_t(len(known)), ctypes.c_uint(0))
    try:
        for allowed, paths in ((_READS, readable), (files, writable)):
            for path in paths:
                with suppress(FileNotFoundError):
                    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
                    rights = allowed & files & (-1 if Path(path).is_dir() else _ON_FILES)
                    rule = struct.pack("=Qi", rights, opened)
                    kind = ctypes.c_int(_RULE_PATH)
                    _landlock(_ADD, ctypes.c_int(handle), kind, rule, ctypes.c_uint(0))
                    os.close(opened)
        _landlock(_RESTRICT, ctypes.c_int(handle), ctypes.c_uint(0))
    finally:
        os.close(handle)


def _landlock(number: int, *arguments: object) -> int:
    return _checked(int(_libc.syscall(ctypes.c_long(number), *arguments)), "Landlock")


_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # places in what the kernel shows of a call
_UNIX: Final = 1
_NEW_SPACES: Final = 0x7E020000  # any of the flags that make a namespace
_PUSH_INPUT: Final = 0x5412  # TIOCSTI: types into a terminal
_OTHER_ABI: Final = 0x40000000


def _refused(place: int) -> list[int]:
    text = Path(__file__).with_name("system_calls.txt").read_text(encoding="ascii")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return [int(row[place]) for row in rows if row[place] != "-"]


class _Machine(NamedTuple):
    """What a filter needs to know about a CPU architecture."""

    arch: int
    refused: Sequence[int]
    clone: int
    socket: int
    ioctl: int


_CLONE3: Final = 435
_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, _refused(1), 56, 41, 16),
    "aarch64": _Machine(0xC00000B7, _refused(2), 220, 198, 29),
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
    done = _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0)
    _checked(done, "the filter of system calls")


def _filter(machine: _Machine) -> list[bytes]:
    code = [_op(_LOAD, _ARCH), *_if(_EQUAL, machine.arch, (), else_=[_op(_RETURN, _KILL)])]
    refuse = [_op(_RETURN, _REFUSE | errno.EPERM)]
    unknown = [_op(_RETURN, _REFUSE | errno.ENOSYS)]
    code.append(_op(_LOAD, _NUMBER))
    # A second set of numbers for the same calls, and one whose flags lie where no filter sees:
    # the C library then takes `clone`.
    code += _if(_AT_LEAST, _OTHER_ABI, unknown)
    code += _if(_EQUAL, _CLONE3, unknown)
    for number in machine.refused:
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
