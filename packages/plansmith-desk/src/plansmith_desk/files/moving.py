"""Built-in tools that move, rename, copy and delete one file inside the working folder."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import is_protected_below
from plansmith_desk import folder as folders
from plansmith_desk.tool_specs import YES, record, spec
from plansmith_desk.toolset import TEXT, Arguments, BuiltIn, Job, ToolSet, flag, string

_PIECE: Final = 1 << 20
_MAX_BYTES: Final = 2_000_000_000
_TO: Final = string("The new path, or the folder that it goes into.", minLength=1)
_OVERWRITE: Final = flag("Replace a file that is there.")
_THERE: Final = Sentence("choose another name, or set overwrite to true")

MOVE: Final = spec(
    "files.move",
    "Move or rename a file or folder; never replaces another one without overwrite "
    "(移动、重命名文件).",
    record(
        {"path": string("The file or folder to move.", minLength=1), "to": _TO},
        overwrite=_OVERWRITE,
    ),
    record({"path": TEXT, "from": TEXT}),
    Effect.WRITE,
    idempotent=False,
)
COPY: Final = spec(
    "files.copy",
    "Copy a file under another name or into a folder, as a backup or duplicate (复制、备份文件).",
    record({"path": string("The file to copy.", minLength=1), "to": _TO}, overwrite=_OVERWRITE),
    record({"path": TEXT, "from": TEXT, "bytes": {"type": "integer"}, "changed": YES}),
    Effect.WRITE,
    timeout_s=300,
)
DELETE: Final = spec(
    "files.delete",
    "Delete one file or one empty folder for good; it cannot be undone (删除文件或空文件夹).",
    record({"path": string("The file or empty folder.", minLength=1)}),
    record({"path": TEXT, "deleted": YES}),
    Effect.FINAL,
    idempotent=False,
    timeout_s=30,
)


class Entry(NamedTuple):
    """A name in an open folder, as people write it, and its state if it is there."""

    place: int
    last: str
    name: str
    state: os.stat_result | None

    @property
    def is_folder(self) -> bool:
        return self.state is not None and stat.S_ISDIR(self.state.st_mode)


class MovingTools(ToolSet):
    """The tools that move, copy and delete; none of them follows a link."""

    def __init__(self, root: Path | folders.Folder, *, most: int = _MAX_BYTES) -> None:
        self._folder = folders.Folder.of(root)
        self._most = most
        # Two steps that move to one name at once must not both find it free.
        self._turn = threading.Lock()
        super().__init__(
            [BuiltIn(MOVE, self._move), BuiltIn(COPY, self._copy), BuiltIn(DELETE, self._delete)]
        )

    def _move(self, given: Arguments, _: Job) -> Json:
        with self._turn, self.there(MOVE, given["path"], given["to"]) as old:
            to = new_path(self._folder, old.name, given["to"])
            with self.entry(to, make=True, writes=True) as new:
                _move(old, new, overwrite=given.get("overwrite", False))
            return {"path": new.name, "from": old.name}

    def _copy(self, given: Arguments, job: Job) -> Json:
        with self._turn, self.there(COPY, given["path"]) as old:
            to = new_path(self._folder, old.name, given["to"])
            with (
                self._folder.opened(old.name) as source,
                self.entry(to, make=True, writes=True) as new,
            ):
                size = os.fstat(source.fileno()).st_size
                changed = self._copied(source, new, job, overwrite=given.get("overwrite", False))
            return {"path": new.name, "from": old.name, "bytes": size, "changed": changed}

    def _copied(self, source: BinaryIO, new: Entry, job: Job, *, overwrite: bool) -> bool:
        """Copies beside the target and renames then; the same content again changes nothing."""
        if new.state is not None:
            _check_file(new)
            with self._folder.opened(new.name) as there:
                if _equal(source, there):
                    return False
            if not overwrite:
                raise ToolFailed(Sentence("file.exists", name=new.name), hint=_THERE)
            source.seek(0)
        before = os.fstat(source.fileno())
        with folders.replacing(new.place, new.last, new.name, old=new.state) as file:
            while piece := source.read(_PIECE):
                if job.given_up:
                    raise ToolFailed(Sentence("the copy was given up"))
                file.write(piece)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode) & 0o777)
            if folders.stamp(before) != folders.stamp(os.fstat(source.fileno())):
                raise ToolFailed(Sentence("the file changed while it was copied"))
        return True

    def _delete(self, given: Arguments, _: Job) -> Json:
        with self._turn, self.there(DELETE, given["path"]) as old:
            try:
                if old.is_folder:
                    os.rmdir(old.last, dir_fd=old.place)
                else:
                    os.unlink(old.last, dir_fd=old.place)
            except OSError as error:
                raise folders.failed(old.name, error) from None
            folders.flush(old.place, old.name)
            return {"path": old.name, "deleted": True}

    @contextmanager
    def there(self, spec: ToolSpec, name: str, to: str = "") -> Generator[Entry]:
        """Opens a file or folder that is there; refuses what the tool of this spec cannot take.

        Links, devices and databases in use are refused to all.
        """
        with self.entry(name.rstrip("/"), writes=spec != COPY) as entry:
            what, state = {"name": entry.name, "most": self._most}, entry.state
            if state is None:
                # Whether that is our own doing cannot be told: a person has to look.
                moved = Sentence("{name} is there: was it moved already?", name=to)
                hint = moved if to and self._folder.is_file(to) else ""
                raise ToolFailed(Sentence("there is no {name}", **what), hint=hint)
            if not entry.is_folder:
                _check_file(entry)
                if spec == COPY and state.st_size > self._most:
                    raise ToolFailed(Sentence("{name} is larger than {most} bytes", **what))
            elif spec == COPY:
                hint = Sentence("copy its files one by one")
                raise ToolFailed(Sentence("{name} is a folder", **what), hint=hint)
            elif spec == DELETE and any((self._folder.root / entry.name).glob("*")):
                hint = Sentence("only an empty folder is deleted: delete its files first")
                raise ToolFailed(Sentence("{name} is not empty", **what), hint=hint)
            elif is_protected_below(state):
                raise folders.protected(entry.name)
            yield entry

    @contextmanager
    def entry(self, name: str, *, make: bool = False, writes: bool = False) -> Generator[Entry]:
        """Opens the folder of a name, whether something of that name is there or not."""
        plain = self._folder.plain(name)
        with self._folder.parent(name, make=make, writes=writes) as (place, last):
            try:
                state = os.stat(last, dir_fd=place, follow_symlinks=False)
            except FileNotFoundError:
                state = None
            except OSError as error:
                raise folders.failed(plain, error) from None
            yield Entry(place, last, plain, state)


def new_path(folder: folders.Folder, old: str, to: str) -> str:
    """Returns where a file goes: into a folder that is there, or a name with `/`, with its name."""
    into, last = folder.plain(to), old.rpartition("/")[2]
    if into != old and (to.endswith("/") or folder.is_folder(to)):
        into = f"{into}/{last}" if into else last
    if into == old:
        raise ToolFailed(Sentence("{name} is its name already", name=into))
    if into.startswith(f"{old}/"):
        raise ToolFailed(Sentence("{name} cannot go into itself", name=old))
    return into


def _move(old: Entry, new: Entry, *, overwrite: bool) -> None:
    # On a disk that does not tell letter cases apart both names may be one entry.
    only = old.state is not None and (old.is_folder or old.state.st_nlink == 1)
    try:
        if new.state is None and not old.is_folder:
            _link(old, new)
        elif new.state is None or (only and is_same(old, new.state)):
            os.rename(old.last, new.last, src_dir_fd=old.place, dst_dir_fd=new.place)
        elif is_same(old, new.state):
            # An earlier attempt gave it the new name and ended before it took the old one away.
            os.unlink(old.last, dir_fd=old.place)
        else:
            if old.is_folder or not overwrite:
                hint = Sentence("choose another name") if old.is_folder else _THERE
                raise ToolFailed(Sentence("file.exists", name=new.name), hint=hint)
            _check_file(new)
            os.rename(old.last, new.last, src_dir_fd=old.place, dst_dir_fd=new.place)
    except FileExistsError:
        raise ToolFailed(Sentence("file.exists", name=new.name), hint=_THERE) from None
    except OSError as error:
        if error.errno == errno.EXDEV:
            what = Sentence("{name} is on another disk", name=new.name)
            raise ToolFailed(what, hint=Sentence("copy it, and delete it then")) from None
        raise folders.failed(old.name, error) from None
    folders.flush(new.place, new.name)
    folders.flush(old.place, old.name)


def _link(old: Entry, new: Entry) -> None:
    """Gives a file its new name, then takes the old one away.

    A link, and not a rename, fails where somebody took the name meanwhile.
    """
    folders.check_parts(new.place, new.last, new.name)
    places = {"src_dir_fd": old.place, "dst_dir_fd": new.place}
    os.link(old.last, new.last, **places, follow_symlinks=False)
    states = (os.stat(each.last, dir_fd=each.place, follow_symlinks=False) for each in (old, new))
    if not all(is_same(old, state) for state in states):
        os.unlink(new.last, dir_fd=new.place)
        hint = Sentence("try it again")
        raise ToolFailed(Sentence("{name} changed meanwhile", name=old.name), hint=hint)
    try:
        os.unlink(old.last, dir_fd=old.place)
    except OSError:
        os.unlink(new.last, dir_fd=new.place)  # what failed has changed nothing
        raise


def _check_file(entry: Entry) -> None:
    """Refuses what is no file, and a database with changes that wait beside it."""
    folders.regular(entry.place, entry.last, entry.name)
    folders.check_parts(entry.place, entry.last, entry.name)


def is_same(entry: Entry, state: os.stat_result | None) -> bool:
    """Tells whether a state is that of the same file, which has two names then."""
    if entry.state is None or state is None or not os.path.samestat(entry.state, state):
        return False
    # The number of a file that was removed goes to the next one that is made.
    kinds = stat.S_IFMT(entry.state.st_mode), stat.S_IFMT(state.st_mode)
    return kinds[0] == kinds[1] and folders.stamp(entry.state) == folders.stamp(state)


def _equal(first: BinaryIO, second: BinaryIO) -> bool:
    if os.fstat(first.fileno()).st_size != os.fstat(second.fileno()).st_size:
        return False
    while piece := first.read(_PIECE):
        if piece != second.read(_PIECE):
            return False
    return not second.read(1)
