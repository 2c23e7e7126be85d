"""Writes docs/licences.md: the packages that Plansmith can install, and their licences."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEAD = """\
# Licences

Plansmith is Apache-2.0. These are the packages that it asks for by name, and what they say about
their licences. `.venv/bin/python -m scripts.licences` writes this page; what these packages ask for
themselves is in `locks/`.

| package | for | licence |
|---|---|---|
"""


def licence(name: str) -> str:
    """Return the licence that a package names in its metadata."""
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return "not installed here"
    if "License-Expression" in told:
        return told["License-Expression"]
    classified = [
        each.rpartition(" :: ")[2]
        for each in told.get_all("Classifier") or ()
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    text = told["License"].splitlines() if "License" in told else []
    return ", ".join(classified) or (text[0] if text and len(text[0]) < 60 else "see its files")


def main() -> None:
    """Write the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {"the core": project["dependencies"]}
    wanted |= {
        f"`[{name}]`": lines
        for name, lines in project["optional-dependencies"].items()
        if name not in ("all", "dev")
    }
    rows: dict[str, list[str]] = {}
    for use, lines in wanted.items():
        for line in lines:
            rows.setdefault(canonicalize_name(Requirement(line).name), []).append(use)
    table = "".join(
        f"| {name} | {', '.join(uses)} | {re.sub(r'[|]', '/', licence(name))} |\n"
        for name, uses in sorted(rows.items())
    )
    (ROOT / "docs" / "licences.md").write_text(HEAD + table, encoding="utf-8")


if __name__ == "__main__":
    main()
