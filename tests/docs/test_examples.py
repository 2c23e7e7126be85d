"""Every program of examples/ runs, and prints what the comment at its end says."""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.custom_store import LineStore
from tests.servers.real import node_servers

from plansmith.testing.contracts import PlanStoreContract, journal

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))
NOTEBOOK = json.loads((FOLDER / "notebook.ipynb").read_text(encoding="utf-8"))
RUN_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def arguments(program: Path) -> list[str]:
    """The npm server that is installed: no test fetches anything."""
    if program.stem != "mcp_from_npm":
        return []
    return [str(node_servers() / "mcp-server-filesystem")]


@pytest.mark.parametrize("program", PROGRAMS, ids=[each.stem for each in PROGRAMS])
def test_an_example_prints_what_its_last_comment_says(
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, _, comment = program.read_text(encoding="utf-8").partition("\n# Prints:\n")
    expected = [line.removeprefix("#").removeprefix(" ") for line in comment.splitlines()]
    monkeypatch.chdir(tmp_path)  # a copy of the file alone would do the same
    monkeypatch.setattr(sys, "argv", [str(program), *arguments(program)])
    runpy.run_path(str(program), run_name="__main__")
    printed = capsys.readouterr()
    assert (printed.out.splitlines(), printed.err) == (expected, "")


def test_the_page_of_examples_has_a_line_for_each_and_no_other() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`(.+?)`\]\(\1\) \|", page, re.MULTILINE)
    assert sorted(listed) == sorted([*(each.name for each in PROGRAMS), "notebook.ipynb"])


@pytest.mark.parametrize("program", PROGRAMS, ids=[each.stem for each in PROGRAMS])
def test_an_example_begins_with_what_it_shows_and_how_to_run_it(program: Path) -> None:
    text = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    assert f"Run it: `python {program.name}`" in text


def outputs(cells: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """What was kept below the cells of a notebook: printed text, and the HTML of values."""
    for cell in cells:
        for each in cell.get("outputs", ()):
            text = each["text"] if "text" in each else each["data"]["text/html"]
            yield each["output_type"], RUN_ID.sub("RUN", "".join(text))


async def run_cells(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """What a notebook shows: each cell is run, and its last expression is its value."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found_outputs: list[tuple[str, str]] = []
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] != "code":
            continue
        *body, last = ast.parse("".join(cell["source"])).body
        value = last.value if isinstance(last, ast.Expr) else None
        await run_code(ast.Module(body if value else [*body, last], []), names)
        found = await run_code(ast.Expression(value), names) if value else None
        if printed := capsys.readouterr().out:
            found_outputs.append(("stream", printed))
        if found is not None:
            found_outputs.append(("execute_result", RUN_ID.sub("RUN", found._repr_html_())))
    return found_outputs


async def run_code(tree: ast.Module | ast.Expression, names: dict[str, Any]) -> Any:
    mode = "eval" if isinstance(tree, ast.Expression) else "exec"
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(tree, "notebook.ipynb", mode, flags=flags, dont_inherit=True)
    found = eval(code, names)
    return await found if inspect.isawaitable(found) else found


async def test_the_notebook_shows_what_is_kept_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    stored = list(outputs(NOTEBOOK["cells"]))
    assert await run_cells(capsys) == stored
    tables = [text for kind, text in stored if kind == "execute_result"]
    assert len(tables) == 3
    assert all("<table>" in text for text in tables)


class TestLineStore(PlanStoreContract):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "runs.jsonl"

    def make_store(self) -> LineStore:
        return LineStore(self.path)


async def test_a_line_store_forgets_a_write_that_a_crash_cut_off_and_nothing_else(
    tmp_path: Path,
) -> None:
    path, events = tmp_path / "runs.jsonl", journal("a", 3)
    store = LineStore(path)
    await store.append(events[:1])
    kept = path.stat().st_size
    await store.append(events[1:], [{"lost": True}])
    await store.close()
    whole = path.read_bytes()
    for end in range(kept, len(whole), 97):
        path.write_bytes(whole[:end])
        store = LineStore(path)
        assert list(await store.events("a")) == events[:1]
        await store.append(events[1:])
        assert list(await store.events("a")) == events
        await store.close()
        assert path.read_bytes().count(b"\n") == 2
