"""Confines a process on Linux without root: namespaces, a small file system, no capabilities."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

    stand: bool
    uid: int
    gid: int
    missing: tuple[str, ...] = ()


def box_user() -> tuple[int, int]:
    """Returns the user that code runs as: root switches to nobody if that user exists."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    known = all(_has_user(Path(f"/proc/self/{kind}_map")) for kind in ("uid", "gid"))
    return (NOBODY, NOBODY) if known else (0, os.getegid())


def _has_user(table: Path) -> bool:
    rows = [tuple(map(int, line.split())) for line in table.read_text().splitlines()]
    return any(first <= NOBODY < first + count for first, _, count in rows)


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
    mapper = _start_mapper((box_uid, box_gid)) if box_uid != uid else None
    spaces = _NEW_USER | _NEW_NS | _NEW_PID | _NEW_NET | _NEW_IPC | _NEW_UTS
    entered = _libc.unshare(spaces)
    number = ctypes.get_errno()
    mapped = mapper is not None and _finish_mapper(mapper, go=entered == 0)
    if entered != 0:
        raise NoWalls(f"new namespaces are refused: {os.strerror(number)}")
    if not mapped:
        box_uid, box_gid = uid, gid
        _map_self(uid, gid)
    missing = _forbid_more_spaces()
    try:
        _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
        options = f"size={disk_bytes},nr_inodes={disk_files},mode=0700,uid={box_uid},gid={box_gid}"
        _mount("tmpfs", str(work), "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    except OSError as error:
        raise NoWalls(str(error)) from None
    return Walls(stand=True, uid=box_uid, gid=box_gid, missing=missing)


def close_in(root: Path, work: Path, visible: Sequence[str]) -> None:
    """Makes a small read-only root with the visible paths and `work`, and moves into it."""
    if _libc.unshare(_NEW_NS) != 0:
        raise _failed("a mount namespace")
    _mount("tmpfs", str(root), "tmpfs", _MS_NOSUID, "size=1m,mode=0755")
    for name in visible:
        _mount_read_only(root, name)
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


def _start_mapper(box: tuple[int, int]) -> tuple[int, int]:
    """Starts a process outside the namespace: only from there users can be mapped."""
    read, write = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(read)
        return child, write
    os.close(write)
    status = 1
    try:
        if os.read(read, 1) == b"y":
            for kind, own in zip(("uid", "gid"), box, strict=True):
                Path(f"/proc/{parent}/{kind}_map").write_text(f"0 0 1\n{own} {own} 1\n")
            status = 0
    finally:
        os._exit(status)


def _finish_mapper(mapper: tuple[int, int], *, go: bool) -> bool:
    child, write = mapper
    os.write(write, b"y" if go else b"n")
    os.close(write)
    return os.waitpid(child, 0)[1] == 0


def _map_self(uid: int, gid: int) -> None:
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1\n")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1\n")
    except OSError as error:
        raise NoWalls(f"users cannot be mapped: {error.strerror}") from None


def _forbid_more_spaces() -> tuple[str, ...]:
    """Forbids nested namespaces, in which code could mount a disk without a limit."""
    try:
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    except OSError as error:
        reason = error.strerror or "unknown"
        return (f"further namespaces cannot be forbidden ({reason}): memory can be hidden in them",)
    return ()


def _mount_read_only(root: Path, name: str) -> None:
    """Mounts a file or folder of the system read-only under the same name."""
    source = Path(name)
    if source.is_symlink():
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source.readlink())
    elif source.exists():
        _bind(root, name)
        _make_read_only(root / name.lstrip("/"))


def _bind(root: Path, name: str) -> None:
    place = _make_mount_point(root, name)
    _mount(name, str(place), "", _MS_BIND | _MS_REC)


def _make_mount_point(root: Path, name: str) -> Path:
    """Makes a mount point: a folder or an empty file."""
    place = root / name.lstrip("/")
    if name in (BOX, "/dev/shm") or Path(name).is_dir():  # noqa: S108
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    return place


def _make_read_only(place: Path) -> None:
    """Makes a mount and everything mounted below it read-only."""
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


def _checked(done: int, what: str) -> None:
    if done != 0:
        raise _failed(what)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno() or errno.EINVAL
    return OSError(number, f"{what}: {os.strerror(number)}")
