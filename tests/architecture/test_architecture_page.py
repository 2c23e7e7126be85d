"""ARCHITECTURE.md's tables name every module once, in order, by the first line of its docstring."""

from __future__ import annotations

import ast
import re
from itertools import groupby
from pathlib import Path

import pytest
from scripts.architecture_tables import BEGIN, END, with_tables

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "plansmith"
ROW = re.compile(r"\| `(?P<file>[^`|]+)` \| (?P<says>.*) \|")


def tables_of(page: str) -> dict[str, list[tuple[str, str]]]:
    """The rows under each package's heading, as a reader of the page sees them."""
    found: dict[str, list[tuple[str, str]]] = {}
    package = ""
    for line in page.partition(BEGIN)[2].partition(END)[0].splitlines():
        if line.startswith("### "):
            package = line.removeprefix("### ")
            assert package not in found, f"{package} has two headings"
            found[package] = []
        elif line.startswith("| `"):
            row = ROW.fullmatch(line)
            assert row, line
            found[package].append((row["file"], row["says"].replace(r"\|", "|")))
    return found


def tables_on_disk(source: Path) -> dict[str, list[tuple[str, str]]]:
    paths = sorted(source.rglob("*.py"), key=lambda path: (path.parent.parts, path.name))
    return {
        str(folder.relative_to(source.parent)): [
            (path.name, first_line(path)) for path in group if path.name != "__init__.py"
        ]
        for folder, group in groupby(paths, key=lambda path: path.parent)
    }


def first_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    end = text.find('"""', 3) + 3  # the rest takes long to parse
    docstring = ast.get_docstring(ast.parse(text[:end]))
    assert docstring, path
    return docstring.splitlines()[0]


def test_the_tables_are_those_of_the_disk() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told, there = tables_of(page), tables_on_disk(SOURCE)
    assert list(told) == list(there), "run scripts/architecture"
    for package, rows in there.items():
        assert told[package] == rows, f"{package}: run scripts/architecture"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, says in {
        "__init__": "The package.",
        "b": "Second | with a bar.",
        "a": "First.\n\nMore that is not told.",
        "sub/__init__": "A part.",
        "sub/x": "X.",
    }.items():
        path = tmp_path / "plansmith" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"""{says}"""\n')
    return tmp_path / "plansmith"


def test_the_script_writes_the_tables_and_leaves_the_prose(source: Path) -> None:
    page = with_tables(f"# Prose\n\n{BEGIN}\nold\n{END}\n\nMore prose.\n", source)
    assert page.startswith(f"# Prose\n\n{BEGIN}")
    assert page.endswith(f"{END}\n\nMore prose.\n")
    assert "### plansmith/sub\n\nA part.\n\n| file | what it is |" in page
    assert tables_of(page) == tables_on_disk(source)
    assert tables_of(page)["plansmith"] == [("a.py", "First."), ("b.py", "Second | with a bar.")]
    assert with_tables(page, source) == page


def test_a_page_without_marks_gets_the_tables_at_its_end(source: Path) -> None:
    page = with_tables("# Prose\n", source)
    assert page.startswith("# Prose\n")
    assert tables_of(page) == tables_on_disk(source)


def test_half_a_mark_is_an_error_and_not_a_lost_page(source: Path) -> None:
    with pytest.raises(SystemExit, match="each once"):
        with_tables(f"{BEGIN}\nprose without an end", source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| `a.py` | First. |\n", ""),
        ("| `a.py` | First. |", "| `a.py` | Firstly. |"),
        ("| `a.py` | First. |", "| `a.py` | First. |\n| `c.py` | Gone. |"),
        ("### plansmith/sub", "### plansmith/other"),
        ("`a.py`", "`aa.py`"),
    ],
    ids=["missing row", "other words", "extra row", "other package", "other file"],
)
def test_a_page_that_differs_from_the_disk_is_found(source: Path, old: str, new: str) -> None:
    page = with_tables("", source)
    changed = page.replace(old, new)
    assert changed != page
    assert tables_of(changed) != tables_on_disk(source)
    assert with_tables(changed, source) == page
