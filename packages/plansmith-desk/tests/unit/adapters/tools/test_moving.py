from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plansmith import Plan, Plansmith, RunStatus
from plansmith.errors import ToolFailed
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.review.settings import ReviewPolicy
from plansmith.store.sqlite import SqliteStore
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.files.moving import MovingTools
from plansmith_desk.files.tools import WorkspaceTools

LIST = Plan.model_validate({"goal": "g", "steps": [{"id": "a", "tool": "files.list"}]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "work"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.txt").write_text("one", encoding="utf-8")
    (inside / "b.txt").write_text("two", encoding="utf-8")
    (inside / "sub" / "c.txt").write_text("three", encoding="utf-8")
    (inside / ".hidden").write_text("hush", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    (inside / "link.txt").symlink_to(tmp_path / "outside.txt")
    (inside / "away").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    return inside


async def use(root: Path, tool: str, **words: Any) -> Any:
    return await MovingTools(root).call(tool, words, Call(key="k"))


def content(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def test_a_file_is_renamed_or_moved_into_a_folder(folder: Path) -> None:
    named = await use(folder, "files.move", path="a.txt", to="new/deep/z.txt")
    assert named == {"path": "new/deep/z.txt", "from": "a.txt"}
    assert content(folder / "new/deep/z.txt") == "one"
    assert not (folder / "a.txt").exists()
    assert (await use(folder, "files.move", path="b.txt", to="sub"))["path"] == "sub/b.txt"
    assert (await use(folder, "files.move", path="sub/b.txt", to="made/"))["path"] == "made/b.txt"
    assert (await use(folder, "files.move", path="made/b.txt", to="."))["path"] == "b.txt"
    assert content(folder / "b.txt") == "two"


async def test_a_folder_is_moved_with_all_that_is_in_it(folder: Path) -> None:
    assert (await use(folder, "files.move", path="sub/", to="other"))["path"] == "other"
    assert content(folder / "other/c.txt") == "three"
    (folder / "sub").mkdir()
    assert (await use(folder, "files.move", path="other", to="sub"))["path"] == "sub/other"
    (folder / "other").mkdir()
    (folder / "sub/other/keep.txt").write_text("x", encoding="utf-8")
    with pytest.raises(ToolFailed, match="there already"):
        await use(folder, "files.move", path="sub/other", to=".")
    with pytest.raises(ToolFailed, match="into itself"):
        await use(folder, "files.move", path="sub", to="sub/other/deeper")


@pytest.mark.parametrize("tool", ["files.move", "files.copy"])
async def test_a_file_that_is_there_is_replaced_only_when_told(folder: Path, tool: str) -> None:
    with pytest.raises(ToolFailed, match="there already") as failed:
        await use(folder, tool, path="a.txt", to="b.txt")
    assert "overwrite" in str(failed.value.hint)
    assert (content(folder / "a.txt"), content(folder / "b.txt")) == ("one", "two")
    await use(folder, tool, path="a.txt", to="b.txt", overwrite=True)
    assert content(folder / "b.txt") == "one"
    assert (folder / "a.txt").exists() is (tool == "files.copy")


async def test_a_copy_has_the_same_content_and_permissions_and_again_counts_as_done(
    folder: Path,
) -> None:
    (folder / "a.txt").chmod(0o640)
    made = await use(folder, "files.copy", path="a.txt", to="backup/")
    assert made == {"path": "backup/a.txt", "from": "a.txt", "bytes": 3, "changed": True}
    assert stat.S_IMODE((folder / "backup/a.txt").stat().st_mode) == 0o640
    assert not (await use(folder, "files.copy", path="a.txt", to="backup/a.txt"))["changed"]
    assert [each.name for each in (folder / "backup").iterdir()] == ["a.txt"]
    with pytest.raises(ToolFailed, match="larger than 2 bytes"):
        await MovingTools(folder, most=2).call(
            "files.copy", {"path": "a.txt", "to": "z"}, Call(key="k")
        )


async def test_a_file_or_an_empty_folder_is_deleted_and_nothing_more(folder: Path) -> None:
    assert await use(folder, "files.delete", path="a.txt") == {"path": "a.txt", "deleted": True}
    assert not (folder / "a.txt").exists()
    with pytest.raises(ToolFailed, match=r"sub is not empty"):
        await use(folder, "files.delete", path="sub")
    await use(folder, "files.delete", path="sub/c.txt")
    assert (await use(folder, "files.delete", path="sub/"))["path"] == "sub"
    with pytest.raises(ToolFailed, match=r"there is no a\.txt"):
        await use(folder, "files.delete", path="a.txt")


BAD = [
    ("../outside.txt", "leads out"),
    ("/etc/passwd", "absolute"),
    ("link.txt", "is not a file"),
    ("away/outside.txt", "is not a folder"),
    ("pipe", "is not a file"),
    (".", "not the name"),
    ("none/x.txt", "no folder none"),
]


@pytest.mark.parametrize(("path", "why"), BAD)
async def test_nothing_outside_or_odd_is_moved_copied_or_deleted(
    folder: Path, path: str, why: str
) -> None:
    before = sorted(str(each) for each in folder.parent.rglob("*"))
    for tool, more in (("move", {"to": "z"}), ("copy", {"to": "z"}), ("delete", {})):
        with pytest.raises(ToolFailed, match=why):
            await use(folder, f"files.{tool}", path=path, **more)
    assert sorted(str(each) for each in folder.parent.rglob("*")) == before
    assert content(folder.parent / "outside.txt") == "outside"


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("../stolen.txt", "leads out"),
        ("away/stolen.txt", "is not a folder"),
        (".hidden", "hidden"),
        ("link.txt", "is not a file|there already"),
        ("a.txt", "its name already"),
        (".", "its name already"),
    ],
)
async def test_no_file_goes_outside_or_over_something_odd(folder: Path, to: str, why: str) -> None:
    for tool in ("files.move", "files.copy"):
        for overwrite in (False, True):
            with pytest.raises(ToolFailed, match=why):
                await use(folder, tool, path="a.txt", to=to, overwrite=overwrite)
    assert content(folder / "a.txt") == "one"
    assert content(folder.parent / "outside.txt") == "outside"
    assert (folder / "link.txt").is_symlink()


async def test_a_move_that_was_cut_off_between_its_two_names_is_finished(folder: Path) -> None:
    # What a crash leaves: the file has its new name and still the old one.
    (folder / "z.txt").hardlink_to(folder / "a.txt")
    assert (await use(folder, "files.move", path="a.txt", to="z.txt"))["path"] == "z.txt"
    assert not (folder / "a.txt").exists()
    assert content(folder / "z.txt") == "one"
    # Whether a whole move was ours cannot be told, so it is never taken for done.
    with pytest.raises(ToolFailed, match=r"there is no a\.txt") as failed:
        await use(folder, "files.move", path="a.txt", to="z.txt")
    assert failed.value.hint == "z.txt is there: was it moved already?"


def swapped_at(name: str, swap: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Let somebody act just before a call of the operating system."""
    real = getattr(os, name)
    turns = iter([swap])

    def raced(*given: Any, **more: Any) -> Any:
        next(turns, lambda: None)()
        return real(*given, **more)

    patch.setattr(os, name, raced)


async def test_a_name_that_somebody_takes_meanwhile_is_not_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("files.move", "files.copy"):
        with monkeypatch.context() as patch:
            (folder / "z.txt").unlink(missing_ok=True)
            swapped_at("link", lambda: (folder / "z.txt").write_bytes(b"mine"), patch)
            with pytest.raises(ToolFailed, match=r"there already|File exists"):
                await use(folder, tool, path="a.txt", to="z.txt")
        assert content(folder / "z.txt") == "mine"
        assert content(folder / "a.txt") == "one"


async def test_a_move_whose_old_name_cannot_be_taken_away_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def refusing(path: str, *, dir_fd: int) -> None:
        if path == "a.txt":  # such as a file of another person in a shared folder
            raise PermissionError(1, "Operation not permitted")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refusing)
    with pytest.raises(ToolFailed, match="not permitted"):
        await use(folder, "files.move", path="a.txt", to="z.txt")
    assert not (folder / "z.txt").exists()
    assert content(folder / "a.txt") == "one"


async def test_a_file_swapped_for_a_link_meanwhile_is_not_moved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(folder.parent / "outside.txt")

    with monkeypatch.context() as patch:
        swapped_at("link", swap, patch)
        with pytest.raises(ToolFailed, match="changed meanwhile"):
            await use(folder, "files.move", path="a.txt", to="z.txt")
    assert not (folder / "z.txt").is_symlink()
    assert (folder / "a.txt").is_symlink()


async def test_a_file_that_changes_while_it_is_copied_is_not_half_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow() -> None:
        with (folder / "a.txt").open("a", encoding="utf-8") as file:
            file.write("more")

    with monkeypatch.context() as patch:
        swapped_at("fchmod", grow, patch)
        with pytest.raises(ToolFailed, match="changed while it was copied"):
            await use(folder, "files.copy", path="a.txt", to="z.txt")
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]  # noqa: PTH208
    assert not (folder / "z.txt").exists()


async def test_of_two_moves_to_one_name_one_wins_and_nothing_is_lost(folder: Path) -> None:
    tools = MovingTools(folder)
    ended = await asyncio.gather(
        *(
            tools.call("files.move", {"path": name, "to": "z.txt"}, Call(key=name))
            for name in ("a.txt", "b.txt")
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(each, ToolFailed) for each in ended) == 1
    left = [each for each in ("a.txt", "b.txt", "z.txt") if (folder / each).exists()]
    assert sorted(content(folder / each) for each in left) == ["one", "two"]


async def test_a_store_in_use_is_neither_moved_nor_deleted_nor_replaced(folder: Path) -> None:
    store = SqliteStore(folder / "runs.db")
    async with Plansmith(store=store, tools=builtin_sources(folder)) as smith:
        await smith.submit(LIST)
        for tool, words in (
            ("files.move", {"path": "runs.db", "to": "z.db"}),
            ("files.copy", {"path": "runs.db", "to": "z.db"}),
            ("files.delete", {"path": "runs.db"}),
            ("files.move", {"path": "a.txt", "to": "runs.db", "overwrite": True}),
            ("files.copy", {"path": "a.txt", "to": "runs.db", "overwrite": True}),
        ):
            with pytest.raises(ToolFailed, match=r"runs\.db (is not|may not be changed|and runs)"):
                await use(folder, tool, **words)
    with sqlite3.connect(folder / "runs.db") as database:
        assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)
    database.close()


async def test_a_folder_that_holds_a_store_in_use_is_not_moved(folder: Path) -> None:
    store = SqliteStore(folder / "sub" / "deep" / "runs.db")
    (folder / "sub" / "deep").mkdir()
    async with Plansmith(store=store, tools=builtin_sources(folder)) as smith:
        await smith.submit(LIST)
        for path in ("sub", "sub/deep"):
            with pytest.raises(ToolFailed, match="may not be changed"):
                await use(folder, "files.move", path=path, to="elsewhere")
    assert (await use(folder, "files.move", path="sub", to="elsewhere"))["path"] == "elsewhere"


async def test_a_database_is_not_parted_from_changes_that_wait_beside_it(folder: Path) -> None:
    used = sqlite3.connect(folder / "shop.db")
    used.execute("PRAGMA journal_mode = WAL")
    used.execute("CREATE TABLE orders (id)")
    used.commit()
    for tool, words in (
        ("files.move", {"path": "shop.db", "to": "old.db"}),
        ("files.copy", {"path": "shop.db", "to": "old.db"}),
        ("files.delete", {"path": "shop.db"}),
        ("files.delete", {"path": "shop.db-wal"}),
        ("files.move", {"path": "shop.db-wal", "to": "sub/"}),
        ("files.copy", {"path": "a.txt", "to": "shop.db", "overwrite": True}),
        ("files.move", {"path": "a.txt", "to": "shop.db", "overwrite": True}),
    ):
        with pytest.raises(ToolFailed, match=r"belong together|may not be changed"):
            await use(folder, tool, **words)
    used.close()  # which takes the changes in
    assert (await use(folder, "files.move", path="shop.db", to="old.db"))["path"] == "old.db"


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
async def test_no_file_is_put_where_sqlite_would_take_it_for_changes(
    folder: Path, ending: str
) -> None:
    with sqlite3.connect(folder / "shop.db") as made:
        made.execute("CREATE TABLE orders (id)")
    made.close()
    to = f"shop.db{ending}"
    for tool in ("files.move", "files.copy"):
        with pytest.raises(ToolFailed, match="belong together"):
            await use(folder, tool, path="a.txt", to=to)
    with pytest.raises(ToolFailed, match="belong together"):
        await WorkspaceTools(folder).call("files.write", {"path": to, "text": "x"}, Call(key="k"))
    assert not (folder / to).exists()


async def test_deleting_is_freed_from_consent_by_its_name_alone_and_never_by_a_pattern(
    folder: Path,
) -> None:
    each = {"id": "d", "tool": "files.delete", "inputs": {"path": "{{item.path}}"}}
    found = {"id": "f", "tool": "files.find", "inputs": {"pattern": "*.txt", "folder": "sub"}}
    alone = [{"id": "a", "tool": "files.delete", "inputs": {"path": "sub/c.txt"}}]
    mapped = [found, {"id": "m", "kind": "map", "over": "{{f.files}}", "each": each}]
    plans = [Plan.model_validate({"goal": "g", "steps": steps}) for steps in (alone, mapped)]
    for pattern in ("files.*", "*", "files.delet[e]"):
        free = Limits(data_free=(pattern,))
        policy = ReviewPolicy(never_for=(pattern,))
        smith = Plansmith(tools=builtin_sources(folder), policy=policy, limits=free)
        first, run = [await smith.runs.run((await smith.submit(plan)).id) for plan in plans]
        assert first.status is run.status is RunStatus.REVIEWING
        # The paths come from a tool: who approved the plan has not seen them.
        await smith.decide(run.id, approve=plans[1].hash, by="ada")
        assert (await smith.run(run.id)).status is RunStatus.ASKING
        assert (folder / "sub" / "c.txt").exists()
    named = ReviewPolicy(never_for=("files.delete",))
    smith = Plansmith(tools=builtin_sources(folder), policy=named)
    assert (await smith.run((await smith.submit(plans[0])).id)).status is RunStatus.DONE


async def test_moving_tools_say_in_short_words_what_they_do(folder: Path) -> None:
    specs = {spec.name: spec for spec in await MovingTools(folder).tools()}
    assert {name: spec.effect for name, spec in specs.items()} == {
        "files.move": "write",
        "files.copy": "write",
        "files.delete": "final",
    }
    # What cannot be told from a first attempt is never repeated without a person.
    assert [name for name, spec in specs.items() if spec.idempotent] == ["files.copy"]
