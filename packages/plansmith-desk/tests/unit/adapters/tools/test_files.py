from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import ToolFailed
from plansmith.ports import Call
from plansmith.testing.contracts import ToolSourceContract
from plansmith_desk.files.tools import FileToolLimits, FileTools, WorkspaceTools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "work"
    (inside / "sub").mkdir(parents=True)
    (inside / "b.txt").write_text("bee\n", encoding="utf-8")
    (inside / "a.txt").write_text("你好\n", encoding="utf-8")
    (inside / "sub" / "c.txt").write_text("sea", encoding="utf-8")
    (inside / ".secret").write_text("hush", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    (inside / "link.txt").symlink_to(tmp_path / "outside.txt")
    (inside / "out").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    return inside


async def use(root: Path, tool: str, limits: FileToolLimits | None = None, **words: Any) -> Any:
    return await FileTools(root, limits=limits).call(tool, words, Call(key="k"))


async def test_files_and_folders_are_listed_in_order_without_hidden_ones_and_links(
    folder: Path,
) -> None:
    changed = datetime(2026, 5, 4, tzinfo=UTC)
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        os.utime(folder / name, (changed.timestamp(), changed.timestamp()))
    (folder / ".git").mkdir()
    (folder / "way").symlink_to(folder / "sub")
    when = {"modified": "2026-05-04T00:00:00+00:00"}
    listed = {
        "files": [{"path": "a.txt", "size": 7} | when, {"path": "b.txt", "size": 4} | when],
        "folders": ["sub"],
    }
    assert await use(folder, "files.list", folder=".") == listed
    assert await use(folder, "files.list") == listed
    assert await use(folder, "files.list", folder="sub") == {
        "files": [{"path": "sub/c.txt", "size": 3} | when],
        "folders": [],
    }


async def test_one_plural_finds_the_singular_too_and_says_so(folder: Path) -> None:
    (folder / "bill.txt").write_text("Invoice 7\nanother invoice, two Invoices\n", encoding="utf-8")
    found = await use(folder, "files.search", text="invoices")
    assert [each["path"] for each in found["files"]] == ["bill.txt"]
    assert (found["files"][0]["count"], found["also"]) == (2, "invoice")
    for exact in ("invoice", "glass", "two invoices", "as"):
        assert "also" not in await use(folder, "files.search", text=exact)


async def test_more_files_than_the_limit_are_counted_and_not_listed(folder: Path) -> None:
    listed = await use(folder, "files.list", FileToolLimits(files=1), folder=".")
    assert [each["path"] for each in listed["files"]] == ["a.txt"]
    assert listed["left_out"] == 1


@pytest.mark.parametrize(
    ("tool", "words", "why"),
    [
        ("files.read", {"path": "../outside.txt"}, "leads out of the working folder"),
        ("files.read", {"path": "/etc/passwd"}, "is an absolute path"),
        ("files.read", {"path": "link.txt"}, "is not a file"),
        ("files.read", {"path": "out/outside.txt"}, "links are not followed"),
        ("files.read", {"path": ".secret"}, "hidden"),
        ("files.read", {"path": "none.txt"}, "there is no file none.txt"),
        ("files.read", {"path": "sub"}, "is not a file"),
        ("files.read", {"path": "pipe"}, "is not a file"),
        ("files.read", {"path": "a.txt\0"}, "not allowed in names"),
        ("files.read", {"path": "binary"}, "not a text file"),
        ("files.read", {"path": "latin"}, "not a text file in UTF-8"),
        ("files.read", {"path": "big"}, "larger than 1,000 bytes"),
        ("files.list", {"folder": "a.txt"}, "is not a folder"),
        ("files.search", {"text": " ", "folder": "."}, "nothing to search"),
    ],
)
async def test_what_may_not_or_cannot_be_read_fails_and_says_why(
    tool: str, words: dict[str, Any], why: str, folder: Path
) -> None:
    (folder / "binary").write_bytes(b"\x7fELF\0\0")
    (folder / "latin").write_bytes("é".encode("latin-1"))
    (folder / "big").write_text("x" * 1001, encoding="utf-8")
    with pytest.raises(ToolFailed, match=why):
        await use(folder, tool, FileToolLimits(bytes_each=1000), **words)


async def test_files_with_a_text_are_found_in_whatever_case_and_depth(folder: Path) -> None:
    (folder / "sub" / "c.txt").write_text("one\nThe SEA, the sea\n\nsea", encoding="utf-8")
    (folder / ".secret").write_text("sea", encoding="utf-8")
    (folder / "raw.bin").write_bytes(b"\0sea")
    assert await use(folder, "files.search", text="sea", folder=".") == {
        "text": "sea",
        "files": [
            {
                "path": "sub/c.txt",
                "count": 2,
                "lines": [{"line": 2, "text": "The SEA, the sea"}, {"line": 4, "text": "sea"}],
            }
        ],
        "searched": 3,
        "not_text": 1,
    }
    assert (await use(folder, "files.search", text="好", folder="."))["files"][0]["count"] == 1


async def test_a_search_says_what_it_left_out_and_stays_inside(folder: Path) -> None:
    (folder / "b.txt").write_text("bee " * 100 + "\nbee\nbee", encoding="utf-8")
    limits = FileToolLimits(searched=2, lines_each=1, letters_each=10)
    found = await use(folder, "files.search", limits, text="bee", folder=".")
    assert found["left_out"] == 1
    [file] = found["files"]
    assert (file["count"], file["lines"]) == (3, [{"line": 1, "text": "bee bee be"}])
    assert (await use(folder, "files.search", text="outside", folder="."))["files"] == []


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("files.read", {"path": "sub/c.txt"}),
        ("files.read", {"path": "c.txt"}),
        ("files.search", {"text": "outside"}),
        ("files.search", {"text": "outside", "folder": "sub"}),
        ("files.list", {"folder": "sub"}),
        ("files.write", {"path": "sub/c.txt", "text": "mine", "overwrite": True}),
        ("files.append", {"path": "sub/new.txt", "text": "mine"}),
    ],
)
async def test_a_folder_that_becomes_a_link_at_any_step_leads_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tool: str, words: dict[str, Any]
) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("c.txt", "elsewhere.txt"):
        (elsewhere / name).write_text("an outside secret", encoding="utf-8")
    sub, aside = folder / "sub", folder.parent / "aside"
    step = 0
    swapped = True
    while swapped:
        step += 1
        left, swapped = step, False

        def swap() -> None:
            nonlocal left, swapped
            left -= 1
            if left == 0:
                sub.rename(aside)
                sub.symlink_to(elsewhere)
                swapped = True

        with monkeypatch.context() as patch:
            for name in ("open", "stat", "lstat", "scandir", "listdir", "readlink", "link"):
                _before_each(name, swap, patch)
            try:
                found = await (change if "text" in words and "path" in words else use)(
                    folder, tool, **words
                )
            except ToolFailed as failure:
                found = str(failure)
        assert "an outside secret" not in str(found), step
        assert "elsewhere.txt" not in str(found), step
        texts = {each.name: each.read_text(encoding="utf-8") for each in elsewhere.iterdir()}
        assert texts == dict.fromkeys(("c.txt", "elsewhere.txt"), "an outside secret"), step
        if swapped:
            sub.unlink()
            aside.rename(sub)
    assert step > 3


