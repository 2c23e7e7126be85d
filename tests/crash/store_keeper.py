"""A process that uses one SQLite store in every way and says whether its locks and files are safe.

python -m tests.crash.store_keeper STORE
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plansmith import Plan, tool
from plansmith.app import Plansmith
from plansmith.errors import PlansmithError
from plansmith.ports import Call
from plansmith.store.sqlite import SqliteStore
from plansmith.verify import verify
from plansmith_cli.doctor import diagnose
from plansmith_desk.files.tools import FileTools
from plansmith_desk.folder import Folder
from plansmith_planner.context.documents import DocumentSource

opened: list[str] = []


def watch(store: Path) -> None:
    """Note who opens the store's files, other than SQLite."""
    names = {f"{store.name}{suffix}" for suffix in ("", "-wal", "-shm")}

    def look(event: str, given: tuple[Any, ...]) -> None:
        # By the last part: some open a file by its name inside a folder.
        if event == "open" and isinstance(given[0], str | bytes | os.PathLike):
            path = Path(os.fsdecode(given[0]))
            if path.name in names:
                opened.append(str(path))

    sys.addaudithook(look)


def locks(store: Path) -> int:
    """How many locks this process has on the store's files."""
    inodes = {str(file.stat().st_ino) for file in (store, Path(f"{store}-shm")) if file.exists()}
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    mine = [row for row in rows if "->" not in row and row[4] == str(os.getpid())]
    return sum(row[5].rpartition(":")[2] in inodes for row in mine)


@tool(effect="read")
def look(name: str = "") -> str:
    """See."""
    return name


async def main(path: Path) -> None:
    """Do everything, and print what each deed left of the locks."""
    watch(path)
    store = SqliteStore(path)
    smith = Plansmith(tools=[look], store=store)
    plan = Plan.model_validate({"goal": "see", "steps": [{"id": "a", "tool": "look"}]})
    run = await smith.submit(plan)
    actions: dict[str, Callable[[], Awaitable[Any]]] = {
        "run": lambda: smith.runs.run(run.id),
        "list": smith.runs.all,
        "doctor": lambda: diagnose(f"sqlite:///{path}"),
        "verify": lambda: verify(store, run.id),
        "second store": lambda: second(path),
        "prune": lambda: store.prune(datetime(2020, 1, 1, tzinfo=UTC)),
        "file tool": lambda: read_by_tool(path),
        "folder tool": lambda: read_by_folder(path),
        "documents": lambda: DocumentSource([path.parent]).gather("see", token_limit=100),
        "schedules": lambda: store.documents("schedule"),
        "news": lambda: store.wait_news(0),
    }
    for name, action in actions.items():
        await action()
        sys.stdout.write(f"{name}: {locks(path)}\n")
    await smith.close()
    sys.stdout.write(f"opened: {opened}\n")


async def second(path: Path) -> None:
    """Another store object on the same file, opened and closed."""
    store = SqliteStore(path)
    await store.runs()
    await store.close()


async def read_by_tool(path: Path) -> None:
    """Ask the file tool for the database, its log and its shared memory."""
    tools = FileTools(path.parent)
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(PlansmithError):
            await tools.call("files.read", {"path": path.name + suffix}, Call(key="k"))
    await tools.call("files.search", {"text": "see"}, Call(key="k"))


async def read_by_folder(path: Path) -> None:
    """Read them through the folder of the writing tools."""
    folder = Folder(path.parent)
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(PlansmithError):
            folder.read(path.name + suffix, most=10**6)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve()))
