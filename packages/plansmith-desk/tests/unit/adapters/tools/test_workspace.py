from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import ToolFailed
from plansmith.ports import Call
from plansmith.testing.contracts import ToolSourceContract
from plansmith_desk.files.tools import WorkspaceTools
from plansmith_desk.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "work"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    (inside / "sub" / "b.csv").write_text("x\n", encoding="utf-8")
    (inside / ".hidden.txt").write_text("hush", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    (inside / "link.txt").symlink_to(tmp_path / "outside.txt")
    (inside / "out").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    return inside


async def use(root: Path, tool: str, most: Any = 10_000, **words: Any) -> Any:
    return await WorkspaceTools(root, most=most).call(tool, words, Call(key="k"))


class TestWorkspaceContract(ToolSourceContract):
    good_call = ("files.find", {"pattern": "*"})

    def make_source(self) -> WorkspaceTools:
        return WorkspaceTools(Path(__file__).parent)


async def test_a_file_is_written_whole_and_its_folders_are_made(folder: Path) -> None:
    written = await use(folder, "files.write", path="new/deep/c.md", text="# 你好\n")
    assert written == {"path": "new/deep/c.md", "bytes": 9, "created": True, "changed": True}
    assert (folder / "new/deep/c.md").read_text(encoding="utf-8") == "# 你好\n"
    assert [each.name for each in (folder / "new/deep").iterdir()] == ["c.md"]
    again = await use(folder, "files.write", path="new/deep/c.md", text="# 你好\n")
    assert again == {"path": "new/deep/c.md", "bytes": 9, "created": False, "changed": False}


async def test_another_text_replaces_a_file_only_when_told(folder: Path) -> None:
    (folder / "a.txt").chmod(0o600)
    with pytest.raises(ToolFailed, match=r"there already.*overwrite"):
        await use(folder, "files.write", path="a.txt", text="new")
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\ntwo\n"
    done = await use(folder, "files.write", path="a.txt", text="new", overwrite=True)
    assert (done["created"], done["changed"]) == (False, True)
    assert (folder / "a.txt").read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o600


async def test_a_file_outside_that_is_linked_into_the_folder_keeps_its_text(folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    (folder / "hard.txt").hardlink_to(outside)
    await use(folder, "files.write", path="hard.txt", text="mine", overwrite=True)
    await use(folder, "files.append", path="hard.txt", text="more")
    assert outside.read_text(encoding="utf-8") == "outside"
    assert (folder / "hard.txt").read_text(encoding="utf-8") == "mine\nmore"


BAD = [
    ("../outside.txt", "leads out"),
    ("/etc/passwd", "absolute"),
    ("out/new.txt", "not a folder"),
    ("link.txt", "not a file"),
    ("pipe", "not a file"),
    ("sub", "not a file"),
    ("sub/", "not the name of a file"),
    (".hidden.txt", "hidden"),
    ("a\0b", "not allowed in names"),
    ("a\u202eb.txt", "not allowed in names"),
    ("x" * 300, "not a usable name"),
    (" a.txt", "not a usable name"),
    ("/".join("d" * 20), "folders deep"),
    ("a.txt/b", "not a folder"),
]


@pytest.mark.parametrize("tool", ["files.write", "files.append", "files.replace"])
@pytest.mark.parametrize(("path", "why"), BAD, ids=[path[:20] for path, _ in BAD])
async def test_no_path_leads_out_of_the_folder(
    folder: Path, tool: str, path: str, why: str
) -> None:
    words = {"old": "a", "new": "b"} if tool == "files.replace" else {"text": "evil"}
    extra = {"overwrite": True} if tool == "files.write" else {}
    with pytest.raises(ToolFailed, match=why):
        await use(folder, tool, path=path, **words, **extra)
    assert (folder.parent / "outside.txt").read_text(encoding="utf-8") == "outside"
    assert sorted(each.name for each in folder.parent.iterdir()) == ["outside.txt", "work"]


def test_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(folder: Path) -> None:
    """Whoever wins the race, nothing is ever written outside."""
    outside = folder.parent / "elsewhere"
    outside.mkdir()
    real, link, place = folder / "real", folder / "link", folder / "swap"
    real.mkdir()
    link.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            real.rename(place)
            place.rename(real)
            link.rename(place)
            place.rename(link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    counts = {True: 0, False: 0}
    try:
        while min(counts.values()) < 30:
            number = sum(counts.values())
            try:
                Folder(folder).update(f"swap/{number}", lambda _: b"x", make=False, most=10)
                counts[True] += 1
            except ToolFailed:
                counts[False] += 1
    finally:
        stop.set()
        swapper.join()
    assert list(outside.iterdir()) == []
    assert len(list(real.iterdir())) == counts[True]


async def test_text_is_added_on_a_line_of_its_own(folder: Path) -> None:
    first = await use(folder, "files.append", path="log.txt", text="a")
    assert first["created"]
    await use(folder, "files.append", path="log.txt", text="b\n")
    await use(folder, "files.append", path="log.txt", text="c")
    assert (folder / "log.txt").read_text(encoding="utf-8") == "a\nb\nc"


async def test_steps_that_add_at_once_lose_nothing(folder: Path) -> None:
    tools = WorkspaceTools(folder)
    calls = [
        tools.call("files.append", {"path": "log.txt", "text": f"{number}\n"}, Call(key="k"))
        for number in range(30)
    ]
    await asyncio.gather(*calls)
    lines = (folder / "log.txt").read_text(encoding="utf-8").split()
    assert sorted(map(int, lines)) == list(range(30))


async def test_an_edit_needs_the_text_as_often_as_said(folder: Path) -> None:
    await use(folder, "files.write", path="c", text="x y x")
    with pytest.raises(ToolFailed, match="occurs 2 times"):
        await use(folder, "files.replace", path="c", old="x", new="z")
    with pytest.raises(ToolFailed, match="occurs 0 times"):
        await use(folder, "files.replace", path="c", old="q", new="z")
    done = await use(folder, "files.replace", path="c", old="x", new="z", times=2)
    assert done["replaced"] == 2
    assert (folder / "c").read_text(encoding="utf-8") == "z y z"
    with pytest.raises(ToolFailed, match="no file none"):
        await use(folder, "files.replace", path="none", old="x", new="z")
    (folder / "bin").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(ToolFailed, match="UTF-8"):
        await use(folder, "files.replace", path="bin", old="x", new="z")


async def test_sizes_are_limited_on_every_way(folder: Path) -> None:
    for tool, words in (
        ("files.write", {"text": "x" * 11}),
        ("files.append", {"text": "x" * 11}),
    ):
        with pytest.raises(ToolFailed, match="larger than 10 bytes"):
            await use(folder, tool, 10, path="big", **words)
    assert not (folder / "big").exists()
    with pytest.raises(ToolFailed, match="larger than 10 bytes"):
        await use(folder, "files.replace", 10, path="a.txt", old="one", new="x" * 20)


async def test_files_are_found_by_pattern_below_without_links_and_hidden_ones(
    folder: Path,
) -> None:
    for patterns, names in (
        (["*"], ["a.txt", "sub/b.csv"]),
        (["*.csv", "sub/*", "**/*.csv", "s**/b.csv"], ["sub/b.csv"]),
        (["?.txt", "./a.*"], ["a.txt"]),
        (["*a*a*a*a*a*b" * 20], []),
    ):
        for pattern in patterns:
            found = await use(folder, "files.find", pattern=pattern)
            assert [each["path"] for each in found["files"]] == names, pattern
    inside = await use(folder, "files.find", pattern="*.csv", folder="sub")
    assert [each["path"] for each in inside["files"]] == ["sub/b.csv"]
