"""No module serves only one other without a reason, and names say what a thing is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.architecture.imports import importers, module_names

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "plansmith"
LIMIT = 400  # lines of a file
CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)
# Names that only the house understood. `words` stays for modules that hold texts for people.
RIDDLES = frozenset(
    (
        *("desk", "office", "purse", "kit", "past", "early", "telling", "alone", "faces", "shelf"),
        *("warmth", "deeds", "kinship", "room", "errand", "told", "said"),
    )
)


def lonely(source: Path) -> dict[str, str]:
    """Modules with one importer that could be part of it, each with that importer."""
    names = module_names(source)
    found = {name: next(iter(by)) for name, by in importers(source).items() if len(by) == 1}
    return {
        name: importer
        for name, importer in found.items()
        if "__init__.py" not in (names[name].name, names[importer].name)
        and names[importer].name != "__main__.py"
        and lines(names[name]) + lines(names[importer]) <= LIMIT
    }


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def covers(entry: Mapping[str, str], name: str, importer: str) -> bool:
    """Whether an entry of the list is about a module and its one importer."""
    wanted = {"module": name, "importer": importer}
    return all(
        re.fullmatch(re.escape(entry[key]).replace(r"\*", ".*"), value)
        for key, value in wanted.items()
        if key in entry
    )


ALLOWED = tomllib.loads((HERE / "single_importers.toml").read_text(encoding="utf-8"))["allowed"]


def test_a_module_that_serves_one_other_has_a_reason() -> None:
    """Join the two, or say in single_importers.toml why they are two files."""
    assert {
        name: f"only {importer} imports it"
        for name, importer in lonely(SOURCE).items()
        if not any(covers(entry, name, importer) for entry in ALLOWED)
    } == {}


def test_every_entry_has_a_reason_and_is_needed() -> None:
    singles = {name: next(iter(by)) for name, by in importers(SOURCE).items() if len(by) == 1}
    for entry in ALLOWED:
        assert entry.keys() & {"module", "importer"}
        assert entry.keys() <= {"module", "importer", "reason"}
        assert entry["reason"].strip()
        assert any(covers(entry, *pair) for pair in singles.items()), entry


def test_the_list_is_short() -> None:
    assert len(ALLOWED) <= 20


def riddles(name: str) -> set[str]:
    """The parts of a module's or a class's name that only the house understood."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return {part.lower() for part in parts} & RIDDLES


def test_names_of_modules_and_classes_are_no_riddles() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        classes = CLASS.findall(path.read_text(encoding="utf-8"))
        found += [str(place)] if riddles(place.stem) or riddles(place.parent.name) else []
        found += [f"{place}: {each}" for each in classes if riddles(each) or each == "Words"]
    assert found == []


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package in which only `app` imports `one`, and two modules import `two`."""
    source = tmp_path / "plansmith"
    (source / "sub").mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "app": "from plansmith.one import x\nfrom plansmith import two",
        "one": "x = 1",
        "two": "",
        "table": "PLACES = {'t': 'plansmith.two:thing', 's': 'plansmith.sub.inner'}",
        "sub/__init__": "from plansmith.sub.door import name",
        "sub/door": "name = 1",
        "sub/inner": "",
        "user": "from plansmith.sub import name",
        "other": "import plansmith.sub",
    }.items():
        (source / f"{name}.py").write_text(text)
    return source


def test_imports_are_found_also_through_tables_and_packages(package: Path) -> None:
    found = importers(package)
    assert found["plansmith.one"] == {"plansmith.app"}
    assert found["plansmith.two"] == {"plansmith.app", "plansmith.table"}
    assert found["plansmith.sub.door"] == {"plansmith.sub", "plansmith.user", "plansmith.other"}
    assert lonely(package) == {
        "plansmith.one": "plansmith.app",
        "plansmith.sub.inner": "plansmith.table",
    }


def test_two_files_that_would_be_too_long_together_are_two(package: Path) -> None:
    (package / "one.py").write_text("x = 1\n" * 399)
    assert "plansmith.one" not in lonely(package)


@pytest.mark.parametrize("name", ["local_desk", "LocalDesk", "EarlyReads", "room", "Kit"])
def test_a_riddle_is_found_in_any_spelling(name: str) -> None:
    assert riddles(name)


@pytest.mark.parametrize("name", ["bedroom", "kitchen", "ReadyQueue", "passed", "official"])
def test_a_longer_word_is_no_riddle(name: str) -> None:
    assert not riddles(name)
