"""Every way to write a file, against every file that the process was started with or has open."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.house import House, serving, tool_step, user

from plansmith.errors import PlansmithError, ToolFailed
from plansmith.ports import Call, ToolSource
from plansmith.protected_files import may_write
from plansmith.store.sqlite import SqliteStore
from plansmith_cli.backup import back_up
from plansmith_cli.config import Settings
from plansmith_cli.ui.output import write_file
from plansmith_cli.wiring import make_smith
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.files.changes import FILE_WRITERS, preview

FILES = "/v1/folder/files"
NAMED = {
    "tools": ["own_tools.py"],
    "profile": "profile.yaml",
    "planner": {"prompts": "prompts"},
    "mcp": {"files": ["servers.json"]},
    "secrets": {"key": {"file": "key.txt"}},
}
TOOLS = """
from plansmith import tool


@tool(effect="read")
def twice(word: str) -> str:
    "Say a word twice."
    return word * 2
"""
SERVERS = '{"mcpServers": {"own": {"command": "python3", "args": ["%s/server.py"]}}}'
CONTENT = {
    "plansmith.toml": "[budget]\nsteps = 3\n",
    "own_tools.py": TOOLS,
    "profile.yaml": "role: a clerk\n",
    "prompts/draft.md": "Draft a plan.",
    "key.txt": "a-secret-key",
    "server.py": "print('server')\n",
    "server.log": "started\n",
    "drawn.svg": "<svg/>",
    "table.csv": "a\n1\n",
}
HELD = ("server.log", "drawn.svg", "table.csv")
STORE = ("runs.db", "runs.db-wal", "runs.db-shm", "runs.db-journal")
PROTECTED = (*CONTENT, "servers.json", *STORE, "token", "tokens.json")


@dataclass
class Desk:
    """A server that works in a folder with everything it was started with."""

    folder: Path
    house: House
    tools: dict[str, ToolSource]

    async def call(self, tool: str, **words: Any) -> Any:
        return await self.tools[tool].call(tool, words, Call(key="k"))

    def state(self) -> dict[str, bytes | int]:
        """All files: the store by its number, since only SQLite may open it."""
        return {
            str(path.relative_to(self.folder)): path.stat().st_ino
            if "runs.db" in path.name
            else path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


@asynccontextmanager
async def working(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.chdir(folder)
    (folder / "prompts").mkdir()
    for name, text in CONTENT.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "key.txt").chmod(0o600)
    (folder / "servers.json").write_text(SERVERS % folder, encoding="utf-8")
    (folder / "new.txt").write_text("new", encoding="utf-8")
    async with serving(folder, store="file", settings=NAMED, settings_tools=True) as house:
        # What a process writes to: its log, and what it draws and exports.
        with ExitStack() as held:
            for name in HELD:
                held.enter_context((folder / name).open("a"))
            await house.begin(tool_step("look", "files.list", inputs={}))
            sources = builtin_sources(folder)
            yield Desk(
                folder, house, {spec.name: each for each in sources for spec in await each.tools()}
            )


def spellings(folder: Path, name: str) -> Iterator[str]:
    """A name as it is, and other names for the same file, here or on another disk."""
    place, _, last = name.rpartition("/")
    below = f"{place}/" if place else ""
    yield name
    yield f"./{name}"
    if name not in HELD:  # those are known by their number alone
        yield f"{below}{last.upper()}"
        yield f"{below}{last[0].translate(FULL_WIDTH)}{last[1:]}"
    path = folder / name
    if path.exists():
        linked = folder / f"linked-{last}"
        linked.unlink(missing_ok=True)
        os.link(path, linked)
        yield linked.name


FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
ROWS = [{"a": 1}]


def doors(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The built-in tools that write, with what would write this name."""
    yield "files.write", {"path": name, "text": "mine", "overwrite": True}
    yield "files.append", {"path": name, "text": "mine"}
    yield "files.move", {"path": "new.txt", "to": name, "overwrite": True}
    yield "files.copy", {"path": "new.txt", "to": name, "overwrite": True}
    yield "files.move", {"path": name, "to": "away"}
    yield "files.delete", {"path": name}
    yield "files.write", {"path": f"{name}/inside.txt", "text": "a folder in its place"}
    if name.lower().endswith(".csv"):
        yield "tables.write", {"path": name, "rows": ROWS, "overwrite": True}
    if name.lower().endswith(".svg"):
        yield "charts.draw", {"path": name, "rows": ROWS, "overwrite": True}


async def test_no_door_writes_a_file_the_process_was_started_with_or_has_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(tmp_path, monkeypatch) as desk:
        folder, put = desk.folder, desk.house.client.put
        for protected in PROTECTED:
            for name in spellings(folder, protected):
                before = desk.state()
                for tool, words in doors(name):
                    with pytest.raises(ToolFailed):
                        assert await desk.call(tool, **words) is None, (tool, words)
                if "/" not in name:
                    answer = await put(f"{FILES}/{name}?replace=true", content=b"mine")
                    assert answer.status_code == 409, name
                target = folder / name
                if "/" not in name and (target.exists() or name == protected):
                    assert not may_write(target), name
                    with pytest.raises(PlansmithError):
                        back_up(folder / "runs.db", target, force=True, tell=lambda _: None)
                    with pytest.raises(PlansmithError):
                        write_file(str(target), "mine")
                assert desk.state() == before, name
        for path in ("prompts", "."):
            with pytest.raises(ToolFailed):
                await desk.call("files.move", path=path, to="elsewhere")
        # Everything else can still be written.
        assert (await put(f"{FILES}/new.txt?replace=true", content=b"b")).status_code == 201
        assert (await desk.call("files.write", path="fresh.md", text="x"))["created"]


async def test_a_review_says_that_such_a_write_would_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(tmp_path, monkeypatch) as desk:
        for tool, words in doors("own_tools.py"):
            seen = await preview(desk.folder, FILE_WRITERS[tool], words)
            assert seen is not None
            assert "may not be changed from here" in seen.error, tool


async def test_an_approver_adds_files_and_only_an_admin_replaces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with serving(tmp_path) as house:
        async with user(house, None, "ben", "approver") as ben:
            assert (await ben.client.put(f"{FILES}/a.csv", content=b"one")).status_code == 201
            answer = await ben.client.put(f"{FILES}/a.csv?replace=true", content=b"two")
        assert (answer.status_code, "admin" in answer.text) == (403, True)
        assert (tmp_path / "a.csv").read_bytes() == b"one"


def test_a_backup_takes_no_part_of_any_database_that_lies_there(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "runs.db")
    (tmp_path / "other.db").write_bytes(b"")
    for name in ("runs.db", "runs.db-wal", "other.db-wal", "other.db-journal"):
        with pytest.raises(PlansmithError):
            back_up(tmp_path / "runs.db", tmp_path / name, force=True, tell=lambda _: None)


async def test_the_files_of_own_servers_are_protected_too(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("print('mine')")
    own = {"servers": {"mine": {"command": "python3", "args": [str(script)]}}}
    await make_smith(Settings.model_validate({"store": "memory", "mcp": own})).close()
    assert not may_write(script)
