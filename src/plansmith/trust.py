"""Which folders a person trusts, by the hash of their content."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from plansmith.adapters.approvals import Approval, ApprovalFile
from plansmith.adapters.tools.mcp.settings import parse_servers
from plansmith.errors import Misconfigured
from plansmith.files import replace_file
from plansmith.folder_settings import Table, at, with_paths
from plansmith.plan.data import Json, content_hash
from plansmith.text import safe

PROJECT_FILE: Final = "plansmith.toml"
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_FILES: Final = 500


def read_plain(path: Path, *, links: bool = True) -> bytes | None:
    """The bytes of a plain file, read once; nothing where there is none."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        # Not opened as usual: a pipe must not make us wait, and a link not lead us out.
        handle = os.open(path, flags | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "it is a link" if not links and path.is_symlink() else error.strerror
        raise Misconfigured(f"{safe(str(path))} is not read: {why}", hint="") from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Misconfigured(f"{safe(str(path))} is not read: it is no plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise Misconfigured(f"{safe(str(path))} is not read: it has more than {_MOST_BYTES} bytes")
    return data


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that a folder's settings pull in, as it was read: what a person trusts."""

    folder: Path
    settings: Table
    files: Mapping[Path, bytes | None]

    @property
    def hashes(self) -> dict[str, Json]:
        """The hash of each file by its name; nothing for one that is not there."""
        return {
            self.name(path): None if data is None else sha256(data).hexdigest()
            for path, data in self.files.items()
        }

    @property
    def hash(self) -> str:
        """The hash of all of it."""
        return content_hash({"version": 1, "files": self.hashes})

    def name(self, path: Path) -> str:
        """How a file is called: as seen from the folder, where it is in it."""
        inside = path.is_relative_to(self.folder)
        return path.relative_to(self.folder).as_posix() if inside else path.as_posix()


@dataclass(frozen=True, slots=True)
class Project:
    """The settings that a folder brings along: the harmless ones, and the names of the others."""

    folder: Path
    data: bytes
    settings: Table
    kept: Table
    left: tuple[str, ...]

    def content(self) -> Content:
        """All that they pull in, read now."""
        return read_content(self.folder, self.data, self.settings)


def left_out(project: Project, *, changed: bool) -> str:
    """What a person is told of settings that do not count."""
    names = ", ".join(map(safe, project.left[:8]))
    more = f" and {len(project.left) - 8} more" if len(project.left) > 8 else ""
    why = "it changed since you trusted it" if changed else "you have not trusted this folder"
    command = safe(shlex.join(["plansmith", "trust", str(project.folder)]))
    return (
        f"left out of {safe(str(project.folder / PROJECT_FILE))}, since {why}: {names}{more}; "
        f"see what that would do, and decide: {command}"
    )


def read_content(folder: Path, data: bytes, settings: Table) -> Content:
    """All that these settings of a folder pull in; each file is read once."""
    folder = folder.resolve()
    files: dict[Path, bytes | None] = {folder / PROJECT_FILE: data}

    def add(path: Path) -> None:
        if len(files) >= _MOST_FILES:
            raise Misconfigured(f"{safe(str(folder))}: its settings name more than 500 files")
        if path not in files:
            files[path] = read_plain(path)

    for named in _named(settings, folder):
        for path in sorted(named.glob("*.md")) if named.is_dir() else [named]:
            add(path)
    for server in _servers(settings, folder, files):
        for path in _started(server, folder):
            add(path)
    return Content(folder, settings, files)


def _named(settings: Table, folder: Path) -> list[Path]:
    """The files that settings name and that are used as they are read here."""
    found: list[Path] = []

    def note(path: tuple[str, ...], name: str) -> str:
        if path not in (("documents",), ("cache",), ("mcp", "approvals"), ("secrets", "*", "file")):
            found.append(at(folder, name))
        return name

    with_paths(settings, note)
    for model in settings.get("models", {}).values():
        name = model if isinstance(model, str) else str(model.get("model", ""))
        if name.startswith("recorded:"):
            found.append(at(folder, name.removeprefix("recorded:")))
    return found


def _servers(settings: Table, folder: Path, files: Mapping[Path, bytes | None]) -> Iterator[Table]:
    """The MCP servers of the settings, and of the files they name, as they are written."""
    mcp = settings.get("mcp", {})
    yield from mcp.get("servers", {}).values()
    for name in mcp.get("files", ()):
        try:
            value = json.loads(files.get(at(folder, name)) or b"{}")
            table = value.get("mcpServers", value.get("servers", {}))
            yield from (each for each in table.values() if isinstance(each, dict))
        except (ValueError, AttributeError, RecursionError):
            continue  # it says so where it is used


def _started(server: Table, folder: Path) -> Iterator[Path]:
    """The files that a server's command names: they are what runs."""
    place = at(folder, str(server.get("cwd") or "."))
    args = server.get("args")
    more = cast("list[object]", args) if isinstance(args, list) else []
    for word in map(str, (server.get("command"), *more)):
        module = word.replace(".", "/")
        forms = (word, word.partition("=")[2], f"{module}.py", f"{module}/__main__.py")
        for path in (at(place, each) for each in forms if each and "\0" not in each):
            try:
                if path.is_file():
                    yield path
            except OSError:
                continue  # too long for a path: it is none


class TrustBook:
    """Which content of which folder a person trusts; kept in the person's own data folder."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file = ApprovalFile(data / "trusted.json")

    def get(self, folder: Path) -> Approval | None:
        """What was trusted of a folder, if anything."""
        return self._file.get(str(folder.resolve()))

    def all(self) -> Mapping[str, Approval]:
        """Every folder that is trusted."""
        return self._file.all()

    def trusts(self, content: Content) -> bool:
        """Whether exactly this content is trusted."""
        known = self.get(content.folder)
        return known is not None and known.hash == content.hash

    def put(self, content: Content) -> None:
        """Trust exactly this content."""
        by, now = getpass.getuser(), datetime.now(UTC)
        approval = Approval(hash=content.hash, definition=content.hashes, by=by, at=now)
        self._file.put(str(content.folder), approval)

    def remove(self, folder: Path) -> bool:
        """Trust a folder no more; false when it was not trusted."""
        found = {str(folder), str(folder.resolve())} & self._file.all().keys()
        for each in found:
            self._file.remove(each)
        return bool(found)

    def copy(self, content: Content, path: Path) -> Path:
        """A copy of what was hashed, which nobody changes between the look and the use."""
        data = content.files.get(path)
        place = (
            self._data / "trusted" / content.hash / sha256(str(path.parent).encode()).hexdigest()
        )
        copied = place / path.name
        if data is None:
            return copied
        if not copied.is_file() or copied.read_bytes() != data:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(copied, data)
        return copied

    def settings(self, content: Content, tell: Callable[[str], None]) -> Table:
        """The settings of trusted content, with every file they name as it was trusted."""

        def place(path: tuple[str, ...], name: str) -> str:
            named = at(content.folder, name)
            if path == ("planner", "prompts"):
                made = [self.copy(content, each) for each in content.files if each.parent == named]
                return str(made[0].parent if made else named / "none")
            return str(self.copy(content, named) if named in content.files else named)

        def model(said: Any) -> Any:
            if isinstance(said, dict):
                table = cast("Table", said)
                return table | {"model": model(table["model"])} if "model" in table else table
            kind, _, name = said.partition(":")
            return f"recorded:{place((), name)}" if kind == "recorded" else said

        found = with_paths(content.settings, place)
        if "models" in found:
            found |= {"models": {role: model(said) for role, said in found["models"].items()}}
        if "mcp" in found:
            found |= {"mcp": {"servers": self._servers(content, tell)}}
        return found

    def _servers(self, content: Content, tell: Callable[[str], None]) -> Table:
        """The MCP servers of trusted content, all of them started in its folder."""
        mcp, folder = content.settings["mcp"], content.folder
        if "approvals" in mcp:
            tell(f"{folder / PROJECT_FILE}: mcp.approvals is left out: approvals are your own")
        servers: Table = dict(mcp.get("servers", {}))
        for name in mcp.get("files", ()):
            path = at(folder, name)
            read = parse_servers(content.files.get(path) or b"", path)
            for note in read.notes:
                tell(note)
            twice = sorted(servers.keys() & read.servers.keys())
            if twice:
                hint = "rename one of the two"
                raise Misconfigured(f"{path}: there is another server {twice[0]!r}", hint=hint)
            servers |= {each: dict(server) for each, server in read.servers.items()}
        return {name: _in_folder(each, folder) for name, each in servers.items()}


def _in_folder(server: Table, folder: Path) -> Table:
    cwd = str(server.get("cwd") or ".")
    if not server.get("command") or cwd.startswith("${"):
        return server
    return server | {"cwd": str(at(folder, cwd))}
