"""Writes the tables of modules in ARCHITECTURE.md: a heading a package, a row a module.

The tables stand between two marks; what is outside of them is written by people.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src" / "plansmith"
BEGIN = "<!-- modules: written by scripts/architecture -->"
END = "<!-- end of modules -->"
HEADER = "| file | what it is |\n|---|---|"


def sentence(path: Path) -> str:
    """The first line of a module's docstring, which is what the module is."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return docstring.splitlines()[0].strip() if docstring else ""


def packages(source: Path) -> list[Path]:
    """The folders that hold modules: the root first, then in the order of their paths."""
    folders = {path.parent for path in source.rglob("*.py")}
    return sorted(folders, key=lambda folder: folder.relative_to(source).parts)


def modules(folder: Path) -> list[Path]:
    """The modules of a package in the order of the disk; `__init__` is the package itself."""
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def heading(folder: Path, source: Path) -> str:
    """A package's name as the heading of its table."""
    return f"### {'/'.join([source.name, *folder.relative_to(source).parts])}"


def tables(source: Path) -> Iterator[str]:
    """Every package: its heading, what it is, and a table with a row for each of its modules."""
    for folder in packages(source):
        yield heading(folder, source)
        init = folder / "__init__.py"
        if init.exists():
            yield sentence(init)
        rows = [f"| `{path.name}` | {_cell(sentence(path))} |" for path in modules(folder)]
        if rows:
            yield "\n".join([HEADER, *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def with_tables(page: str, source: Path) -> str:
    """The page with its tables made again; where it has no marks, they come at its end."""
    written = "\n\n".join([BEGIN, *tables(source), END])
    if BEGIN not in page:
        return f"{page.rstrip()}\n\n## Modules\n\n{written}\n"
    pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
    changed, count = re.subn(pattern, lambda _: written, page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"ARCHITECTURE.md needs {BEGIN} and {END}, each once and in this order.")
    return changed


def main() -> int:
    """Write the page, or with --check say whether it would change."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = with_tables(page, SOURCE)
    if page == wanted:
        return 0
    if "--check" in sys.argv[1:]:
        print("ARCHITECTURE.md: the tables of modules are out of date; run scripts/architecture.")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    print("ARCHITECTURE.md is written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
