"""Checks that every sentence has a Chinese translation; with --write adds what is missing, empty.

A sentence is written where it is said: `Sentence("there is no file {name}", name=…)`. Each package
has a gettext catalogue, src/NAME/locale/zh.po; --write also removes from it what nobody says.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAKERS = ("Sentence", "own_text")
# Errors of the command line: what is wrong, and what helps.
ERRORS = ("wrong", "refused")
ENTRY = re.compile(r'^msgid (".*")\nmsgstr (".*")$', re.MULTILINE)
CALL = re.compile(rf"\b({'|'.join((*MAKERS, *ERRORS))})\(")
FIELD = re.compile(r"\{(\w+)\}")
HEAD = 'msgid ""\nmsgstr "Language: zh\\nContent-Type: text/plain; charset=UTF-8\\n"\n'


@cache
def calls_in(path: Path) -> list[tuple[str, ast.Call]]:
    """Return the calls of a module that say a sentence, each with the name of what makes it."""
    text = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(text)) if CALL.search(text) else ()
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    named = ((getattr(e.func, "attr", getattr(e.func, "id", "")), e) for e in calls)
    return [(name, each) for name, each in named if name in (*MAKERS, *ERRORS)]


def said_in(path: Path) -> Iterator[str]:
    """Yield every sentence that a module says as a literal."""
    for name, call in calls_in(path):
        for each in call.args[: 1 if name in MAKERS else 2]:
            yield from _literals(each)


def _literals(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from _literals(body)
            yield from _literals(other)
        case _:
            pass


def read_catalogue(path: Path) -> dict[str, str]:
    """Read the translations of a catalogue."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = ((json.loads(one), json.loads(other)) for one, other in ENTRY.findall(text))
    return {one: other for one, other in found if one}


def write_catalogue(path: Path, entries: dict[str, str]) -> None:
    """Write a catalogue, sorted."""
    path.parent.mkdir(exist_ok=True)
    shown = ((_quoted(one), _quoted(other)) for one, other in sorted(entries.items()))
    lines = (f"\nmsgid {one}\nmsgstr {other}\n" for one, other in shown)
    path.write_text(HEAD + "".join(lines), encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def problems(package: Path, *, write: bool) -> Iterator[str]:
    """Say what a package's catalogue lacks, has too much, or translates with other fields."""
    source = package / "src" / package.name.replace("-", "_")
    codes = {
        code: text
        for path in source.rglob("sentences.json")
        for code, text in json.loads(path.read_text(encoding="utf-8")).items()
    }
    every = json.loads(
        next(ROOT.glob("packages/plansmith/src/**/sentences.json")).read_text(encoding="utf-8")
    )
    said = {text for path in source.rglob("*.py") for text in said_in(path)} - every.keys()
    said |= codes.keys()
    path = source / "locale" / "zh.po"
    have = read_catalogue(path)
    if write:
        have = {text: have.get(text, "") for text in said}
        write_catalogue(path, have)
    yield from (
        f"{package.name}: no translation of {text!r}" for text in sorted(said) if not have.get(text)
    )
    yield from (
        f"{package.name}: nothing says {text!r} any more" for text in sorted(have.keys() - said)
    )
    for text, other in sorted(have.items()):
        if other and set(FIELD.findall(codes.get(text, text))) != set(FIELD.findall(other)):
            yield f"{package.name}: other fields in the translation of {text!r}"


def main() -> int:
    """Print every problem; fail if there is one."""
    found = [
        each
        for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
        for each in problems(path.parent, write="--write" in sys.argv)
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
