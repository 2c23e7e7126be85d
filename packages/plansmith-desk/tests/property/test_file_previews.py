"""What a preview says of files is what the call then does; looking changes nothing."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from plansmith import CallPreview, Plansmith, Run, RunStatus, read_plan
from plansmith_desk.builtin import builtin_sources

# Names that meet one another, and some that no call may touch.
NAMES = ["a.txt", "b.csv", "c.json", "d/a.txt", "d/e/b.csv", "new.txt", "b.csv-wal", "f.txt"]
ODD = ["d", "a.txt/x", "link", "away/in.txt", "pipe", "../out.txt", "/etc/x", ".hidden", "n\x07"]
TEXTS = st.sampled_from(["", "one", "one\ntwo\n", "x,y\n1,2\n", '[{"x": 1}]', "é" * 9, "two"])
TREES = st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=6)
ROWS = st.lists(st.fixed_dictionaries({"x": st.integers(0, 3)}), min_size=1, max_size=3)
PATHS, FLAGS = st.sampled_from([*NAMES, *NAMES, "d", "d", *ODD]), st.booleans()
CALLS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "files.write": {"path": PATHS, "text": TEXTS, "overwrite": FLAGS},
    "files.append": {"path": PATHS, "text": TEXTS},
    "files.replace": {"path": PATHS, "old": st.just("one"), "new": TEXTS},
    "files.move": {"path": PATHS, "to": PATHS, "overwrite": FLAGS},
    "files.copy": {"path": PATHS, "to": PATHS, "overwrite": FLAGS},
    "files.delete": {"path": PATHS},
    "tables.write": {"path": PATHS, "rows": ROWS, "overwrite": FLAGS},
    "tables.export": {"table": PATHS, "path": PATHS, "overwrite": FLAGS},
    "charts.draw": {"rows": ROWS, "path": st.sampled_from(["d/c.svg", "a.txt/c.svg"])},
}
CALL = st.sampled_from(sorted(CALLS)).flatmap(
    lambda tool: st.tuples(st.just(tool), st.fixed_dictionaries(CALLS[tool]))
)
Tree = dict[str, bytes | None]


def make(root: Path, tree: Mapping[str, str]) -> None:
    outside = root.parent / "outside"
    for name, text in {"../outside/in.txt": "outside", **tree}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).resolve().write_text(text)
    (root / "link").symlink_to(outside / "in.txt")
    (root / "away").symlink_to(outside)
    os.mkfifo(root / "pipe")


def contents(root: Path) -> Tree:
    """All files in and around a folder; of what is no file only that it is there."""
    found = {os.path.relpath(path, root): path for path in root.parent.rglob("*")}
    kept = {name: path for name, path in found.items() if path.is_symlink() or not path.is_dir()}
    is_file = {name: path.is_file() and not path.is_symlink() for name, path in kept.items()}
    return {name: path.read_bytes() if is_file[name] else None for name, path in kept.items()}


def expected(call: str, before: Tree, shown: CallPreview, now: Tree) -> Tree:
    """What is there after a call by its preview; a content that this does not tell is taken."""
    found = dict(before)
    if len(shown.moved) == 2 and not shown.files:
        old, new = shown.moved
        for name in [each for each in before if each.startswith(f"{old}/")]:
            found[new + name[len(old) :]] = found.pop(name)
    for file in shown.files:
        was, data = before.get(file.path), now.get(file.path)
        kind = "new" if was is None else "deleted" if data is None else "changed"
        assert file.change == ("same" if was == data else kind)
        assert file.size_before == (None if was is None else len(was))
        assert file.size_after == (None if data is None else len(data))
        text = (data or b"").decode()
        assert file.text in ("", text)
        added = [each[1:] for each in file.difference if each[0] in "+ "]
        assert {*added} <= {*text.splitlines()}
        assert file.change != "new" or call == "files.copy" or shown.moved or file.text == text
        found |= {file.path: data}
        if data is None:
            del found[file.path]
    return found


async def seen(smith: Plansmith, *calls: tuple[str, Mapping[str, Any]]) -> Run:
    steps = [
        {"id": f"s{number}", "tool": tool, "inputs": dict(inputs)}
        for number, (tool, inputs) in enumerate(calls)
    ]
    return await smith.preview(read_plan({"goal": "g", "steps": steps}), by="ann")


async def approved(smith: Plansmith, run: Run) -> Run:
    assert run.preview is not None
    await smith.decide(run.id, approve=run.preview.hash, by="ann")
    return await smith.run(run.id)


@example({"d/a.txt": "x", "a.txt": ""}, ("files.move", {"path": "d", "to": "a.txt"}))
@example({"d/a.txt": "x"}, ("files.delete", {"path": "d"}))
@example({"d/a.txt": "x"}, ("files.copy", {"path": "d", "to": "e"}))
@example({"b.csv-wal": "x"}, ("files.append", {"path": "b.csv", "text": "x"}))
@given(tree=TREES, call=CALL)
async def test_what_a_preview_says_is_what_the_call_does(
    tree: dict[str, str], call: tuple[str, dict[str, Any]]
) -> None:
    with TemporaryDirectory() as place:
        make(root := Path(place) / "work", tree)
        before = contents(root)
        async with Plansmith(tools=builtin_sources(root)) as smith:
            run = await seen(smith, call)
            assert contents(root) == before
            assert run.preview is not None
            assume(run.preview.calls)  # else the plan itself is refused
            shown = run.preview.calls[0].shown
            assert shown is not None
            run = await approved(smith, run)
        assert bool(shown.fails) == (run.status is not RunStatus.DONE), run.steps["s0"].error
        assert contents(root) == expected(call[0], before, shown, contents(root))


# Calls that replace, change or take away the file F.
OVER = {"overwrite": True}
CHANGING: dict[str, dict[str, Any]] = {
    "files.write": {"path": "F.txt", "text": "new", **OVER},
    "files.append": {"path": "F.txt", "text": "new"},
    "files.replace": {"path": "F.txt", "old": "old", "new": "new"},
    "files.copy": {"path": "in.csv", "to": "F.txt", **OVER},
    "files.move": {"path": "F.txt", "to": "away/F.txt"},
    "files.delete": {"path": "F.txt"},
    "tables.write": {"path": "F.csv", "rows": [{"x": 1}], **OVER},
    "tables.export": {"table": "in.csv", "path": "F.md", **OVER},
    "charts.draw": {"path": "F.svg", "rows": [{"n": "a", "x": 1}], **OVER},
}


@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGING)), FLAGS), min_size=1, max_size=5))
async def test_a_file_that_changes_after_the_approval_makes_only_its_own_call_ask(
    cases: list[tuple[str, bool]],
) -> None:
    with TemporaryDirectory() as place:
        root = Path(place)
        (root / "in.csv").write_text("x\n1\n")
        calls, files = list[tuple[str, dict[str, Any]]](), list[Path]()
        for number, (tool, _) in enumerate(cases):
            inputs = {
                key: value.replace("F", f"f{number}") if isinstance(value, str) else value
                for key, value in CHANGING[tool].items()
            }
            calls.append((tool, inputs))
            files.append(root / (inputs["to"] if tool == "files.copy" else inputs["path"]))
            files[-1].write_text("old")
        changed = [number for number, (_, is_changed) in enumerate(cases) if is_changed]
        async with Plansmith(tools=builtin_sources(root)) as smith:
            run = await seen(smith, *calls)
            for number in changed:
                files[number].write_text("precious")
            run = await approved(smith, run)
        assert {each.step for each in run.questions.values()} == {f"s{each}" for each in changed}
        for number, file in enumerate(files):
            state, text = run.steps[f"s{number}"], file.read_text() if file.exists() else ""
            assert state.status == ("asking" if number in changed else "done"), state.error
            assert (text == "precious") == (number in changed)
            assert text != "old"


async def test_previews_of_large_files_are_short_and_need_little_memory(tmp_path: Path) -> None:
    make(root := tmp_path / "work", {"log.txt": "a line\n" * 140_000, "long.txt": "x" * 9_000_000})
    with (root / "large.bin").open("wb") as file:
        file.truncate(200_000_000)
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("files.append", {"path": "log.txt", "text": "end"}),
        ("files.append", {"path": "large.bin", "text": "end"}),
        ("files.write", {"path": "log.txt", "text": "other\n" * 150_000, **OVER}),
        ("files.write", {"path": "large.bin", "text": "", **OVER}),
        ("files.copy", {"path": "large.bin", "to": "long.txt", **OVER}),
        ("files.move", {"path": "long.txt", "to": "log.txt", **OVER}),
    ]
    times = {each: each.lstat().st_mtime_ns for each in root.iterdir()}
    async with Plansmith(tools=builtin_sources(root)) as smith:
        tracemalloc.start()
        try:
            found = [(await seen(smith, call)).preview for call in wanted]
            assert tracemalloc.get_traced_memory()[1] < 100_000_000
        finally:
            tracemalloc.stop()
    shown = [each.calls[0].shown for each in found if each is not None]
    assert [bool(each and each.fails) for each in shown] == [False, True, *[False] * 4]
    assert max(len(str(each)) for each in shown) < 250_000
    assert {each: each.lstat().st_mtime_ns for each in root.iterdir()} == times
