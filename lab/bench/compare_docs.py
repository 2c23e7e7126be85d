"""Writes what was measured, and the programs, into docs/compare.md, between its marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.bench.compare_cases import FRAMEWORKS, JOBS, PROGRAMS, TITLES
from lab.bench.compare_lines import code_lines

DOCS: Final = Path(__file__).parents[2] / "docs" / "compare.md"


def with_part(page: str, name: str, text: str) -> str:
    """Returns a page with another text between the marks of a part."""
    start, end = f"<!-- {name}: written by scripts/bench compare -->", f"<!-- end of {name} -->"
    part = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not part.search(page):
        raise ValueError(f"the page has no part {name!r}")
    return part.sub(lambda _: f"{start}\n\n{text.strip()}\n\n{end}", page)


def programs() -> str:
    """Returns every program, job by job, with the number of its lines."""
    return "\n".join(_programs())


def _programs() -> Iterator[str]:
    for job, what in JOBS.items():
        yield f"### {job.capitalize()}: {what}\n"
        for framework in FRAMEWORKS:
            path = PROGRAMS / f"{framework}_{job}.py"
            yield f"**{TITLES[framework]}**, {code_lines(path)} lines of code:\n"
            yield f"```py\n{path.read_text(encoding='utf-8')}```\n"
