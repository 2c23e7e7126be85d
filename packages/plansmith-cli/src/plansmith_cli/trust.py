"""Whether the settings of a project folder count: only if a person trusts exactly their content.

Trust is kept by the hash of that content, and of every file that it names.
"""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from plansmith.errors import Misconfigured
from plansmith.files import replace_file
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import safe
from plansmith_connect.approvals import Approval, ApprovalFile
from plansmith_connect.mcp.settings import parse_servers
from plansmith_connect.mcp.trusted_copy import MAX_PROGRAM, MAX_TEXT, read_regular_file, word_forms

_MAX_FILES: Final = 500
_MAX_NAMES: Final = 8


class Project:
    """A folder's settings and every file that they use: what the user trusts.

    Each file is read once, when it is first needed: what is used is what was compared.
    """

    def __init__(self, folder: Path, data: bytes, settings: Table) -> None:
        self.folder, self.settings, self._data = folder, settings, data

    @property
    def names(self) -> list[str]:
        return [*_names(self.settings)]

    @cached_property
    def files(self) -> Mapping[Path, bytes | None]:
        """Reads the settings file and the files that it names; None for a missing file."""
        folder = self.folder
        files: dict[Path, bytes | None] = {folder / PROJECT_FILE: self._data}

        def add(path: Path, most: int) -> None:
            if len(files) >= _MAX_FILES:
                raise Misconfigured(
                    Sentence(
                        "the settings of {folder} name more than {most} files",
                        folder=safe(str(folder)),
                        most=_MAX_FILES,
                    )
                )
            if path not in files:
                files[path] = read_regular_file(path, most=most)

        for named in _named_files(self.settings, folder):
            for path in sorted(named.glob("*.md")) if named.is_dir() else [named]:
                add(path, MAX_TEXT)
        for server in _servers(self.settings, folder, files):
            for path in command_files(server, folder) if server.get("command") else ():
                add(path, MAX_PROGRAM)
        return files

    @cached_property
    def hashes(self) -> dict[str, Json]:
        """Returns the hash of each file by name; None for a missing file."""
        return {
            self.name(path): None if data is None else sha256(data).hexdigest()
            for path, data in self.files.items()
        }

    @property
    def hash(self) -> str:
        return canonical_hash({"version": 1, "files": self.hashes})

    def name(self, path: Path) -> str:
        """Returns a file's path, relative to the folder if it is inside."""
        inside = path.is_relative_to(self.folder)
        return path.relative_to(self.folder).as_posix() if inside else path.as_posix()


def ignored_settings(project: Project, *, changed: bool) -> str:
    """Says which settings of a folder were ignored, why, and how to trust them."""
    first, more = [*map(safe, project.names[:_MAX_NAMES])], len(project.names) - _MAX_NAMES
    names = Sentence("{names} and {count} more", names=first, count=more) if more > 0 else first
    command = safe(shlex.join(["plansmith", "trust", str(project.folder)]))
    file = safe(str(project.folder / PROJECT_FILE))
    return Sentence(
        "ignored in {file}, since {why}: {names}; to see what they "
        "would do and to decide: {command}",
        file=file,
        why=Sentence(
            "it changed since you trusted it" if changed else "you have not trusted this folder"
        ),
        names=names,
        command=command,
    )


def _named_files(settings: Table, folder: Path) -> list[Path]:
    """Returns the files that settings name and that are covered by the trusted hash."""
    others = (("documents",), ("mcp", "approvals"), ("secrets", "*", "file"))
    found = [at(folder, name) for path, name in paths_in(settings) if path not in others]
    for model in settings.get("models", {}).values():
        name = model if isinstance(model, str) else str(model.get("model", ""))
        if name.startswith("recorded:"):
            found.append(at(folder, name.removeprefix("recorded:")))
    return found


def _servers(settings: Table, folder: Path, files: Mapping[Path, bytes | None]) -> Iterator[Table]:
    mcp = settings.get("mcp", {})
    yield from mcp.get("servers", {}).values()
    for path in (at(folder, name) for name in mcp.get("files", ())):
        with suppress(Misconfigured):  # reported where the file is used
            yield from map(dict, parse_servers(files.get(path) or b"", path).servers.values())


def command_files(server: Table, folder: Path) -> Iterator[Path]:
    """Yields the files that a server's command, arguments and variables name.

    Of folders that they name, and of the one that it starts in, all files. Nothing else of a
    trusted folder is there when its server starts, so nobody has to guess what a command runs.
    """
    words = [server["command"], *server.get("args", ()), *server.get("env", {}).values()]
    forms, cwd = [form for word in words for form in word_forms(word)], server.get("cwd") or ""
    for form in [".", *forms] if cwd else forms:
        path = Path(os.path.normpath(folder / cwd / form))
        with suppress(OSError):  # too long for a path
            if path.is_file():
                yield path
            elif path.is_relative_to(folder):
                below = (each for each in path.rglob("*") if not each.is_symlink())
                yield from sorted(islice((each for each in below if each.is_file()), _MAX_FILES))


