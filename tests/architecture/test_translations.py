"""Every sentence that people read is said in Chinese too, with the same fields."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest
from scripts.translations import problems

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in ROOT.glob("packages/*/src/**/*.py") if "locale" not in path.parts]
FIELD = re.compile(r"\{(\w+)\}")


@pytest.fixture(autouse=True)
def _parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "parse", cache(ast.parse))


def test_every_sentence_gives_the_fields_of_its_text_and_has_its_translation() -> None:
    packages = [path.parent for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    assert [told for each in packages for told in problems(each, write=False)] == []
    codes = json.loads(next(ROOT.glob("packages/plansmith/src/**/sentences.json")).read_text())
    faults = []
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        if not re.search(r"\b(Sentence|own_text|wrong|refused)\(", source):
            continue
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            text = getattr(node.args[0], "value", None)
            given = {each.arg for each in node.keywords}
            given -= {"hint"} if name in ("wrong", "refused") else set()  # errors of commands
            makers = ("Sentence", "own_text", "wrong", "refused")
            if name not in makers or not isinstance(text, str) or None in given:
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