def _before_each(name: str, act: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Lets somebody act before each of these calls of the operating system."""
    real = getattr(os, name)

    def raced(*given: Any, **more: Any) -> Any:
        patch.setattr(os, name, real)  # what the other one does is not raced itself
        act()
        patch.setattr(os, name, raced)
        return real(*given, **more)

    patch.setattr(os, name, raced)


async def test_a_folder_that_cannot_be_listed_says_so_without_a_path(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    tools = FileTools(root)
    root.rmdir()
    for tool, words in (("files.list", {}), ("files.read", {"path": "a"}), ("files.find", {})):
        with pytest.raises(ToolFailed) as failure:
            await tools.call(tool, words, Call(key="k"))
        assert str(tmp_path) not in str(failure.value)


async def change(root: Path, tool: str, most: Any = 10_000, **words: Any) -> Any:
    return await WorkspaceTools(root, most=most).call(tool, words, Call(key="k"))


class TestWorkspaceContract(ToolSourceContract):
    good_call = ("files.find", {"pattern": "*"})

    def make_source(self) -> WorkspaceTools:
        return WorkspaceTools(Path(__file__).parent)


async def test_a_file_is_written_whole_and_its_folders_are_made(folder: Path) -> None:
    written = await change(folder, "files.write", path="new/deep/c.md", text="# 你好\n")
    assert written == {"path": "new/deep/c.md", "bytes": 9, "created": True, "changed": True}
    assert (folder / "new/deep/c.md").read_text(encoding="utf-8") == "# 你好\n"
    assert [each.name for each in (folder / "new/deep").iterdir()] == ["c.md"]
    again = await change(folder, "files.write", path="new/deep/c.md", text="# 你好\n")
    assert again == {"path": "new/deep/c.md", "bytes": 9, "created": False, "changed": False}


async def test_another_text_replaces_a_file_only_when_told(folder: Path) -> None:
    (folder / "a.txt").chmod(0o600)
    with pytest.raises(ToolFailed, match=r"there already.*overwrite"):
        await change(folder, "files.write", path="a.txt", text="new")
    assert (folder / "a.txt").read_text(encoding="utf-8") == "你好\n"
    done = await change(folder, "files.write", path="a.txt", text="new", overwrite=True)
    assert (done["created"], done["changed"]) == (False, True)
    assert (folder / "a.txt").read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o600


async def test_a_file_outside_that_is_linked_into_the_folder_keeps_its_text(folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    (folder / "hard.txt").hardlink_to(outside)
    await change(folder, "files.write", path="hard.txt", text="mine", overwrite=True)
    await change(folder, "files.append", path="hard.txt", text="more")
    assert outside.read_text(encoding="utf-8") == "outside"
    assert (folder / "hard.txt").read_text(encoding="utf-8") == "mine\nmore"


BAD = [
    *(("../outside.txt", "leads out"), ("/etc/passwd", "absolute")),
    *(("out/new.txt", "not a folder"), ("link.txt", "not a file"), ("pipe", "not a file")),
    *(("sub", "not a file"), ("sub/", "not the name of a file"), (".secret", "hidden")),
    *(("a\0b", "not allowed in names"), ("a\u202eb.txt", "not allowed in names")),
    *(("x" * 300, "not a usable name"), (" a.txt", "not a usable name")),
    *(("/".join("d" * 20), "folders deep"), ("a.txt/b", "not a folder")),
]


@pytest.mark.parametrize("tool", ["files.write", "files.append", "files.replace"])
@pytest.mark.parametrize(("path", "why"), BAD, ids=[path[:20] for path, _ in BAD])
async def test_no_path_leads_out_of_the_folder(
    folder: Path, tool: str, path: str, why: str
) -> None:
    words = {"old": "a", "new": "b"} if tool == "files.replace" else {"text": "evil"}
    extra = {"overwrite": True} if tool == "files.write" else {}
    with pytest.raises(ToolFailed, match=why):
        await change(folder, tool, path=path, **words, **extra)
    assert (folder.parent / "outside.txt").read_text(encoding="utf-8") == "outside"
    assert sorted(each.name for each in folder.parent.iterdir()) == ["outside.txt", "work"]


async def test_text_is_added_on_a_line_of_its_own(folder: Path) -> None:
    assert (await change(folder, "files.append", path="log.txt", text="a"))["created"]
    await change(folder, "files.append", path="log.txt", text="b\n")
    await change(folder, "files.append", path="log.txt", text="c")
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
    await change(folder, "files.write", path="c", text="x y x")
    with pytest.raises(ToolFailed, match="occurs 2 times"):
        await change(folder, "files.replace", path="c", old="x", new="z")
    with pytest.raises(ToolFailed, match="occurs 0 times"):
        await change(folder, "files.replace", path="c", old="q", new="z")
    done = await change(folder, "files.replace", path="c", old="x", new="z", times=2)
    assert done["replaced"] == 2
    assert (folder / "c").read_text(encoding="utf-8") == "z y z"
    with pytest.raises(ToolFailed, match="no file none"):
        await change(folder, "files.replace", path="none", old="x", new="z")
    (folder / "bin").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(ToolFailed, match="UTF-8"):
        await change(folder, "files.replace", path="bin", old="x", new="z")


async def test_sizes_are_limited_on_every_way(folder: Path) -> None:
    for tool, words in (("files.write", {"text": "x" * 11}), ("files.append", {"text": "x" * 11})):
        with pytest.raises(ToolFailed, match="larger than 10 bytes"):
            await change(folder, tool, 10, path="big", **words)
    assert not (folder / "big").exists()
    with pytest.raises(ToolFailed, match="larger than 10 bytes"):
        await change(folder, "files.replace", 10, path="a.txt", old="你", new="x" * 20)


async def test_files_are_found_by_pattern_below_without_links_and_hidden_ones(folder: Path) -> None:
    (folder / "sub/c.txt").rename(folder / "sub/b.csv")
    (folder / "b.txt").unlink()
    for patterns, names in (
        (["*"], ["a.txt", "sub/b.csv"]),
        (["*.csv", "sub/*", "**/*.csv", "s**/b.csv"], ["sub/b.csv"]),
        (["?.txt", "./a.*"], ["a.txt"]),
        (["*a*a*a*a*a*b" * 20], []),
    ):
        for pattern in patterns:
            found = await change(folder, "files.find", pattern=pattern)
            assert [each["path"] for each in found["files"]] == names, pattern
    inside = await change(folder, "files.find", pattern="*.csv", folder="sub")
    assert [each["path"] for each in inside["files"]] == ["sub/b.csv"]