class TrustBook:
    """The folders that the user trusts, with the hash of each; a file in the user's data folder."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file = ApprovalFile(data / "trusted.json")

    def get(self, folder: Path) -> Approval | None:
        return self._file.get(str(folder.resolve()))

    def all(self) -> Mapping[str, Approval]:
        return self._file.all()

    def trusts(self, project: Project) -> bool:
        known = self.get(project.folder)
        return known is not None and known.hash == project.hash

    def put(self, project: Project) -> None:
        by, now = getpass.getuser(), datetime.now(UTC)
        approval = Approval(hash=project.hash, definition=project.hashes, by=by, at=now)
        self._file.put(str(project.folder), approval)

    def remove(self, folder: Path) -> bool:
        found = {str(folder), str(folder.resolve())} & self._file.all().keys()
        for each in found:
            self._file.remove(each)
        return bool(found)

    def copy(self, project: Project, path: Path) -> Path:
        """Copies a trusted file, so that nobody can change it between the check and its use."""
        data = project.files.get(path)
        place = (
            self._data / "trusted" / project.hash / sha256(str(path.parent).encode()).hexdigest()
        )
        copied = place / path.name
        if data is None:
            return copied
        if not copied.is_file() or copied.read_bytes() != data:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(copied, data)
        return copied

    def settings(self, project: Project, tell: Callable[[str], None]) -> Table:
        """Returns trusted settings; every file they name is replaced by its trusted copy."""

        def place(path: tuple[str, ...], name: str) -> str:
            named = at(project.folder, name)
            if path == ("planner", "prompts"):
                made = [self.copy(project, each) for each in project.files if each.parent == named]
                return str(made[0].parent if made else named / "none")
            return str(self.copy(project, named) if named in project.files else named)

        def model(value: Any) -> Any:
            if isinstance(value, dict):
                table = cast("Table", value)
                return table | {"model": model(table["model"])} if "model" in table else table
            kind, _, name = value.partition(":")
            return f"recorded:{place((), name)}" if kind == "recorded" else value

        found = with_paths(project.settings, place)
        if "models" in found:
            found |= {"models": {role: model(value) for role, value in found["models"].items()}}
        if "mcp" in found:
            found |= {"mcp": {"servers": self._servers(project, tell)}}
        return found

    def _servers(self, project: Project, tell: Callable[[str], None]) -> Table:
        """Returns the MCP servers of trusted settings; each starts in the folder."""
        mcp, folder = project.settings["mcp"], project.folder
        if "approvals" in mcp:
            tell(
                Sentence(
                    "{file}: mcp.approvals is ignored: a project cannot bring approvals",
                    file=folder / PROJECT_FILE,
                )
            )
        servers: Table = dict(mcp.get("servers", {}))
        for name in mcp.get("files", ()):
            path = at(folder, name)
            read = parse_servers(project.files.get(path) or b"", path)
            for note in read.notes:
                tell(note)
            duplicates = sorted(servers.keys() & read.servers.keys())
            if duplicates:
                why = Sentence(
                    "{path}: there is another server named '{name}'", path=path, name=duplicates[0]
                )
                raise Misconfigured(why, hint=Sentence("rename one of the two"))
            servers |= {each: dict(server) for each, server in read.servers.items()}
        return {name: _with_copied_files(each, project) for name, each in servers.items()}


def _with_copied_files(server: Table, project: Project) -> Table:
    """Returns a server that starts in a copy of the files that it can start from."""
    if not server.get("command"):
        return server
    hashes, found = project.hashes, command_files(server, project.folder)
    files = {name: hashes[name] for name in map(project.name, found) if hashes.get(name)}
    return server | {"folder": str(project.folder), "files": files}


# Tables whose keys are names that the folder chose.
_NAMED: Final = ("mcp.servers.", "agents.", "secrets.", "notices.")
# Settings that name files; their paths are relative to the settings file.
_PATHS: Final = (
    *(("tools",), ("documents",), ("profile",), ("planner", "prompts")),
    *(("mcp", "files"), ("mcp", "approvals"), ("agents", "*", "ca_file"), ("secrets", "*", "file")),
)
Table = dict[str, Any]


def _names(found: Table, place: str = "") -> Iterator[str]:
    """Yields the dotted name of each setting; of what is named by the folder, its name alone."""
    for key, value in found.items():
        if isinstance(value, dict) and place not in _NAMED:
            yield from _names(cast("Table", value), f"{place}{key}.")
        else:
            yield f"{place}{key}"


def paths_in(found: Table) -> list[tuple[tuple[str, ...], str]]:
    """Returns every file path in the settings, after the setting that names it."""
    named: list[tuple[tuple[str, ...], str]] = []

    def note(path: tuple[str, ...], name: str) -> str:
        named.append((path, name))
        return name

    with_paths(found, note)
    return named


def with_paths(found: Table, change: Callable[[tuple[str, ...], str], str]) -> Table:
    """Returns the settings with `change` applied to every file path in them."""
    for path in _PATHS:
        found = _with_changed_paths(found, path, lambda name, at=path: change(at, name))  # type: ignore[misc]
    return found


def _with_changed_paths(value: Any, path: tuple[str, ...], change: Callable[[str], str]) -> Any:
    if not path:
        names = cast("list[str]", value)
        return [change(each) for each in names] if isinstance(value, list) else change(value)
    if not isinstance(value, dict):
        return value
    return {
        key: _with_changed_paths(child, path[1:], change) if path[0] in (key, "*") else child
        for key, child in cast("Table", value).items()
    }


def at(folder: Path, name: str) -> Path:
    """Returns the path of a file that settings name, relative to their folder."""
    return folder / Path(name).expanduser()
