"""Every sentence that people read is said in Chinese too, with the same fields."""

from __future__ import annotations

import json
import re
from pathlib import Path

from scripts.translations import ERRORS, FIELD, calls_in, problems

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in ROOT.glob("packages/*/src/**/*.py") if "locale" not in path.parts]


def test_every_sentence_gives_the_fields_of_its_text_and_has_its_translation() -> None:
    packages = [path.parent for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    assert [told for each in packages for told in problems(each, write=False)] == []
    codes = json.loads(next(ROOT.glob("packages/plansmith/src/**/sentences.json")).read_text())
    faults = []
    for path in SOURCES:
        for name, node in calls_in(path):
            text = getattr(node.args[0], "value", None)
            given = {each.arg for each in node.keywords}
            given -= {"hint"} if name in ERRORS else set()
            if not isinstance(text, str) or None in given:
                continue
            if given != set(FIELD.findall(codes.get(text, text))):
                faults.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert faults == []


def test_no_code_is_without_a_use() -> None:
    codes = json.loads(next(ROOT.glob("packages/plansmith/src/**/sentences.json")).read_text())
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    starts = set(re.findall(r"""f["']([a-z_0-9]+\.[a-z_0-9]*)\{""", source))
    # The command line, shown plans and reports take the rest of a code as the key of a text.
    starts |= {"cli.", "report.", "show."}
    used = {code for code in codes if code.startswith(tuple(starts)) or f'"{code}"' in source}
    assert codes.keys() - used == set()
