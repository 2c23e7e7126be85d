"""Checks the types of the Python programs in README.md and docs/, strictly, by mypy and pyright."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def programs(root: Path) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each program."""
    for page in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        place = page.relative_to(root).with_suffix("")
        stem = "_".join(place.parts).lower().replace("-", "_")
        for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            yield f"{stem}_{number}.py", text


def main() -> int:
    """Writes the programs to a folder of their own, and checks them there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, text in programs(ROOT):
            (folder / program).write_text(text, encoding="utf-8")
        settings = {
            "include": ["."],
            "strict": ["."],
            "pythonVersion": "3.11",
            "venvPath": str(ROOT),
            "venv": ".venv",
            "extraPaths": [str(path) for path in ROOT.glob("packages/*/src")],
        }
        (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        files = sorted(map(str, folder.glob("*.py")))
        mypy = subprocess.run(["mypy", *files], cwd=ROOT, check=False)  # noqa: S603, S607 - ours
        pyright = subprocess.run(["pyright", "-p", str(folder)], cwd=ROOT, check=False)  # noqa: S603, S607
    return mypy.returncode or pyright.returncode


if __name__ == "__main__":
    sys.exit(main())
