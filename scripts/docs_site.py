"""Puts together what the documentation site is made of: docs/, and pages made from the code."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from scripts.docs_reference import reference

ROOT: Final = Path(__file__).resolve().parent.parent
# Pages that the site has from elsewhere, by where they are in the repository.
ELSEWHERE: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "lab/bench/results": "results",
    "examples/README.md": "examples.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "SECURITY.md": "security-policy.md",
}
# Folders whose pages are all in the menu.
FOLDERS: Final = ("how-to", "results")
LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def assemble(out: Path) -> None:
    """Writes the sources of the site to a folder."""
    pages = out / "docs"
    shutil.copytree(ROOT / "docs", pages)
    for source, target in ELSEWHERE.items():
        for file in sorted((ROOT / source).glob("*.md")) or [ROOT / source]:
            place = pages / (f"{target}/{file.name}" if file.parent == ROOT / source else target)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    places = dict(_places(pages))
    for place in pages.rglob("*.md"):
        relative = place.relative_to(pages).as_posix()
        source = next((known for known, at in places.items() if at == relative), "")
        text = place.read_text(encoding="utf-8")
        place.write_text(_relinked(text, source, relative, places), encoding="utf-8")
    for name, text in reference().items():
        place = pages / "reference" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = config.replace("paths: [packages]", f"paths: [{ROOT / 'src'}]")
    config = config.replace("[scripts/", f"[{ROOT / 'scripts'}/")
    for folder in FOLDERS:
        names = sorted(file.name for file in (pages / folder).glob("*.md"))
        listed = ", ".join(f"{folder}/{name}" for name in names)
        config = re.sub(
            rf"\[\] # every page of .*{folder}$", f"[{listed}]", config, flags=re.MULTILINE
        )
    (out / "mkdocs.yml").write_text(config, encoding="utf-8")


def _places(pages: Path) -> Iterator[tuple[str, str]]:
    """Yields each page's place in the repository, and on the site."""
    for file in pages.rglob("*"):
        place = file.relative_to(pages).as_posix()
        folder, _, name = place.rpartition("/")
        moved = {at: source for source, at in ELSEWHERE.items()}
        if place in moved:
            yield moved[place], place
        elif folder in moved:
            yield f"{moved[folder]}/{name}", place
        else:
            yield f"docs/{place}", place


def _relinked(text: str, source: str, place: str, places: Mapping[str, str]) -> str:
    """Points links at the pages of the site; what the site does not have becomes plain text."""

    def relink(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        wanted = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120
        if wanted not in places:
            return words
        return f"[{words}]({os.path.relpath(places[wanted], os.path.dirname(place))}{anchor})"  # noqa: PTH120

    return LINK.sub(relink, text)


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
