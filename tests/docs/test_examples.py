"""Every public name says what it does; its examples, and the programs of examples/, run."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import io
import json
import pkgutil
import re
import runpy
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from examples.custom_store import LineStore
from scripts.docs_reference import MEMBERS, PYTHON_PAGES
from tests.servers.real import node_servers

from plansmith.testing.contracts import JournalStoreContract, journal

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
    return await evaluated(code, names)


async def evaluated(code: CodeType, names: dict[str, Any]) -> Any:
    found = eval(code, names)
    return await found if inspect.isawaitable(found) else found


async def test_the_notebook_shows_what_is_kept_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    stored = list(outputs(NOTEBOOK["cells"]))
    assert await run_cells(capsys) == stored
    tables = [text for kind, text in stored if kind == "execute_result"]
    assert len(tables) == 3
    assert all("<table>" in text for text in tables)


class TestLineStore(JournalStoreContract):
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


FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)
SHARED = re.compile(r"^Args of methods:\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}\**(\w+): \S", re.MULTILINE)


class Documented(NamedTuple):
    """A public name, and the class that it is a member of."""

    place: str
    value: Any
    owner: type | None = None

    @property
    def text(self) -> str:
        return inspect.getdoc(self.value) or ""

    @property
    def function(self) -> Any:
        """The function behind a method or a constructor."""
        if inspect.isclass(self.value):
            return vars(self.value).get("__init__")
        return getattr(self.value, "__func__", self.value)

    @property
    def has_example(self) -> bool:
        return ">>> " in self.text

    def explained(self) -> set[str]:
        """The arguments that the docstring explains, or that of the class for all its methods."""
        about = inspect.getdoc(self.owner) or "" if self.owner else ""
        sections = [*SECTION.findall(f"{self.text}\n"), *SHARED.findall(f"{about}\n")]
        return {*ENTRY.findall("".join(sections))}


def documented(path: str) -> Iterator[Documented]:
    """Yields a name of the reference and its public members; of a module, its own classes."""
    value = pkgutil.resolve_name(path)
    if inspect.ismodule(value):
        for name, each in vars(value).items():
            if inspect.isclass(each) and each.__module__ == path and name[0] != "_":
                yield from documented(f"{path}.{name}")
        return
    yield Documented(path, value)
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        kinds = (FunctionType, classmethod, staticmethod, property, cached_property)
        is_public = name in MEMBERS[path] if path in MEMBERS else name[0] != "_"
        if is_public and isinstance(member, kinds):
            yield Documented(f"{path}.{name}", member, value)


PUBLIC = [each for path in PYTHON_PAGES["api"].names for each in documented(path)]
EXPLAINED = [
    each
    for page in ("api", "parts", "errors", "ports")
    for path in PYTHON_PAGES[page].names
    for each in documented(path)
]
TESTING = [each for path in PYTHON_PAGES["testing"].names for each in documented(path)]
ALL = [each for page in PYTHON_PAGES.values() for path in page.names for each in documented(path)]
EXAMPLES = [each for each in ALL if each.has_example]


def places(some: list[Documented]) -> dict[str, Any]:
    return {"argvalues": some, "ids": [each.place for each in some]}


def test_every_name_of_the_reference_begins_with_a_sentence_that_says_what_it_is() -> None:
    first = {each.place: each.text.partition("\n")[0] for each in ALL}
    assert {place: line for place, line in first.items() if not line.endswith(".")} == {}


def parameters(named: Documented) -> set[str]:
    """What a caller passes: the parameters of a function, the fields of a record."""
    fields = getattr(named.value, "model_fields", None) or getattr(
        named.value, "__struct_fields__", None
    )
    if inspect.isclass(named.value) and fields:
        return set(fields)
    if named.place in MEMBERS or getattr(named.value, "_is_protocol", False):
        return set()  # a program does not make one
    if named.function is None or isinstance(named.value, (property, cached_property)):
        return set()
    own = named.value if inspect.isfunction(named.value) else named.function
    return set(inspect.signature(own).parameters) - {"self", "cls"}


def test_every_argument_of_a_public_name_is_documented() -> None:
    unexplained = {each.place: parameters(each) - each.explained() for each in EXPLAINED}
    assert {place: names for place, names in unexplained.items() if names} == {}


def _is_generated(named: Documented) -> bool:
    """Whether no person wrote the constructor: that of a dataclass or a protocol."""
    is_protocol = bool(getattr(named.value, "_is_protocol", False))
    code = getattr(named.function, "__code__", None)
    return is_protocol or (code is not None and code.co_filename == "<string>")


def raised(named: Documented) -> set[str]:
    """The exceptions that a function's own code raises by name."""
    if named.function is None or isinstance(named.value, (property, cached_property)):
        return set()
    if _is_generated(named):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(named.function)))
    found = [each.exc for each in ast.walk(tree) if isinstance(each, ast.Raise)]
    return {
        each.func.id
        for each in found
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }


def test_every_error_that_a_public_function_raises_is_documented() -> None:
    missing = [
        f"{each.place}: {name}"
        for each in EXPLAINED
        for name in raised(each)
        if not re.search(rf"^ +{name}: ", each.text, re.MULTILINE)
    ]
    assert missing == []


def test_every_public_name_has_an_example() -> None:
    needing = [each for each in PUBLIC if not isinstance(each.value, (property, cached_property))]
    assert [each.place for each in needing if not each.has_example] == []


def test_every_class_for_tests_is_in_an_example() -> None:
    examples = [each.text.partition(">>> ")[2] for each in TESTING]
    unused = {each.value.__name__ for each in TESTING if each.owner is None}
    unused -= {word for text in examples for word in re.findall(r"\w+", text)}
    assert unused == set()


@pytest.mark.parametrize("named", **places(EXAMPLES))
def test_every_example_of_a_docstring_runs(
    named: Documented, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    before = inspect.getdoc(named.owner) or "" if named.owner else ""
    asyncio.run(run_examples(named.place, before, named.text))


async def run_examples(place: str, *texts: str) -> None:
    """Runs examples one after the other, as `python -m asyncio` would."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for text in texts:
        for example in doctest.DocTestParser().get_examples(text, place):
            code = compile(example.source, place, "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            printed = await output(code, names, raises=example.exc_msg is not None)
            want = (example.exc_msg or example.want).replace("…", "...")
            assert doctest.OutputChecker().check_output(want, printed, FLAGS), (
                f"{place}: {example.source}printed {printed}"
            )


async def output(code: CodeType, names: dict[str, Any], *, raises: bool) -> str:
    """Returns what a statement prints, or the exception that it raises."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            await evaluated(code, names)
    except Exception as error:
        if not raises:
            raise
        return "".join(traceback.format_exception_only(error))
    return printed.getvalue()
